/* What a context's profile answers. */
#include "../../core/base/text.h"
#include "../../core/device/memory.h"
#include "store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Held-out errors below this are those of a model that holds. */
#define TRUSTED 0.25
#define FEW_SAMPLES 6

/* Of fewer samples than this a tenth may be the only ones of prompts, among
 * those of single tokens: their errors have to be below TRUSTED_FEW. */
#define SOME_SAMPLES (2 * PLANNER_FIT_FEATURES)
#define TRUSTED_FEW 0.5

/* Of samples that take less, most may be the cost of beginning: it counts once
 * for work that is so many times as much. */
#define SHORT_NS 5e4
#define MUCH 16

/* So many times as many rows, or as few, are about as many. */
#define ALIKE 8

static void destroy(void *profile)
{
    planner_profile_destroy(profile);
}

clv_status planner_profile_of(clv_context *ctx, planner_profile **out)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&ctx->planner_mutex);
    if (!ctx->planner) {
        planner_profile *profile;
        status = planner_profile_create(ctx, &profile);
        if (!status) {
            ctx->planner = profile;
            ctx->planner_destroy = destroy;
        }
    }
    *out = ctx->planner;
    pthread_mutex_unlock(&ctx->planner_mutex);
    return status;
}

/* Queries do not change what they look at, but they lock it. */
static planner_profile *lock(const planner_profile *profile)
{
    planner_profile *p = (planner_profile *)(uintptr_t)profile;
    pthread_rwlock_rdlock(&p->lock);
    return p;
}

static void unlock(planner_profile *profile)
{
    pthread_rwlock_unlock(&profile->lock);
}

/* The roofline of the device (Williams, Waterman, Patterson: Roofline, CACM
 * 2009), by the best rates that it has shown. */
static double roofline_ns(const planner_profile_device *dev,
                          const planner_workload *workload)
{
    return fmax(planner_workload_bytes(workload) / dev->top_bytes,
                planner_workload_flops(workload) / dev->top_flops);
}

/* Of the same kind, with the nearest amount of work; NULL: there is none. */
static const planner_sample *nearest_sample(const planner_profile_device *dev,
                                            const planner_workload *workload)
{
    const double flops = planner_workload_flops(workload);
    const planner_sample *best = NULL;
    double nearest = INFINITY;
    for (uint32_t i = 0; i < dev->n_samples; i++) {
        const planner_sample *s = &dev->samples[i];
        if (!(s->ns > PLANNER_FREE_NS) ||
            !planner_workload_same_kind(&s->workload, workload))
            continue;
        const double distance =
            fabs(log(planner_workload_flops(&s->workload) / flops));
        if (distance < nearest) {
            nearest = distance;
            best = s;
        }
    }
    return best;
}

/* As many times the roofline as the sample of the same kind with the nearest
 * amount of work; where there is none, or a short one of much less work, the
 * roofline, and what that sample took more than its own. */
static double scaled_roofline_ns(const planner_profile_device *dev,
                                 const planner_workload *workload)
{
    const planner_sample *s = nearest_sample(dev, workload);
    const double ns = roofline_ns(dev, workload);
    if (!s)
        return ns;
    const double least = roofline_ns(dev, &s->workload);
    return s->ns < SHORT_NS && ns > MUCH * least ? ns + fmax(s->ns - least, 0)
                                                 : s->ns / least * ns;
}

/* Whether there are at least FEW_SAMPLES of the same kind and of about as many
 * rows. */
static bool has_alike(const planner_profile_device *dev,
                      const planner_workload *workload)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < dev->n_samples && n < FEW_SAMPLES; i++) {
        const planner_sample *s = &dev->samples[i];
        n += s->ns > PLANNER_FREE_NS && s->workload.n <= ALIKE * workload->n &&
             workload->n <= ALIKE * s->workload.n &&
             planner_workload_same_kind(&s->workload, workload);
    }
    return n == FEW_SAMPLES;
}

/* Whether the model is better than the roofline: it holds for most samples, and
 * some are like the workload. Where nearly all are of single tokens, a model
 * that holds for them may be off by any factor for prompts. */
