#include "plugin_module.h"

#include "../base/error.h"
#include "../base/names.h"
#include "../base/paths.h"
#include "../base/sanitizer.h"
#include "../config/config.h"
#include "../device/answer.h"
#include "../base/unreleased.h"
#include "abi_v1.h"
#include "host.h"
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 256
#define MAX_DEVICES 256

clv_status core_plugin_new(clv_context *ctx, const core_plugin_file *file,
                           const core_manifest *manifest, core_plugin **out)
{
    core_plugin *p = calloc(1, sizeof *p);
    if (!p)
        return core_no_memory("for a plugin");
    pthread_mutex_init(&p->mutex, NULL);
    p->ctx = ctx;
    p->manifest = malloc(sizeof *p->manifest);
    p->path = strdup(file->path);
    p->name = strdup(manifest->name);
    p->dir =
        strndup(file->path, (size_t)(strrchr(file->path, '/') - file->path));
    const char *cache = clv_config_get(ctx->config, "core.cache_dir");
    p->cache_dir = cache && cache[0]
                       ? core_format("%s/%s", cache, manifest->name)
                       : strdup("");
    if (!p->manifest || !p->path || !p->name || !p->dir || !p->cache_dir) {
        core_plugin_destroy(p);
        return core_no_memory("for a plugin");
    }
    *p->manifest = *manifest;
    *out = p;
    return CLV_OK;
}

static void end_instance(core_plugin *p)
{
    uint64_t serial = core_error_serial();
    pthread_mutex_lock(&p->mutex);
    clv_status st =
        core_answer(p->name, "quiesce", serial, p->api.quiesce(p->instance));
    p->api.destroy(p->instance);
    pthread_mutex_unlock(&p->mutex);
    if (st != CLV_OK)
        clv_log(p->ctx, CLV_LOG_WARN, "%s", clv_last_error());
    p->instance = NULL;
}

void core_plugin_destroy(core_plugin *p)
{
    if (!p)
        return;
    if (p->instance && atomic_load(&p->kept)) {
        core_unreleased_add(p);
        return;
    }
    if (p->instance)
        end_instance(p);
    if (p->declared)
        core_config_undeclare(p->ctx->config, p->name);
    if (!atomic_load(&p->kept))
        core_module_close(p->module);
    pthread_mutex_destroy(&p->mutex);
    free(p->manifest);
    free(p->path);
    free(p->dir);
    free(p->name);
    free(p->cache_dir);
    free(p);
}

/* ------------------------------------------------------------------------ */
/* Mapping                                                                  */

/* The table's flags say whether the module may be unmapped. One that is refused
 * may: it has not run yet. */
static bool stays(void *arg, void *symbol)
{
    const core_plugin *p = arg;
    clv_plugin_query_fn query;
    *(void **)&query = symbol;
    if (atomic_load(&p->kept))
        return true;
    if (!query)
        return false;
    clv_query_in in = CLV_INIT(clv_query_in, CLV_STRUCT_QUERY_IN);
    in.abi_min = CLV_ABI_VERSION_MIN;
    in.abi_max = CLV_ABI_VERSION;
    clv_query_out out = CLV_INIT(clv_query_out, CLV_STRUCT_QUERY_OUT);
    return query(&in, &out) == CLV_OK && out.api &&
           out.api->header.struct_size >= CORE_V1_PLUGIN_API &&
           !(out.api->flags & CLV_PLUGIN_UNLOADABLE);
}

clv_status core_plugin_map(core_plugin *p, const core_plugin_file *file)
{
    return core_module_open(file, stays, p, &p->module);
}

/* ------------------------------------------------------------------------ */
/* Negotiation                                                              */

static clv_status wrong_version(const clv_query_out *answer)
{
    return clv_error(CLV_ERR_VERSION,
                     "it speaks ABI versions %u to %u, this libcleave %u to "
                     "%u; install a plugin built for it",
                     answer->abi_min, answer->abi_max, CLV_ABI_VERSION_MIN,
                     CLV_ABI_VERSION);
}

/* A query may leave the range it speaks at 0. */
static bool disagrees(const core_manifest *m, const clv_query_out *answer)
{
    return answer->abi_version < m->abi_min ||
           answer->abi_version > m->abi_max ||
           (answer->abi_min && answer->abi_min != m->abi_min) ||
           (answer->abi_max && answer->abi_max != m->abi_max);
}

