#include "loader.h"

#include "config.h"
#include "device.h"
#include "names.h"
#include "plugin_file.h"
#include "plugin_module.h"
#include "plugin_search.h"
#include "selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static clv_status no_memory(void)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory to load plugins");
}

/* Every plugin that core.plugins allows by name has a file. */
static clv_status check_allowed(const clv_context *ctx)
{
    const char *list = clv_config_get(ctx->config, "core.plugins"), *item;
    size_t n;
    while (core_next_item(&list, ", ", &item, &n)) {
        char name[CORE_PLUGIN_NAME_MAX + 1];
        if (item[0] == '-')
            continue;
        bool known = n < sizeof name;
        if (known) {
            memcpy(name, item, n);
            name[n] = 0;
            known = core_candidate_named(&ctx->loader->candidates, name);
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
/* One file                                                                 */

static clv_status check_candidate(const clv_context *ctx, const core_candidate *c)
{
    if (!core_name_ok(c->name, CORE_PLUGIN_NAME_MAX))
        return clv_error(CLV_ERR_REFUSED,
                         "'%s' is no name for a plugin: it takes small "
                         "letters, digits and '_'; rename the file", c->name);
    if (!core_plugin_allowed(ctx, c->name))
        return clv_error(CLV_ERR_REFUSED, "core.plugins (%s) leaves it out",
                         clv_config_origin(ctx->config, "core.plugins"));
    for (uint32_t i = 0; i < ctx->n_plugins; i++)
        if (!strcmp(ctx->plugins[i]->name, c->name))
            return clv_error(CLV_ERR_REFUSED,
                             "plugin '%s' is loaded already, from %s; remove "
                             "one of the two", c->name, ctx->plugins[i]->path);
    return CLV_OK;
}

/* Its devices are offered only once nothing can fail any more. */
static clv_status keep_plugin(clv_context *ctx, core_candidate *c,
                              core_plugin *p)
{
    core_plugin **list =
        reallocarray(ctx->plugins, ctx->n_plugins + 1u, sizeof *list);
    if (!list)
        return no_memory();
    ctx->plugins = list;
    clv_status st = core_offers_collect(ctx, p, c);
    if (st == CLV_OK)
        list[ctx->n_plugins++] = p;
    return st;
}

/* Takes the plugin as far as it goes; *users_fault when that is because of a
 * value in the configuration. */
static clv_status start(clv_context *ctx, core_candidate *c, core_plugin *p,
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
    if ((st = keep_plugin(ctx, c, p)) != CLV_OK)
        return st;
    c->pub.stage = CLV_STAGE_READY;
    return CLV_OK;
}

static clv_status try_candidate(clv_context *ctx, core_candidate *c)
{
    clv_status st = check_candidate(ctx, c);
    if (st != CLV_OK) {
        core_candidate_stop(ctx, c, CLV_LOG_DEBUG, st);
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
        core_candidate_stop(ctx, c, CLV_LOG_WARN, st);
        return CLV_OK;
    }
    c->pub.stage = CLV_STAGE_ALLOWED;
    core_plugin *p;
    if ((st = core_plugin_new(ctx, real, c->name, &p)) != CLV_OK)
        return st;
    bool users_fault = false;
    st = start(ctx, c, p, &users_fault);
    if (st == CLV_OK)
        return CLV_OK;
    core_candidate_stop(ctx, c, CLV_LOG_WARN, st);
    core_plugin_destroy(p);
    return users_fault ? clv_error(st, "%s", c->pub.reason) : CLV_OK;
}

clv_status core_loader_try(clv_context *ctx, const char *path,
                           const char *name)
{
    core_candidate *c =
        core_candidate_add(&ctx->loader->candidates, path, name);
    return c ? try_candidate(ctx, c) : no_memory();
}

clv_status core_loader_stop(clv_context *ctx, const char *path,
                            clv_status status)
{
    core_candidate *c = core_candidate_add(&ctx->loader->candidates, path, "");
    if (!c)
        return no_memory();
    core_candidate_stop(ctx, c, CLV_LOG_WARN, status);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Life                                                                     */

clv_status core_loader_run(clv_context *ctx)
{
    core_loader *l = ctx->loader = calloc(1, sizeof *l);
    if (!l)
        return no_memory();
    clv_status st;
    if ((st = core_plugin_search(ctx)) != CLV_OK ||
        (st = check_allowed(ctx)) != CLV_OK ||
        (st = core_config_check_waiting(ctx->config, core_candidate_named,
                                        &l->candidates)) != CLV_OK ||
        (st = core_offers_open(ctx)) != CLV_OK)
        return st;
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
    return clv_error(CLV_ERR_NOT_FOUND,
                     "there is no device to run on: %s; install a plugin for "
                     "one, or set core.plugin_dirs (%s)",
                     l->candidates.n ? "no plugin found any"
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
    return ctx->loader->candidates.n;
}

const clv_candidate *clv_context_candidate(const clv_context *ctx,
                                           uint32_t index)
{
    return index < ctx->loader->candidates.n
               ? &ctx->loader->candidates.list[index]->pub
               : NULL;
}