static bool is_trusted(const planner_profile_device *dev,
                       const planner_fit *fit, const planner_workload *workload)
{
    const planner_fit_error *error = &fit->held_out;
    return error->n >= FEW_SAMPLES && error->median <= TRUSTED &&
           (error->n >= SOME_SAMPLES || error->p90 <= TRUSTED_FEW) &&
           has_alike(dev, workload);
}

static bool cost_of(const planner_profile_device *dev,
                    const planner_workload *workload, planner_cost *out)
{
    double x[PLANNER_FIT_FEATURES];
    const planner_sample *sample = planner_profile_sample(dev, workload);
    const planner_profile_kind *kind =
        planner_profile_kind_of(dev, &workload->kind);
    const bool modelled = kind && kind->fit.n_samples;
    /* A variant may be slower than the plain one by any factor. */
    if (workload->kind.way && !modelled && !nearest_sample(dev, workload))
        return false;
    if (sample && sample->ns > 0 &&
        !(modelled && planner_profile_is_noisy(sample))) {
        *out = (planner_cost){sample->ns *
                                  planner_profile_drift(dev, sample->drifts),
                              sample->energy_nj, true};
        return true;
    }
    double ns;
    if (modelled &&
        (!(dev->top_bytes > 0) || is_trusted(dev, &kind->fit, workload))) {
        planner_workload_features(workload, x);
        ns = planner_fit_predict(&kind->fit, x);
    } else if (dev->top_bytes > 0 && dev->top_flops > 0) {
        ns = scaled_roofline_ns(dev, workload);
    } else {
        return false;
    }
    if (dev->pace > 0) {
        sample = nearest_sample(dev, workload);
        ns *= planner_profile_drift(dev, sample ? sample->drifts : 1);
    }
    *out = (planner_cost){ns, kind ? ns * kind->nj_ns : 0, false};
    return true;
}

/* How much more of the experts is used than with equal chances, in time. */
static double popularity_of(const planner_profile_device *dev,
                            const planner_workload *workload)
{
    const planner_workload plain = planner_workload_plain(workload);
    if (!(workload->experts > 0) || !(dev->top_bytes > 0) ||
        !(dev->top_flops > 0))
        return 1;
    return roofline_ns(dev, workload) / roofline_ns(dev, &plain);
}

bool planner_profile_cost(const planner_profile *profile, const clv_device *dev,
                          const planner_workload *workload, planner_cost *out)
{
    const planner_workload plain = planner_workload_plain(workload);
    planner_profile *p = lock(profile);
    const planner_profile_device *d = planner_profile_find(p, dev);
    bool known = d && cost_of(d, &plain, out);
    const double popularity = known ? popularity_of(d, workload) : 1;
    unlock(p);
    if (known) {
        out->ns *= popularity;
        out->energy_nj *= popularity;
    }
    return known;
}

double planner_profile_popularity(const planner_profile *profile,
                                  const clv_device *dev,
                                  const planner_workload *workload)
{
    planner_profile *p = lock(profile);
    const planner_profile_device *d = planner_profile_find(p, dev);
    const double popularity = d ? popularity_of(d, workload) : 1;
    unlock(p);
    return popularity;
}

/* Of devices with a real clock that were not measured, ns: about what drivers
 * of GPUs take, and what the host's own threads do. */
static const planner_overheads usual_overheads[] = {
    {.submit = 5000,
     .submit_idle = 20000,
     .dispatch = 30000,
     .wait_poll = 30000,
     .wait_block = 60000,
     .copy = 20000,
     .copy_byte = 0.1,
     .copy_row = 20000,
     .learned = PLANNER_ASSUMED},
    {.submit = 1000,
     .submit_idle = 5000,
     .dispatch = 1000,
     .wait_poll = 1000,
     .wait_block = 20000,
     .copy = 1000,
     .copy_byte = 0.1,
     .copy_row = 1000,
     .learned = PLANNER_ASSUMED},
};

const planner_overheads *planner_usual_overheads(const clv_device *dev)
{
    return &usual_overheads[dev->info.kind == CLV_DEVICE_CPU];
}

const planner_overheads *
planner_profile_overheads(const planner_profile *profile, const clv_device *dev)
{
    planner_profile *p = lock(profile);
    const planner_profile_device *d = planner_profile_find(p, dev);
    const planner_overheads *overheads = d ? d->overheads : NULL;
    unlock(p);
    return overheads || dev->info.clock == CLV_CLOCK_VIRTUAL
               ? overheads
               : planner_usual_overheads(dev);
}