static clv_status ask(core_plugin *p, const clv_plugin_api **api)
{
    clv_plugin_query_fn query;
    *(void **)&query = core_module_symbol(p->module, CLV_PLUGIN_QUERY_SYMBOL);
    if (!query)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "it exports no " CLV_PLUGIN_QUERY_SYMBOL
                         "(); it is no plugin");
    clv_query_in in = CLV_INIT(clv_query_in, CLV_STRUCT_QUERY_IN);
    in.abi_min = CLV_ABI_VERSION_MIN;
    in.abi_max = CLV_ABI_VERSION;
    in.sanitizers = core_sanitizers();
    clv_query_out out = CLV_INIT(clv_query_out, CLV_STRUCT_QUERY_OUT);
    clv_status st = query(&in, &out);
    core_name_clean(out.reason, sizeof out.reason);
    if (st == CLV_ERR_VERSION)
        return wrong_version(&out);
    if (st != CLV_OK)
        return clv_error(core_status_known(st), "it refuses: %s",
                         out.reason[0] ? out.reason : "it does not say why");
    if (out.abi_version < CLV_ABI_VERSION_MIN ||
        out.abi_version > CLV_ABI_VERSION)
        return wrong_version(&out);
    if (!out.api)
        return clv_error(CLV_ERR_INTERNAL, "its query gives no table");
    if (disagrees(p->manifest, &out))
        return clv_error(CLV_ERR_INTERNAL,
                         "its query answers ABI %u of %u to %u, its manifest "
                         "says %s; the plugin is faulty",
                         out.abi_version, out.abi_min, out.abi_max,
                         p->manifest->abi);
    p->abi_version = out.abi_version;
    *api = out.api;
    return CLV_OK;
}

static const char *missing_slot(const clv_plugin_api *api)
{
#define CHECK(slot)                                                            \
    if (!api->slot)                                                            \
    return #slot
    CHECK(create);
    CHECK(quiesce);
    CHECK(destroy);
    CHECK(enumerate);
    CHECK(device_open);
    CHECK(device_close);
    CHECK(mem_types);
    CHECK(op_caps);
    CHECK(buffer_alloc);
    CHECK(buffer_free);
    CHECK(timeline_create);
    CHECK(timeline_destroy);
    CHECK(timeline_query);
    CHECK(timeline_signal);
    CHECK(timeline_fail);
    CHECK(timeline_wait);
    CHECK(program_compile);
    CHECK(program_info);
    CHECK(program_destroy);
    CHECK(submit);
    if (api->buffer_map)
        CHECK(buffer_unmap);
#undef CHECK
    return NULL;
}

clv_status core_plugin_negotiate(core_plugin *p)
{
    const clv_plugin_api *api = NULL;
    CLV_TRY(ask(p, &api));
    if (api->header.struct_type != CLV_STRUCT_PLUGIN_API)
        return clv_error(CLV_ERR_INTERNAL,
                         "its table is a struct of type %u, not %u; the plugin "
                         "is faulty",
                         api->header.struct_type, CLV_STRUCT_PLUGIN_API);
    if (api->header.struct_size < CORE_V1_PLUGIN_API)
        return clv_error(CLV_ERR_VERSION,
                         "its table of %u bytes is shorter than the %d of ABI "
                         "version 1; rebuild it",
                         api->header.struct_size, CORE_V1_PLUGIN_API);
    if (!core_struct_read(&p->api, sizeof p->api, api, CORE_V1_PLUGIN_API))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "its table needs an extension that this libcleave "
                         "does not know; install a newer one");
    const char *slot = missing_slot(&p->api);
    if (slot)
        return clv_error(
            CLV_ERR_INTERNAL,
            "its table lacks the mandatory %s(); the plugin is faulty", slot);
    if (!p->api.name || !p->api.version || !p->api.build_id ||
        !p->api.description)
        return clv_error(CLV_ERR_INTERNAL,
                         "its table lacks a name, version, "
                         "build id or description; the plugin is faulty");
    if (strcmp(p->api.name, p->name))
        return clv_error(CLV_ERR_INTERNAL,
                         "it calls itself '%.64s', its manifest '%s'; the "
                         "plugin is faulty",
                         p->api.name, p->name);
    return CLV_OK;
}

/* The core's own keys, but those that the plugin has itself. Returns how many
 * options there are then. */
