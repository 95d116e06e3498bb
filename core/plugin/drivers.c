#include "drivers.h"

#include "../base/cache.h"
#include "../base/names.h"
#include "../base/text.h"
#include "../config/config.h"
#include "manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static void add_file(core_text *text, const char *path)
{
    struct stat st;
    if (!stat(path, &st))
        core_text_add(text, "%s %lld.%09ld\n", path,
                      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void add_variables(core_text *text, const char *prefix)
{
    for (char **v = environ; v && *v; v++)
        if (!strncmp(*v, prefix, strlen(prefix)))
            core_text_add(text, "%s\n", *v);
}

static void add_boot(core_text *text)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(id, sizeof id, file))
        core_text_add(text, "%s", id);
    if (file)
        fclose(file);
}

/* The environment's values are among its variables. */
static void add_value(void *text, const char *section, const char *key,
                      const char *value, core_config_rank rank)
{
    if (rank != CORE_RANK_ENV)
        core_text_add(text, "%s.%s=%s\n", section, key, value);
}

/* All that the plugin's devices may depend on; NULL: no memory. */
static char *describe(const clv_context *ctx, const char *path,
                      const core_manifest *manifest)
{
    const char *list = manifest->drivers, *item;
    size_t n;
    core_text text = {0};
    char *out = NULL;
    core_text_add(&text, "cleave %s\n", clv_version());
    add_file(&text, path);
    add_boot(&text);
    add_variables(&text, "CLEAVE_");
    while (core_next_item(&list, " \t", &item, &n)) {
        char *word = strndup(item, n);
        if (word && word[0] == '/')
            add_file(&text, word);
        else if (word)
            add_variables(&text, word);
        text.failed |= !word;
        free(word);
    }
    core_config_each_given(ctx->config, manifest->name, add_value, &text);
    return core_text_take(&text, &out) == CLV_OK ? out : NULL;
}

/* Directory and key of the cache; false: there is none. */
static bool place(const clv_context *ctx, const char *path, char **dir,
                  char **key)
{
    *dir = core_context_cache(ctx, "drivers");
    *key = core_format("drivers of %s", path);
    return *dir && *key;
}

char *core_drivers_recall(const clv_context *ctx, const core_plugin_file *file,
                          const core_manifest *manifest)
{
    char *dir = NULL, *key = NULL, *now = NULL, *ids = NULL;
    void *data = NULL;
    uint64_t size = 0;
    if (manifest->drivers[0] && place(ctx, file->path, &dir, &key) &&
        core_cache_get(dir, key, &data, &size) == CLV_OK)
        now = describe(ctx, file->path, manifest);
    size_t n = now ? strlen(now) + 1 : 0;
    if (n && size > n && !memcmp(data, now, n))
        ids = strndup((char *)data + n, (size_t)size - n);
    free(data);
    free(now);
    free(dir);
    free(key);
    return ids;
}

void core_drivers_remember(clv_context *ctx, const core_plugin *plugin,
                           const char *ids)
{
    char *dir, *key, *now = describe(ctx, plugin->path, plugin->manifest);
    bool known = place(ctx, plugin->path, &dir, &key);
    char *data = now ? core_format("%s%c%s", now, 0, ids) : NULL;
    if (known && data &&
        core_cache_put(dir, key, data, strlen(now) + 1 + strlen(ids)) != CLV_OK)
        clv_log(ctx, CLV_LOG_INFO, "%s", clv_last_error());
    free(data);
    free(now);
    free(dir);
    free(key);
}