double planner_profile_program_ns(const planner_profile *profile,
                                  const clv_device *dev,
                                  const planner_program *program, bool again)
{
    const bool loads = planner_programs_load(dev);
    planner_profile *p = lock(profile);
    const planner_profile_device *d = planner_profile_find(p, dev);
    const double ns =
        d ? planner_programs_ns(&d->programs, program, again, loads) : 0;
    unlock(p);
    return ns;
}

double planner_profile_noise(const planner_profile *profile,
                             const clv_device *dev)
{
    planner_profile *p = lock(profile);
    const planner_profile_device *d = planner_profile_find(p, dev);
    const double noise = d ? d->standard.noise : 0;
    unlock(p);
    return noise;
}

void core_profile_top(const planner_profile *profile, const clv_device *dev,
                      double *bytes, double *flops)
{
    planner_profile *p = lock(profile);
    const planner_profile_device *d = planner_profile_find(p, dev);
    *bytes = d ? d->top_bytes : 0;
    *flops = d ? d->top_flops : 0;
    unlock(p);
}

/* ------------------------------------------------------------------------ */
/* Devices together                                                         */

static uint32_t index_in(const planner_profile_set *set, const clv_device *dev)
{
    uint32_t i = 0;
    while (i < set->n && set->devices[i] != dev)
        i++;
    return i;
}

/* The smallest set that was measured and holds them all. */
static const planner_profile_set *find_set(const planner_profile *p,
                                           clv_device *const *devs, uint32_t n)
{
    const planner_profile_set *best = NULL;
    for (uint32_t i = 0; i < p->n_sets; i++) {
        const planner_profile_set *set = &p->sets[i];
        bool holds = set->n >= n;
        for (uint32_t j = 0; j < n && holds; j++)
            holds = index_in(set, devs[j]) < set->n;
        if (holds && (!best || set->n < best->n))
            best = set;
    }
    return best;
}

/* Some of those that were measured together get no more than each gets alone.
 */
double planner_profile_bandwidth(const planner_profile *profile,
                                 clv_device *const *devs, uint32_t n)
{
    double bandwidth = 0, alone = 0;
    planner_profile *p = lock(profile);
    const planner_profile_set *set = find_set(p, devs, n);
    for (uint32_t i = 0; i < n && set; i++)
        alone += set->contention.alone[index_in(set, devs[i])];
    if (set)
        bandwidth = set->contention.bandwidth;
    if (set && set->n > n && (n == 1 || alone < bandwidth))
        bandwidth = alone;
    unlock(p);
    return bandwidth;
}

/* Of fewer than were measured together each other one slows it down alike. */
double planner_profile_slowdown(const planner_profile *profile,
                                clv_device *const *devs, uint32_t n,
                                uint32_t index)
{
    double slowdown = 1;
    if (n < 2 || index >= n)
        return 1;
    planner_profile *p = lock(profile);
    const planner_profile_set *set = find_set(p, devs, n);
    if (set)
        slowdown += (set->contention.slowdown[index_in(set, devs[index])] - 1) *
                    (n - 1) / (set->n - 1);
    unlock(p);
    return slowdown;
}

/* ------------------------------------------------------------------------ */
/* Costs                                                                     */

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    return planner_profile_cost(ctx, dev, workload, out);
}

static bool cost_of_equal(const void *ctx, const clv_device *dev,
                          const planner_workload *workload, planner_cost *out)
{
    const planner_workload plain = planner_workload_plain(workload);
    return planner_profile_cost(ctx, dev, &plain, out);
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    return planner_profile_overheads(ctx, dev);
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    return planner_profile_bandwidth(ctx, devs, n);
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    return planner_profile_slowdown(ctx, devs, n, index);
}

planner_costs planner_costs_of(const planner_profile *profile)
{
    return (planner_costs){profile, cost, overheads, bandwidth, slowdown};
}

planner_costs planner_costs_of_equal(const planner_profile *profile)
{
    planner_costs costs = planner_costs_of(profile);
    costs.cost = cost_of_equal;
    return costs;
}
