#include "context.h"
#include "../base/cache.h"
#include "../base/names.h"

#include <stdlib.h>
#include <string.h>

static _Atomic bool unsafe_exit;

clv_config *clv_context_config(clv_context *ctx)
{
    return ctx->config;
}

clv_objective clv_context_objective(const clv_context *ctx)
{
    return ctx->objective;
}

uint32_t clv_context_device_count(const clv_context *ctx)
{
    return ctx->n_devices;
}

clv_device *clv_context_device(const clv_context *ctx, uint32_t index)
{
    return index < ctx->n_devices ? ctx->devices[index] : NULL;
}

clv_status core_context_progress(clv_context *ctx, const char *what,
                                 double fraction)
{
    if (!ctx->progress || !ctx->progress(ctx->progress_ctx, what, fraction))
        return CLV_OK;
    return clv_error(CLV_ERR_CANCELLED, "%s: cancelled", what);
}

uint64_t core_context_wait_ns(const clv_context *ctx)
{
    double seconds = clv_config_get_float(ctx->config, "core.wait_timeout");
    return seconds > 0 ? (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

char *core_context_cache(const clv_context *ctx, const char *name)
{
    const char *dir = clv_config_get(ctx->config, "core.cache_dir");
    return dir && dir[0] ? core_format("%s/%s", dir, name) : NULL;
}

clv_status clv_cache_get(clv_context *ctx, const char *name, const char *key,
                         void **data, uint64_t *size)
{
    char *dir = core_context_cache(ctx, name);
    clv_status status =
        dir ? core_cache_get(dir, key, data, size) : CLV_ERR_NOT_FOUND;
    if (status == CLV_ERR_NOT_FOUND && dir && core_cache_exists(dir, key))
        clv_log(ctx, CLV_LOG_WARN,
                "%s: what is kept of '%s' is damaged; it begins again", dir,
                key);
    free(dir);
    return status;
}

clv_status clv_cache_put(clv_context *ctx, const char *name, const char *key,
                         const void *data, uint64_t size)
{
    char *dir = core_context_cache(ctx, name);
    const clv_status status =
        dir ? core_cache_put(dir, key, data, size) : CLV_OK;
    free(dir);
    return status;
}

void core_id_list_add(core_id_list *list, const char *id)
{
    size_t used = strlen(list->text);
    if (used + strlen(id) + 3 > sizeof list->text)
        return;
    strcat(list->text, used ? ", " : "");
    strcat(list->text, id);
}

void core_plugin_keep(core_plugin *plugin)
{
    atomic_store(&plugin->kept, true);
    atomic_store(&unsafe_exit, true);
}

bool clv_exit_safe(void)
{
    return !atomic_load(&unsafe_exit);
}
