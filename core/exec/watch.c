/* Elapsed time, by whatever clock the devices of a plan have. */
#include "../base/error.h"
#include "../device/device.h"
#include "../device/loss.h"
#include "../plan/plan.h"

#include <math.h>
#include <stdlib.h>

struct clv_watch {
    clv_context *ctx;
    uint64_t host_ns;
    clv_moment *moments; /* [ctx->n_devices] ns NAN: not known */
};

/* The others are left alone: their time is the host's, and a device that has
 * failed since is for the next run to find out. */
static clv_moment look(clv_device *dev)
{
    clv_moment now = {.ns = NAN};
    if (dev->info.clock != CLV_CLOCK_VIRTUAL || core_device_lost(dev) ||
        clv_device_now(dev, &now))
        now.ns = NAN;
    return now;
}

clv_status clv_watch_create(clv_context *ctx, clv_watch **out)
{
    *out = NULL;
    if (!ctx)
        return clv_error(CLV_ERR_INVALID, "watch: the context is NULL");
    clv_watch *watch = calloc(1, sizeof *watch);
    if (watch)
        watch->moments = calloc(ctx->n_devices + 1u, sizeof *watch->moments);
    if (!watch || !watch->moments) {
        free(watch);
        return core_no_memory("for a watch");
    }
    watch->ctx = ctx;
    clv_watch_start(watch);
    *out = watch;
    return CLV_OK;
}

void clv_watch_destroy(clv_watch *watch)
{
    if (!watch)
        return;
    free(watch->moments);
    free(watch);
}

void clv_watch_start(clv_watch *watch)
{
    for (uint32_t i = 0; i < watch->ctx->n_devices; i++)
        watch->moments[i] = look(watch->ctx->devices[i]);
    watch->host_ns = clv_now_ns();
}

static bool uses(const clv_plan *plan, const clv_device *dev)
{
    for (uint32_t i = 0; i < plan->n_devices; i++)
        if (plan->devices[i].dev == dev)
            return plan->devices[i].n_steps != 0;
    return false;
}

clv_elapsed clv_watch_read(const clv_watch *watch, const clv_plan *plan)
{
    clv_elapsed out = {.ns = (double)(clv_now_ns() - watch->host_ns),
                       .is_virtual = plan != NULL};
    double simulated = 0;
    bool metered = plan != NULL;
    for (uint32_t i = 0; plan && i < watch->ctx->n_devices; i++) {
        clv_device *dev = watch->ctx->devices[i];
        const clv_moment *before = &watch->moments[i], now = look(dev);
        bool used = uses(plan, dev), known = now.energy_nj > 0;
        if (used && !(now.ns >= before->ns))
            out.is_virtual = false;
        if (used)
            simulated = fmax(simulated, now.ns - before->ns);
        metered = metered && (known || !used);
        if (known)
            out.energy_nj += now.energy_nj - before->energy_nj;
    }
    if (out.is_virtual)
        out.ns = simulated;
    if (!metered)
        out.energy_nj = 0;
    return out;
}
