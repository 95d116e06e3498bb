#include "plugin_search.h"
#include "../base/error.h"

#include "../base/names.h"
#include "loader.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "cleave_"
#define SUFFIX ".so"

/* The name in "cleave_NAME.so"; false if the file is named otherwise. */
static bool plugin_name(const char *file, char out[NAME_MAX + 1])
{
    size_t n = strlen(file), fixed = strlen(PREFIX) + strlen(SUFFIX);
    if (n <= fixed || n > NAME_MAX || strncmp(file, PREFIX, strlen(PREFIX)) ||
        strcmp(file + n - strlen(SUFFIX), SUFFIX))
        return false;
    memcpy(out, file + strlen(PREFIX), n - fixed);
    out[n - fixed] = 0;
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static clv_status try_file(clv_context *ctx, const char *dir, const char *file)
{
    char name[NAME_MAX + 1];
    if (!plugin_name(file, name))
        return CLV_OK;
    char *path = core_format("%s/%s", dir, file);
    clv_status st = path ? core_loader_try(ctx, path, name, false)
                         : core_no_memory("to look for plugins");
    free(path);
    return st;
}

/* The user named the file: it may have any name, but its place must not depend
 * on the working directory. */
static clv_status try_listed(clv_context *ctx, const char *path)
{
    if (path[0] != '/')
        return core_loader_stop(
            ctx, path,
            clv_error(CLV_ERR_REFUSED,
                      "a plugin file must be given by its absolute "
                      "path; correct core.plugin_files"));
    char name[NAME_MAX + 1] = "";
    plugin_name(strrchr(path, '/') + 1, name);
    return core_loader_try(ctx, path, name, true);
}

static clv_status scan(clv_context *ctx, const char *dir)
{
    if (dir[0] != '/')
        return core_loader_stop(
            ctx, dir,
            clv_error(CLV_ERR_REFUSED,
                      "a plugin directory must be given by its "
                      "absolute path; correct core.plugin_dirs"));
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, by_name);
    if (n < 0)
        return core_loader_stop(
            ctx, dir,
            clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                      "the plugin directory cannot be read: %s; "
                      "set core.plugin_dirs",
                      strerror(errno)));
    clv_status st = CLV_OK;
    for (int i = 0; i < n; i++) {
        if (st == CLV_OK)
            st = try_file(ctx, dir, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return st;
}

/* Every path in the value of key, separated by ':'. */
static clv_status for_each(clv_context *ctx, const char *key,
                           clv_status (*visit)(clv_context *, const char *))
{
    const char *list = clv_config_get(ctx->config, key), *item;
    size_t n;
    clv_status st = CLV_OK;
    while (st == CLV_OK && core_next_item(&list, ":", &item, &n)) {
        char *path = strndup(item, n);
        st = path ? visit(ctx, path) : core_no_memory("to look for plugins");
        free(path);
    }
    return st;
}

clv_status core_plugin_search(clv_context *ctx)
{
    clv_status st = for_each(ctx, "core.plugin_files", try_listed);
    return st == CLV_OK ? for_each(ctx, "core.plugin_dirs", scan) : st;
}
