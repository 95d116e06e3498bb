#include "loader.h"

#include "config.h"
#include "device.h"
#include "plugin_module.h"
#include "plugin_file.h"
#include "names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX   "cleave_"
#define SUFFIX   ".so"
#define MAX_NAME 32

/* A file considered. pub's strings are its own. */
typedef struct candidate {
    clv_candidate pub;
    char *path, *name, *plugin, *version, *reason;
} candidate;

struct core_loader {
    candidate **candidates;
    uint32_t n_candidates;
    core_id_list found; /* every device enumerated, opened or not */
};

static clv_status no_memory(void)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory to load plugins");
}

static void free_candidate(candidate *c)
{
    if (!c)
        return;
    free(c->path);
    free(c->name);
    free(c->plugin);
    free(c->version);
    free(c->reason);
    free(c);
}

/* path is copied. */
static candidate *add_candidate(core_loader *l, const char *path,
                                const char *name)
{
    candidate **list = reallocarray(l->candidates, l->n_candidates + 1u,
                                    sizeof *list);
    if (!list)
        return NULL;
    l->candidates = list;
    candidate *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->path = strdup(path);
    c->name = strdup(name);
    if (!c->path || !c->name) {
        free_candidate(c);
        return NULL;
    }
    c->pub = (clv_candidate){.path = c->path,
                             .plugin = "",
                             .version = "",
                             .stage = CLV_STAGE_FOUND,
                             .reason = "",
                             .abi = "",
                             .kinds = ""};
    list[l->n_candidates++] = c;
    return c;
}

/* Notes why the candidate stopped: the thread's message. */
static void stop(clv_context *ctx, candidate *c, uint32_t level,
                 clv_status status)
{
    c->pub.status = status;
    free(c->reason);
    c->reason = strdup(clv_last_error());
    c->pub.reason = c->reason ? c->reason : clv_status_name(status);
    clv_log(ctx, level, "%s: %s", c->path, c->pub.reason);
}

/* ------------------------------------------------------------------------ */
/* Lists of names in the configuration                                      */

static bool same(const char *item, size_t size, const char *name)
{
    return strlen(name) == size && !memcmp(item, name, size);
}

/* core.plugins: names allowed, '-name' denied. */
static bool plugin_allowed(const clv_context *ctx, const char *name)
{
    const char *list = clv_config_get(ctx->config, "core.plugins"), *item;
    size_t n;
    bool any = false, named = false;
    while (core_next_item(&list, ", ", &item, &n)) {
        if (item[0] == '-') {
            if (same(item + 1, n - 1, name))
                return false;
        } else {
            any = true;
            named |= same(item, n, name);
        }
    }
    return named || !any;
}

/* Position of the device in core.devices, by id or plugin; that of one not
 * listed is -1, and 0 where there is no list. */
static int device_position(const clv_context *ctx, const char *id,
                           const char *plugin)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    int position = 0;
    while (core_next_item(&list, ", ", &item, &n)) {
        if (same(item, n, id) || same(item, n, plugin))
            return position;
        position++;
    }
    return position ? -1 : 0;
}

static bool candidate_named(void *ctx, const char *name)
{
    const core_loader *l = ctx;
    for (uint32_t i = 0; i < l->n_candidates; i++)
        if (!strcmp(l->candidates[i]->name, name))
            return true;
    return false;
}

