#include "loader.h"
#include "../base/error.h"

#include "../base/names.h"
#include "../config/config.h"
#include "../context/use.h"
#include "../device/device.h"
#include "drivers.h"
#include "plugin_inspect.h"
#include "plugin_module.h"
#include "probe.h"
#include "selection.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "cleave_"
#define SUFFIX ".so"

/* Every plugin that core.plugins allows by name has a file. */
static clv_status check_allowed(const clv_context *ctx)
{
    const char *list = clv_config_get(ctx->config, "core.plugins"), *item;
    size_t n;
    while (core_next_item(&list, ", ", &item, &n)) {
        char name[CORE_PLUGIN_NAME_MAX + 2]; /* longer ones are no plugin's */
        snprintf(name, sizeof name, "%.*s", (int)n, item);
        if (item[0] != '-' &&
            !core_candidate_named(&ctx->loader->candidates, name))
            return clv_error(
                CLV_ERR_NOT_FOUND,
                "%s: core.plugins: there is no plugin '%.*s' in %s; correct "
                "the name, core.plugin_dirs or core.plugin_files",
                clv_config_origin(ctx->config, "core.plugins"), (int)n, item,
                clv_config_get(ctx->config, "core.plugin_dirs"));
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* One file                                                                 */

/* Whether a plugin of that name is to be loaded at all. */
static clv_status check_name(const clv_context *ctx, const char *name)
{
    if (!core_name_ok(name, CORE_PLUGIN_NAME_MAX))
        return clv_error(CLV_ERR_REFUSED,
                         "'%s' is no name for a plugin: it takes small "
                         "letters, digits and '_'; rename the file",
                         name);
    if (!core_plugin_allowed(ctx, name))
        return clv_error(CLV_ERR_REFUSED, "core.plugins (%s) leaves it out",
                         clv_config_origin(ctx->config, "core.plugins"));
    for (uint32_t i = 0; i < ctx->n_plugins; i++)
        if (!strcmp(ctx->plugins[i]->name, name))
            return clv_error(CLV_ERR_REFUSED,
                             "plugin '%s' is loaded already, from %s; remove "
                             "one of the two",
                             name, ctx->plugins[i]->path);
    return CLV_OK;
}

/* What is not safe stops the candidate, unless the user lifted the rule. */
static clv_status judge(clv_context *ctx, core_candidate *c,
                        const char *problem)
{
    if (!problem[0])
        return CLV_OK;
    if (!clv_config_get_bool(ctx->config, "core.allow_unsafe_plugins"))
        return clv_error(CLV_ERR_REFUSED,
                         "%s, or set core.allow_unsafe_plugins", problem);
    core_candidate_note(ctx, c, CLV_LOG_INFO,
                        "core.allow_unsafe_plugins lets it pass: %s", problem);
    return CLV_OK;
}

/* From the file found to what the manifest says; none of its code has run. */
static clv_status inspect(clv_context *ctx, core_candidate *c, bool any_name,
                          core_plugin_file *file, core_manifest *manifest)
{
    char problem[256];
    CLV_TRY(core_plugin_file_open(c->path, file));
    CLV_TRY(judge(ctx, c, file->problem));
    c->pub.stage = CLV_STAGE_ALLOWED;
    CLV_TRY(core_plugin_inspect(file, any_name ? NULL : c->name, manifest,
                                problem));
    CLV_TRY(judge(ctx, c, problem));
    c->pub.stage = CLV_STAGE_INSPECTED;
    return core_candidate_describe(c, manifest);
}

/* Its devices are offered only once nothing can fail any more. */
static clv_status keep_plugin(clv_context *ctx, core_candidate *c,
                              core_plugin *p, const char *left_out)
{
    core_plugin **list =
        reallocarray(ctx->plugins, ctx->n_plugins + 1u, sizeof *list);
    if (!list)
        return core_no_memory("to load plugins");
    ctx->plugins = list;
    CLV_TRY(core_offers_collect(ctx, p, c, left_out));
    list[ctx->n_plugins++] = p;
    return CLV_OK;
}

/* Takes the plugin as far as it goes; *users_fault when that is because of a
 * value in the configuration. */
static clv_status start(clv_context *ctx, core_candidate *c, core_plugin *p,
                        const core_plugin_file *file, bool *users_fault)
{
    core_trial trial;
    if (core_config_choice(ctx->config, "core.probe") != CORE_PROBE_OFF)
        CLV_TRY(core_use_check(ctx, file->path));
    CLV_TRY(core_probe(ctx, file, p->name, &trial));
    if (trial.passed)
        c->pub.stage = CLV_STAGE_PROBED;
    const bool odd = trial.keep || trial.left_out[0];
    if (trial.note[0])
        core_candidate_note(ctx, c, odd ? CLV_LOG_WARN : CLV_LOG_INFO, "%s",
                            trial.note);
    if (trial.keep)
        core_plugin_keep(p);
    CLV_TRY(core_plugin_map(p, file));
    c->pub.stage = CLV_STAGE_MAPPED;
    CLV_TRY(core_plugin_negotiate(p));
    c->version = strdup(p->api.version);
    c->pub.version = c->version ? c->version : "";
    c->pub.stage = CLV_STAGE_NEGOTIATED;
    clv_status st = core_plugin_declare(p);
    if (st != CLV_OK) {
        *users_fault = st != CLV_ERR_INVALID && st != CLV_ERR_NO_MEMORY;
        return st;
    }
    CLV_TRY(core_plugin_create(p));
    c->pub.stage = CLV_STAGE_CREATED;
    CLV_TRY(keep_plugin(ctx, c, p, trial.left_out));
    c->pub.stage = CLV_STAGE_READY;
    return CLV_OK;
}

static clv_status load(clv_context *ctx, core_candidate *c,
                       const core_plugin_file *file,
                       const core_manifest *manifest)
{
    core_plugin *p;
    CLV_TRY(core_plugin_new(ctx, file, manifest, &p));
    bool users_fault = false;
    clv_status st = start(ctx, c, p, file, &users_fault);
    if (st == CLV_OK)
        return CLV_OK;
    /* Devices that the configuration describes were asked for. */
    users_fault |= core_config_device_section(ctx->config, p->name, 0) != NULL;
    users_fault |= st == CLV_ERR_CANCELLED;
    core_candidate_stop(ctx, c, CLV_LOG_WARN, st);
    core_plugin_destroy(p);
    return users_fault ? clv_error(st, "%s", c->pub.reason) : CLV_OK;
}

/* It was found to drive nothing but the host's processor, which is in use. */
static bool is_useless(clv_context *ctx, core_candidate *c,
                       const core_plugin_file *file,
                       const core_manifest *manifest)
{
    if (*clv_config_get(ctx->config, "core.devices") ||
        !core_offers_processor(ctx))
        return false;
    char *ids = core_drivers_recall(ctx, file, manifest);
    if (ids)
        core_candidate_note(ctx, c, CLV_LOG_INFO,
                            "not needed: its drivers had no device but the "
                            "processor at an earlier start; %s: used if "
                            "core.devices lists it",
                            ids);
    free(ids);
    return ids != NULL;
}

/* *level: for the log, where it fails. */
static clv_status check_file(clv_context *ctx, core_candidate *c, bool any_name,
                             core_plugin_file *file, core_manifest *manifest,
                             uint32_t *level)
{
    *level = CLV_LOG_DEBUG;
    if (!any_name)
        CLV_TRY(check_name(ctx, c->name));
    *level = CLV_LOG_WARN;
    CLV_TRY(inspect(ctx, c, any_name, file, manifest));
    *level = CLV_LOG_DEBUG;
    return any_name ? check_name(ctx, c->name) : CLV_OK;
}

static clv_status try_file(clv_context *ctx, core_candidate *c, bool any_name,
                           core_plugin_file *file)
{
    core_manifest manifest;
    uint32_t level;
    const clv_status st = check_file(ctx, c, any_name, file, &manifest, &level);
    if (st != CLV_OK) {
        core_candidate_stop(ctx, c, level, st);
        return CLV_OK;
    }
    if (!core_plugin_wanted(ctx, c->name)) {
        core_candidate_note(ctx, c, CLV_LOG_DEBUG,
                            "not needed: core.devices names none of its "
                            "devices");
        return CLV_OK;
    }
    if (is_useless(ctx, c, file, &manifest))
        return CLV_OK;
    return load(ctx, c, file, &manifest);
}

/* name: what the file is named for, "" if nothing; any_name: the plugin may
 * have another one. Fails as core_loader_run() does. */
static clv_status try_candidate(clv_context *ctx, const char *path,
                                const char *name, bool any_name)
{
    core_candidate *c =
        core_candidate_add(&ctx->loader->candidates, path, name);
    if (!c)
        return core_no_memory("to load plugins");
    core_plugin_file file = {.fd = -1};
    clv_status st = try_file(ctx, c, any_name, &file);
    core_plugin_file_close(&file);
    return st;
}

/* A place where no file can be found, for the reason in the thread's message.
 */
static clv_status add_stopped(clv_context *ctx, const char *path,
                              clv_status status)
{
    core_candidate *c = core_candidate_add(&ctx->loader->candidates, path, "");
    if (!c)
        return core_no_memory("to load plugins");
    core_candidate_stop(ctx, c, CLV_LOG_WARN, status);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Where plugin files are looked for                                        */

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

static clv_status try_entry(clv_context *ctx, const char *dir, const char *file)
{
    char name[NAME_MAX + 1];
    if (!plugin_name(file, name))
        return CLV_OK;
    char *path = core_format("%s/%s", dir, file);
    clv_status st = path ? try_candidate(ctx, path, name, false)
                         : core_no_memory("to look for plugins");
    free(path);
    return st;
}

/* The user named the file: it may have any name, but its place must not depend
 * on the working directory. */
static clv_status try_listed(clv_context *ctx, const char *path)
{
    if (path[0] != '/')
        return add_stopped(
            ctx, path,
            clv_error(CLV_ERR_REFUSED,
                      "a plugin file must be given by its absolute "
                      "path; correct core.plugin_files"));
    char name[NAME_MAX + 1] = "";
    plugin_name(strrchr(path, '/') + 1, name);
    return try_candidate(ctx, path, name, true);
}

static clv_status scan(clv_context *ctx, const char *dir)
{
    if (dir[0] != '/')
        return add_stopped(
            ctx, dir,
            clv_error(CLV_ERR_REFUSED,
                      "a plugin directory must be given by its "
                      "absolute path; correct core.plugin_dirs"));
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, by_name);
    if (n < 0)
        return add_stopped(
            ctx, dir,
            clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                      "the plugin directory cannot be read: %s; "
                      "set core.plugin_dirs",
                      strerror(errno)));
    clv_status st = CLV_OK;
    for (int i = 0; i < n; i++) {
        if (st == CLV_OK)
            st = try_entry(ctx, dir, entries[i]->d_name);
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

static clv_status search(clv_context *ctx)
{
    clv_status st = for_each(ctx, "core.plugin_files", try_listed);
    return st == CLV_OK ? for_each(ctx, "core.plugin_dirs", scan) : st;
}

/* ------------------------------------------------------------------------ */
/* Making and destroying                                                    */

clv_status core_loader_run(clv_context *ctx)
{
    core_loader *l = ctx->loader = calloc(1, sizeof *l);
    if (!l)
        return core_no_memory("to load plugins");
    CLV_TRY(search(ctx));
    CLV_TRY(check_allowed(ctx));
    CLV_TRY(core_config_check_waiting(ctx->config, core_candidate_named,
                                      &l->candidates));
    CLV_TRY(core_offers_open(ctx));
    return core_offers_check(ctx);
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
    core_candidates_free(&l->candidates);
    free(l->offers.list);
    free(l);
}

clv_status core_loader_no_device(const clv_context *ctx)
{
    const core_loader *l = ctx->loader;
    const char *dirs = clv_config_get(ctx->config, "core.plugin_dirs");
    for (uint32_t i = 0; i < l->candidates.n; i++) {
        const clv_candidate *c = &l->candidates.list[i]->pub;
        if (c->status != CLV_OK)
            return clv_error(CLV_ERR_NOT_FOUND,
                             "there is no device to run on: %s: %s", c->path,
                             c->reason);
    }
    return clv_error(
        CLV_ERR_NOT_FOUND,
        "there is no device to run on: %s; install a plugin for "
        "one, or set core.plugin_dirs (%s)",
        l->candidates.n ? "no plugin found any" : "there is no plugin", dirs);
}

clv_status clv_context_find_device(const clv_context *ctx, const char *id,
                                   clv_device **out)
{
    *out = NULL;
    for (uint32_t i = 0; i < ctx->n_devices; i++) {
        if (!strcmp(ctx->devices[i]->id, id) ||
            (*id && !strcmp(ctx->devices[i]->number, id))) {
            *out = ctx->devices[i];
            return CLV_OK;
        }
    }
    if (!ctx->n_devices)
        return core_loader_no_device(ctx);
    core_id_list present = {.text = ""};
    for (uint32_t i = 0; i < ctx->n_devices; i++)
        core_id_list_add(&present, ctx->devices[i]->id);
    return clv_error(CLV_ERR_NOT_FOUND, "there is no device '%s'; present: %s",
                     id, present.text);
}

const char *clv_load_stage_name(uint32_t stage)
{
    static const char *const names[] = {"found",   "allowed", "inspected",
                                        "probed",  "mapped",  "negotiated",
                                        "created", "ready"};
    return stage <= CLV_STAGE_READY ? names[stage] : "unknown";
}

uint32_t clv_context_candidate_count(const clv_context *ctx)
{
    return ctx->loader->candidates.n;
}

const clv_candidate *clv_context_candidate(const clv_context *ctx,
                                           uint32_t index)
{
    return index < ctx->loader->candidates.n
               ? &ctx->loader->candidates.list[index]->pub
               : NULL;
}