static uint32_t add_core_keys(clv_option *options, uint32_t n)
{
    uint32_t n_keys, n_own = n;
    const clv_option *keys = core_device_keys(&n_keys);
    for (uint32_t i = 0; i < n_keys; i++) {
        bool own = false;
        for (uint32_t j = 0; j < n_own && !own; j++)
            own = options[j].key && options[j].scope == keys[i].scope &&
                  !strcmp(options[j].key, keys[i].key);
        if (!own)
            options[n++] = keys[i];
    }
    return n;
}

clv_status core_plugin_declare(core_plugin *p)
{
    uint32_t n = p->api.n_options, stride = p->api.option_stride, n_keys;
    if (n && (n > MAX_OPTIONS || !p->api.options || stride < CORE_V1_OPTION ||
              stride % sizeof(uint64_t)))
        return clv_error(
            CLV_ERR_INVALID,
            "its table of %u options is malformed; the plugin is faulty", n);
    core_device_keys(&n_keys);
    clv_option *options = calloc(n + n_keys, sizeof *options);
    if (!options)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %u options", n);
    clv_status st = CLV_OK;
    for (uint32_t i = 0; i < n && st == CLV_OK; i++)
        if (!core_struct_read(&options[i], sizeof options[i],
                              (const char *)p->api.options + (size_t)i * stride,
                              CORE_V1_OPTION) ||
            options[i].header.struct_type != CLV_STRUCT_OPTION)
            st = clv_error(CLV_ERR_INVALID,
                           "its option %u is malformed; the plugin is faulty",
                           i);
    if (st == CLV_OK)
        st = clv_config_declare(p->ctx->config, p->name, options,
                                add_core_keys(options, n));
    p->declared = st == CLV_OK;
    free(options);
    return st;
}

/* ------------------------------------------------------------------------ */
/* Instance                                                                 */

clv_status core_plugin_create(core_plugin *p)
{
    if (p->cache_dir[0] && core_make_dirs(p->cache_dir) != CLV_OK) {
        clv_log(p->ctx, CLV_LOG_WARN, "%s: no cache: %s", p->name,
                clv_last_error());
        p->cache_dir[0] = 0;
    }
    core_host_init(p);
    uint64_t serial = core_error_serial();
    clv_plugin_instance *instance = NULL;
    CLV_TRY(core_answer(p->name, "create", serial,
                        p->api.create(&p->host, &instance)));
    if (!instance)
        return clv_error(CLV_ERR_INTERNAL, "create answered no instance; the "
                                           "plugin is faulty");
    p->instance = instance;
    return CLV_OK;
}

static clv_status enumerate(core_plugin *p, uint32_t *count,
                            clv_device_info *out)
{
    uint64_t serial = core_error_serial();
    pthread_mutex_lock(&p->mutex);
    clv_status st =
        core_answer(p->name, "enumerate", serial,
                    p->api.enumerate(p->instance, count, out, sizeof *out));
    pthread_mutex_unlock(&p->mutex);
    if (st == CLV_OK && *count > MAX_DEVICES)
        return clv_error(CLV_ERR_INTERNAL,
                         "enumerate answered %u devices; the plugin is faulty",
                         *count);
    return st;
}

/* A device is chosen by its id. */
static clv_status check_ids(const clv_device_info *infos, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!strncmp(infos[i].id, infos[j].id, sizeof infos[i].id))
                return clv_error(CLV_ERR_INTERNAL,
                                 "enumerate answered one id "
                                 "for devices %u and %u; the plugin is faulty",
                                 j, i);
    return CLV_OK;
}

clv_status core_plugin_enumerate(core_plugin *p, clv_device_info **out,
                                 uint32_t *count)
{
    uint32_t n = 0;
    CLV_TRY(enumerate(p, &n, NULL));
    clv_device_info *infos = calloc(n + 1u, sizeof *infos);
    if (!infos)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %u devices", n);
    clv_device_info init = CLV_INIT(clv_device_info, CLV_STRUCT_DEVICE_INFO);
    for (uint32_t i = 0; i < n; i++)
        infos[i] = init;
    uint32_t found = n;
    clv_status st = enumerate(p, &found, infos);
    for (uint32_t i = 0; i < n && st == CLV_OK; i++) {
        if (!core_chain_ok(&infos[i].header))
            st = clv_error(CLV_ERR_UNSUPPORTED,
                           "its device %u needs an "
                           "extension this libcleave does not know",
                           i);
        infos[i].header = init.header;
    }
    if (st == CLV_OK)
        st = check_ids(infos, found < n ? found : n);
    if (st != CLV_OK) {
        free(infos);
        return st;
    }
    *out = infos;
    *count = found < n ? found : n;
    return CLV_OK;
}