/* Every plugin that core.plugins allows by name has a file. */
static clv_status check_allowed(const clv_context *ctx)
{
    const char *list = clv_config_get(ctx->config, "core.plugins"), *item;
    size_t n;
    while (core_next_item(&list, ", ", &item, &n)) {
        char name[MAX_NAME + 1];
        if (item[0] == '-')
            continue;
        bool known = n <= MAX_NAME;
        if (known) {
            memcpy(name, item, n);
            name[n] = 0;
            known = candidate_named(ctx->loader, name);
        }
        if (!known)
            return clv_error(CLV_ERR_NOT_FOUND,
                             "%s: core.plugins: there is no plugin '%.*s' in "
                             "%s; correct the name or core.plugin_dirs",
                             clv_config_origin(ctx->config, "core.plugins"),
                             (int)n, item,
                             clv_config_get(ctx->config, "core.plugin_dirs"));
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Devices                                                                  */

static clv_status add_device(clv_context *ctx, clv_device *dev)
{
    clv_device **list =
        reallocarray(ctx->devices, ctx->n_devices + 1u, sizeof *list);
    if (!list)
        return no_memory();
    ctx->devices = list;
    list[ctx->n_devices++] = dev;
    return CLV_OK;
}

/* Opens the devices that the configuration wants. One that fails does not keep
 * the others from being used; the first failure is noted. */
static clv_status open_devices(clv_context *ctx, core_plugin *p, candidate *c)
{
    clv_device_info *infos;
    uint32_t n;
    clv_status st = core_plugin_enumerate(p, &infos, &n);
    if (st != CLV_OK)
        return st;
    c->pub.stage = CLV_STAGE_READY;
    for (uint32_t i = 0; i < n; i++) {
        clv_device *dev = NULL;
        char id[CORE_DEVICE_ID_SIZE];
        core_device_id(p, &infos[i], id);
        core_id_list_add(&ctx->loader->found, id);
        if (device_position(ctx, id, p->name) < 0)
            continue;
        clv_status one = core_device_open(p, i, &infos[i], &dev);
        if (one == CLV_OK && (one = add_device(ctx, dev)) != CLV_OK)
            core_device_close(dev);
        if (one == CLV_OK)
            c->pub.n_devices++;
        else if (c->pub.status == CLV_OK)
            stop(ctx, c, CLV_LOG_WARN, one);
    }
    free(infos);
    return CLV_OK;
}

static int by_position(const clv_context *ctx, const clv_device *dev)
{
    return device_position(ctx, dev->id, dev->plugin->name);
}

/* Stable: devices named by their plugin keep the order they were found in. */
static void sort_devices(clv_context *ctx)
{
    for (uint32_t i = 1; i < ctx->n_devices; i++) {
        clv_device *dev = ctx->devices[i];
        uint32_t j = i;
        for (; j && by_position(ctx, ctx->devices[j - 1]) >
                        by_position(ctx, dev); j--)
            ctx->devices[j] = ctx->devices[j - 1];
        ctx->devices[j] = dev;
    }
}

static bool device_named(const clv_context *ctx, const char *item, size_t n)
{
    for (uint32_t i = 0; i < ctx->n_devices; i++)
        if (same(item, n, ctx->devices[i]->id) ||
            same(item, n, ctx->devices[i]->plugin->name))
            return true;
    return false;
}

/* Why the plugin of that device is not there, "" if there is no reason. */
static const char *failure_of(const core_loader *l, const char *item)
{
    for (uint32_t i = 0; i < l->n_candidates; i++) {
        const candidate *c = l->candidates[i];
        if (c->pub.status != CLV_OK &&
            same(item, strcspn(item, ":, "), c->name))
            return c->pub.reason;
    }
    return "";
}

/* Every item of core.devices names a device that is open. */
static clv_status check_devices(const clv_context *ctx)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    while (core_next_item(&list, ", ", &item, &n)) {
        if (device_named(ctx, item, n))
            continue;
        const char *reason = failure_of(ctx->loader, item);
        return clv_error(CLV_ERR_NOT_FOUND,
                         "%s: core.devices: there is no device '%.*s'%s%s; "
                         "present: %s",
                         clv_config_origin(ctx->config, "core.devices"), (int)n,
                         item, reason[0] ? ": " : "", reason,
                         ctx->loader->found.text[0] ? ctx->loader->found.text
                                                    : "none");
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Candidates                                                               */

/* The name in "cleave_NAME.so"; NULL if the file is named otherwise. */
static char *plugin_name(const char *file)
{
    size_t n = strlen(file), fixed = strlen(PREFIX) + strlen(SUFFIX);
    if (n <= fixed || strncmp(file, PREFIX, strlen(PREFIX)) ||
        strcmp(file + n - strlen(SUFFIX), SUFFIX))
        return NULL;
    return strndup(file + strlen(PREFIX), n - fixed);
}

static clv_status check_candidate(const clv_context *ctx, const candidate *c)
{
    if (!core_name_ok(c->name, MAX_NAME))
        return clv_error(CLV_ERR_REFUSED,
                         "'%s' is no name for a plugin: it takes small "
                         "letters, digits and '_'; rename the file", c->name);
    if (!plugin_allowed(ctx, c->name))
        return clv_error(CLV_ERR_REFUSED, "core.plugins (%s) leaves it out",
                         clv_config_origin(ctx->config, "core.plugins"));
    for (uint32_t i = 0; i < ctx->n_plugins; i++)
        if (!strcmp(ctx->plugins[i]->name, c->name))
            return clv_error(CLV_ERR_REFUSED,
                             "plugin '%s' is loaded already, from %s; remove "
                             "one of the two", c->name, ctx->plugins[i]->path);
    return CLV_OK;
}

static clv_status keep_plugin(clv_context *ctx, core_plugin *p)
{
    core_plugin **list =
        reallocarray(ctx->plugins, ctx->n_plugins + 1u, sizeof *list);
    if (!list)
        return no_memory();
    ctx->plugins = list;
    list[ctx->n_plugins++] = p;
    return CLV_OK;
}

/* Takes the plugin as far as it goes; *users_fault when that is because of a
 * value in the configuration. */
static clv_status start(clv_context *ctx, candidate *c, core_plugin *p,
                        bool *users_fault)
{
    clv_status st = core_plugin_map(p);
    if (st != CLV_OK)
        return st;
    c->pub.stage = CLV_STAGE_MAPPED;
    if ((st = core_plugin_negotiate(p)) != CLV_OK)
        return st;
    c->plugin = strdup(p->name);
    c->version = strdup(p->api.version);
    c->pub.plugin = c->plugin ? c->plugin : "";
    c->pub.version = c->version ? c->version : "";
    c->pub.stage = CLV_STAGE_NEGOTIATED;
    if ((st = core_plugin_declare(p)) != CLV_OK) {
        *users_fault = st != CLV_ERR_INVALID;
        return st;
    }
    if ((st = core_plugin_create(p)) != CLV_OK)
        return st;
    c->pub.stage = CLV_STAGE_CREATED;
    return open_devices(ctx, p, c);
}

static clv_status try_candidate(clv_context *ctx, candidate *c)
{
    clv_status st = check_candidate(ctx, c);
    if (st != CLV_OK) {
        stop(ctx, c, CLV_LOG_DEBUG, st);
        return CLV_OK;
    }
    char *real = realpath(c->path, NULL);
    st = real ? core_plugin_file_check(
                    real, clv_config_get_bool(ctx->config,
                                              "core.allow_unsafe_plugins"))
              : clv_error(CLV_ERR_NOT_FOUND, "the file cannot be found: %s",
                          strerror(errno));
    if (st != CLV_OK) {
        free(real);
        stop(ctx, c, CLV_LOG_WARN, st);
        return CLV_OK;
    }
    c->pub.stage = CLV_STAGE_ALLOWED;
    core_plugin *p;
    if ((st = core_plugin_new(ctx, real, c->name, &p)) != CLV_OK)
        return st;
    bool users_fault = false;
    st = start(ctx, c, p, &users_fault);
    if (st == CLV_OK)
        st = keep_plugin(ctx, p);
    if (st == CLV_OK)
        return CLV_OK;
    stop(ctx, c, CLV_LOG_WARN, st);
    core_plugin_destroy(p);
    return users_fault ? clv_error(st, "%s", c->pub.reason) : CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Directories                                                              */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static clv_status stop_dir(clv_context *ctx, const char *dir, clv_status st)
{
    candidate *c = add_candidate(ctx->loader, dir, "");
    if (!c)
        return no_memory();
    stop(ctx, c, CLV_LOG_WARN, st);
    return CLV_OK;
}

static clv_status try_file(clv_context *ctx, const char *dir, const char *file)
{
    char *name = plugin_name(file);
    if (!name)
        return CLV_OK;
    char *path = core_format("%s/%s", dir, file);
    candidate *c = path ? add_candidate(ctx->loader, path, name) : NULL;
    clv_status st = c ? try_candidate(ctx, c) : no_memory();
    free(path);
    free(name);
    return st;
}

static clv_status scan(clv_context *ctx, const char *dir)
{
    if (dir[0] != '/')
        return stop_dir(ctx, dir,
                        clv_error(CLV_ERR_REFUSED,
                                  "a plugin directory must be given by its "
                                  "absolute path"));
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, by_name);
    if (n < 0)
        return stop_dir(ctx, dir,
                        clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND
                                                  : CLV_ERR_IO,
                                  "the plugin directory cannot be read: %s; "
                                  "set core.plugin_dirs", strerror(errno)));
    clv_status st = CLV_OK;
    for (int i = 0; i < n; i++) {
        if (st == CLV_OK)
            st = try_file(ctx, dir, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return st;
}

static clv_status scan_all(clv_context *ctx)
{
    const char *list = clv_config_get(ctx->config, "core.plugin_dirs"), *item;
    size_t n;
    clv_status st = CLV_OK;
    while (st == CLV_OK && core_next_item(&list, ":", &item, &n)) {
        char *dir = strndup(item, n);
        st = dir ? scan(ctx, dir) : no_memory();
        free(dir);
    }
    return st;
}

/* ------------------------------------------------------------------------ */
/* Life                                                                     */

clv_status core_loader_run(clv_context *ctx)
{
    core_loader *l = ctx->loader = calloc(1, sizeof *l);
    if (!l)
        return no_memory();
    clv_status st;
    if ((st = scan_all(ctx)) != CLV_OK ||
        (st = check_allowed(ctx)) != CLV_OK ||
        (st = core_config_check_waiting(ctx->config, candidate_named, l)) !=
            CLV_OK)
        return st;
    sort_devices(ctx);
    return check_devices(ctx);
}

void core_loader_finish(clv_context *ctx)
{
    for (uint32_t i = ctx->n_devices; i-- > 0;)
        core_device_close(ctx->devices[i]);
    for (uint32_t i = ctx->n_plugins; i-- > 0;)
        core_plugin_destroy(ctx->plugins[i]);
    free(ctx->devices);
    free(ctx->plugins);
    core_loader *l = ctx->loader;
    if (!l)
        return;
    for (uint32_t i = 0; i < l->n_candidates; i++)
        free_candidate(l->candidates[i]);
    free(l->candidates);
    free(l);
}

clv_status core_loader_no_device(const clv_context *ctx)
{
    const core_loader *l = ctx->loader;
    const char *dirs = clv_config_get(ctx->config, "core.plugin_dirs");
    for (uint32_t i = 0; i < l->n_candidates; i++) {
        const clv_candidate *c = &l->candidates[i]->pub;
        if (c->status != CLV_OK)
            return clv_error(CLV_ERR_NOT_FOUND,
                             "there is no device to run on: %s: %s", c->path,
                             c->reason);
    }
    return clv_error(CLV_ERR_NOT_FOUND,
                     "there is no device to run on: %s; install a plugin for "
                     "one, or set core.plugin_dirs (%s)",
                     l->n_candidates ? "no plugin found any"
                                     : "there is no plugin", dirs);
}

const char *clv_load_stage_name(uint32_t stage)
{
    static const char *const names[] = {"found",      "allowed", "inspected",
                                        "probed",     "mapped",  "negotiated",
                                        "created",    "ready"};
    return stage <= CLV_STAGE_READY ? names[stage] : "unknown";
}

uint32_t clv_context_candidate_count(const clv_context *ctx)
{
    return ctx->loader->n_candidates;
}

const clv_candidate *clv_context_candidate(const clv_context *ctx,
                                           uint32_t index)
{
    return index < ctx->loader->n_candidates
               ? &ctx->loader->candidates[index]->pub
               : NULL;
}
