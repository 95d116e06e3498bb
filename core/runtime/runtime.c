/* Makes contexts and ends them. */
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/unreleased.h"
#include "../config/objective.h"
#include "../context/device_use.h"
#include "../context/trace.h"
#include "../device/calls.h"
#include "../plugin/loader.h"
#include "../plugin/workers.h"

#include <stdlib.h>
#include <time.h>

/* What was made is in *out, also after a failure. */
static clv_status make_config(clv_config **out)
{
    CLV_TRY(clv_config_create(out));
    CLV_TRY(clv_config_load_default(*out));
    return clv_config_load_env(*out);
}

/* The more detailed of what the caller and the configuration want. */
static uint32_t log_level(const clv_context *ctx, uint32_t wanted)
{
    uint32_t level = core_config_choice(ctx->config, "core.log_level");
    return level > wanted ? level : wanted;
}

static clv_status fill(clv_context *ctx, const clv_context_params *params)
{
    if (ctx->owns_config)
        CLV_TRY(make_config(&ctx->config));
    CLV_TRY(core_config_objective(ctx->config, &ctx->objective));
    ctx->log_level = log_level(ctx, params->log_level);
    CLV_TRY(core_trace_create(&ctx->trace));
    clv_trace_enable(ctx, params->trace);
    return core_loader_run(ctx);
}

clv_status clv_context_create(const clv_context_params *params,
                              clv_context **out)
{
    static const clv_context_params defaults;
    if (!params)
        params = &defaults;
    *out = NULL;
    clv_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return core_no_memory("for a context");
    pthread_mutex_init(&ctx->workers_mutex, NULL);
    pthread_mutex_init(&ctx->planner_mutex, NULL);
    pthread_mutex_init(&ctx->kernel_sums.mutex, NULL);
    pthread_mutex_init(&ctx->device_use.mutex, NULL);
    pthread_rwlock_init(&ctx->log_lock, NULL);
    pthread_mutex_init(&ctx->calls.mutex, NULL);
    core_condition_init(&ctx->calls.stopped);
    ctx->n_workers = core_processor_count();
    ctx->log = params->log;
    ctx->log_ctx = params->log_ctx;
    ctx->progress = params->progress;
    ctx->progress_ctx = params->progress_ctx;
    ctx->config = params->config;
    ctx->owns_config = !params->config;

    const clv_status st = fill(ctx, params);
    core_calls_watch(ctx);
    if (st != CLV_OK) {
        clv_context_destroy(ctx);
        return st;
    }
    *out = ctx;
    return CLV_OK;
}

static bool any_kept(const clv_context *ctx)
{
    for (uint32_t i = 0; i < ctx->n_plugins; i++)
        if (atomic_load(&ctx->plugins[i]->kept))
            return true;
    return false;
}

/* Threads of a plugin that is never unloaded may still call the host. */
static void keep(clv_context *ctx)
{
    clv_trace_enable(ctx, false);
    pthread_rwlock_wrlock(&ctx->log_lock);
    ctx->log = NULL;
    pthread_rwlock_unlock(&ctx->log_lock);
    core_config_keep(ctx->config);
    if (ctx->owns_config)
        clv_config_destroy(ctx->config);
    core_unreleased_add(ctx);
}

void clv_context_destroy(clv_context *ctx)
{
    if (!ctx)
        return;
    const bool kept = any_kept(ctx);
    if (ctx->planner)
        ctx->planner_destroy(ctx->planner);
    ctx->planner = NULL;
    if (ctx->flight)
        ctx->flight_destroy(ctx->flight);
    ctx->flight = NULL;
    core_loader_finish(ctx);
    core_calls_finish(ctx);
    if (kept) {
        keep(ctx);
        return;
    }
    core_workers_destroy(ctx->workers);
    free(ctx->kernel_sums.sums);
    core_device_use_finish(&ctx->device_use);
    core_trace_destroy(ctx->trace);
    if (ctx->owns_config)
        clv_config_destroy(ctx->config);
    pthread_mutex_destroy(&ctx->workers_mutex);
    pthread_mutex_destroy(&ctx->planner_mutex);
    pthread_mutex_destroy(&ctx->kernel_sums.mutex);
    pthread_mutex_destroy(&ctx->device_use.mutex);
    pthread_rwlock_destroy(&ctx->log_lock);
    pthread_cond_destroy(&ctx->calls.stopped);
    pthread_mutex_destroy(&ctx->calls.mutex);
    free(ctx);
}
