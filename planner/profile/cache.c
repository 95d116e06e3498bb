/*
 * Profiles between runs: a file for each device, and one for each group that
 * was measured together, in the cache directory.
 *
 * A file is named by the plugin and the settings of the device; inside stands
 * what else the measurements belong to: the device's model, driver, plugin
 * build and core version. When those change, the file is measured again and
 * written over.
 */
#include "../../core/base/names.h"
#include "../../core/base/error.h"
#include "../../core/base/hash.h"
#include "../../core/base/paths.h"
#include "../../core/base/text.h"
#include "../../core/config/config.h"
#include "store.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT 3
#define MAX_SIZE (UINT64_C(64) << 20)

/* With the end of the text, so that "a", "b" is not "ab". */
static uint64_t hash(uint64_t h, const char *text)
{
    return core_hash(h, text, strlen(text) + 1);
}

/* ------------------------------------------------------------------------ */
/* Names                                                                    */

/* Cards of one model are measured as one. Simulated devices may differ by what
 * their plugin does not say. */
static const char *label_of(const clv_device *dev)
{
    return dev->info.clock == CLV_CLOCK_REAL ? dev->plugin->name : dev->id;
}

/* Values of all keys that the plugin has for itself and the device: they may
 * change how fast it is. The core's own keys of devices do not. */
typedef struct settings {
    const clv_device *dev;
    uint64_t hash;
} settings;

static bool is_of_core(const char *key)
{
    uint32_t n;
    const clv_option *keys = core_device_keys(&n);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(keys[i].key, key))
            return true;
    return false;
}

static void add_setting(void *ctx, const char *section, const clv_option *o)
{
    settings *s = ctx;
    const clv_device *dev = s->dev;
    if (strcmp(section, dev->plugin->name) || is_of_core(o->key))
        return;
    char *key = o->scope == CLV_SCOPE_DEVICE
                    ? core_format("%s:%s.%s", section, dev->info.id, o->key)
                    : core_format("%s.%s", section, o->key);
    const char *value = key ? clv_config_get(dev->ctx->config, key) : NULL;
    if (value) {
        s->hash = hash(s->hash, o->key);
        s->hash = hash(s->hash, value);
    }
    free(key);
}

static uint64_t hash_of(const clv_device *dev)
{
    settings s = {dev, CORE_HASH_SEED};
    s.hash = hash(s.hash, label_of(dev));
    s.hash = hash(s.hash, dev->info.name);
    core_config_each(dev->ctx->config, add_setting, &s);
    return s.hash;
}

static char *key_of(const clv_device *dev)
{
    return core_format("%s (%s), driver %s, %u units, plugin %s, core %s, "
                       "format %d",
                       label_of(dev), dev->info.name, dev->info.driver,
                       dev->info.units, dev->api->build_id, clv_version(),
                       FORMAT);
}

uint64_t planner_profile_device_hash(const clv_device *dev)
{
    char *key = key_of(dev);
    const uint64_t set = hash_of(dev);
    uint64_t h =
        key ? core_hash(hash(CORE_HASH_SEED, key), &set, sizeof set) : 0;
    free(key);
    return h;
}

/* NULL without a cache directory, or when memory runs out. */
static char *path_of(const clv_context *ctx, const char *name, uint64_t h)
{
    const char *dir = clv_config_get(ctx->config, "core.cache_dir");
    if (!dir || !*dir)
        return NULL;
    char *path = core_format("%s/profile-%s-%016" PRIx64 ".json", dir, name, h);
    for (char *c = path ? path + strlen(dir) + 1 : NULL; c && *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
    return path;
}

static char *path_of_device(const clv_context *ctx, const clv_device *dev)
{
    char *name = core_format("%s-%s", label_of(dev), dev->info.name);
    char *path = name ? path_of(ctx, name, hash_of(dev)) : NULL;
    free(name);
    return path;
}

clv_status planner_profile_name(planner_profile *profile,
                                planner_profile_device *dev)
{
    free(dev->key);
    free(dev->path); /* of an attempt without memory for the key */
    dev->key = key_of(dev->dev);
    dev->path = path_of_device(profile->ctx, dev->dev);
    return dev->key ? CLV_OK : core_no_memory("for a profile");
}

/* Of devices together; false when memory runs out. */
static bool name_set(const planner_profile *profile, clv_device *const *devs,
                     uint32_t n, const planner_workload_kind *weights,
                     char **key, char **path)
{
    core_text text = {0};
    uint64_t h = CORE_HASH_SEED;
    for (uint32_t i = 0; i < n; i++) {
        char *one = key_of(devs[i]);
        core_text_add(&text, "%s%s", i ? "; " : "", one ? one : "");
        text.failed |= !one;
        free(one);
        const uint64_t one_hash = hash_of(devs[i]);
        h = core_hash(h, &one_hash, sizeof one_hash);
    }
    if (weights->weight_dtype)
        h = core_hash(h, weights, sizeof *weights);
    *path = path_of(profile->ctx, "together", h);
    return core_text_take(&text, key) == CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

/* Maps a file that is there; false otherwise, with a warning if it cannot be
 * read. */
static bool open_file(const planner_profile *profile, const char *path,
                      clv_file_map *map)
{
    if (!path || access(path, F_OK))
        return false;
    clv_status status = clv_file_map_open(path, map);
    if (!status && map->size <= MAX_SIZE)
        return true;
    if (!status)
        clv_file_map_close(map);
    clv_log(profile->ctx, CLV_LOG_WARN, "profile %s is not used: %s", path,
            status ? clv_last_error() : "it is too large");
    return false;
}

/* What became of reading a file. */
static clv_status judge(const planner_profile *profile, const char *path,
                        clv_status status)
{
    if (!status || status == CLV_ERR_NO_MEMORY)
        return status;
    clv_log(profile->ctx, CLV_LOG_WARN,
            "profile %s is not used, and measured "
            "again: %s",
            path, clv_last_error());
    return CLV_OK;
}

static void write_file(planner_profile *profile, const char *path, char *text)
{
    const char *dir = clv_config_get(profile->ctx->config, "core.cache_dir");
    clv_file_writer *writer = NULL;
    clv_status status = core_make_dirs(dir);
    if (!status)
        status = clv_file_writer_open(path, &writer);
    if (!status)
        status = clv_file_writer_write(writer, text, strlen(text));
    if (!status)
        status = clv_file_writer_commit(writer);
    else
        clv_file_writer_discard(writer);
    if (status)
        clv_log(profile->ctx, CLV_LOG_WARN, "measurements are not kept: %s",
                clv_last_error());
}

clv_status planner_profile_load(planner_profile *profile,
                                planner_profile_device *dev)
{
    clv_file_map map;
    if (!open_file(profile, dev->path, &map))
        return CLV_OK;
    pthread_rwlock_wrlock(&profile->lock);
    clv_status status =
        planner_profile_parse(dev, (const char *)map.data, map.size);
    pthread_rwlock_unlock(&profile->lock);
    clv_file_map_close(&map);
    return judge(profile, dev->path, status);
}

void planner_profile_save(planner_profile *profile,
                          const planner_profile_device *dev)
{
    char *text = NULL;
    if (dev->path && !planner_profile_format(dev, &text))
        write_file(profile, dev->path, text);
    free(text);
}

clv_status planner_profile_load_set(planner_profile *profile,
                                    clv_device *const *devs, uint32_t n,
                                    const planner_workload_kind *weights)
{
    char *key = NULL, *path = NULL;
    clv_file_map map;
    planner_contention c = {.weights = *weights,
                            .alone = calloc(n, sizeof *c.alone),
                            .slowdown = calloc(n, sizeof *c.slowdown)};
    clv_status status = c.alone && c.slowdown &&
                                name_set(profile, devs, n, weights, &key, &path)
                            ? CLV_OK
                            : core_no_memory("for a profile");
    bool taken = false;
    if (!status && open_file(profile, path, &map)) {
        status = planner_profile_parse_set((const char *)map.data, map.size,
                                           key, n, &c);
        clv_file_map_close(&map);
        if (!status) {
            pthread_rwlock_wrlock(&profile->lock);
            status = planner_profile_add_set(profile, devs, n, &c);
            pthread_rwlock_unlock(&profile->lock);
            taken = !status;
        }
        status = judge(profile, path, status);
    }
    if (!taken) {
        free(c.alone);
        free(c.slowdown);
    }
    free(key);
    free(path);
    return status;
}

void planner_profile_save_set(planner_profile *profile, clv_device *const *devs,
                              uint32_t n)
{
    char *key = NULL, *path = NULL, *text = NULL;
    const planner_profile_set *set = NULL;
    for (uint32_t i = 0; i < profile->n_sets; i++)
        if (profile->sets[i].n == n &&
            !memcmp(profile->sets[i].devices, devs, n * sizeof *devs))
            set = &profile->sets[i];
    if (set &&
        name_set(profile, devs, n, &set->contention.weights, &key, &path) &&
        path && !planner_profile_format_set(set, key, &text))
        write_file(profile, path, text);
    free(text);
    free(key);
    free(path);
}
