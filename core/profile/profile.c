/* What a context's profile answers. */
#include "../base/text.h"
#include "store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

clv_status core_profile_of(clv_context *ctx, core_profile **out)
{
    *out = ctx->profile;
    return CLV_OK;
}

/* Queries do not change what they look at, but they lock it. */
static core_profile *lock(const core_profile *profile)
{
    core_profile *p = (core_profile *)(uintptr_t)profile;
    pthread_rwlock_rdlock(&p->lock);
    return p;
}

static void unlock(core_profile *profile)
{
    pthread_rwlock_unlock(&profile->lock);
}

static bool cost_of(const core_profile_device *dev, const core_work *work,
                    core_cost *out)
{
    double x[CORE_FIT_FEATURES];
    const core_sample *sample = core_profile_sample(dev, work);
    const core_profile_kind *kind = core_profile_kind_of(dev, &work->kind);
    const bool modelled = kind && kind->fit.n_samples;
    if (sample && sample->ns > 0 &&
        !(modelled && core_profile_is_noisy(sample))) {
        *out = (core_cost){sample->ns, sample->energy_nj, true};
        return true;
    }
    if (!modelled)
        return false;
    core_work_features(work, x);
    double ns = core_fit_predict(&kind->fit, x);
    *out = (core_cost){ns, ns * kind->nj_ns, false};
    return true;
}

bool core_profile_cost(const core_profile *profile, const clv_device *dev,
                       const core_work *work, core_cost *out)
{
    core_profile *p = lock(profile);
    const core_profile_device *d = core_profile_find(p, dev);
    bool known = d && cost_of(d, work, out);
    unlock(p);
    return known;
}

const core_overheads *core_profile_overheads(const core_profile *profile,
                                             const clv_device *dev)
{
    core_profile *p = lock(profile);
    const core_profile_device *d = core_profile_find(p, dev);
    const core_overheads *overheads = d ? d->overheads : NULL;
    unlock(p);
    return overheads;
}

void core_profile_top(const core_profile *profile, const clv_device *dev,
                      double *bytes, double *flops)
{
    core_profile *p = lock(profile);
    const core_profile_device *d = core_profile_find(p, dev);
    *bytes = *flops = 0;
    for (uint32_t i = 0; d && i < d->n_samples; i++) {
        const core_sample *s = &d->samples[i];
        if (!(s->ns > 0))
            continue;
        *bytes = fmax(*bytes, core_work_bytes(&s->work) / s->ns);
        *flops = fmax(*flops, core_work_flops(&s->work) / s->ns);
    }
    unlock(p);
}

/* ------------------------------------------------------------------------ */
/* Devices together                                                         */

static uint32_t index_in(const core_profile_set *set, const clv_device *dev)
{
    uint32_t i = 0;
    while (i < set->n && set->devices[i] != dev)
        i++;
    return i;
}

/* The smallest set that was measured and holds them all. */
static const core_profile_set *find_set(const core_profile *p,
                                        clv_device *const *devs, uint32_t n)
{
    const core_profile_set *best = NULL;
    for (uint32_t i = 0; i < p->n_sets; i++) {
        const core_profile_set *set = &p->sets[i];
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
double core_profile_bandwidth(const core_profile *profile,
                              clv_device *const *devs, uint32_t n)
{
    double bandwidth = 0, alone = 0;
    core_profile *p = lock(profile);
    const core_profile_set *set = find_set(p, devs, n);
    if (set) {
        bandwidth = set->contention.bandwidth;
        for (uint32_t i = 0; i < n; i++)
            alone += set->contention.alone[index_in(set, devs[i])];
        if (n < set->n && alone < bandwidth)
            bandwidth = alone;
    }
    unlock(p);
    return bandwidth;
}

/* Of fewer than were measured together each other one slows it down alike. */
double core_profile_slowdown(const core_profile *profile,
                             clv_device *const *devs, uint32_t n,
                             uint32_t index)
{
    double slowdown = 1;
    if (n < 2 || index >= n)
        return 1;
    core_profile *p = lock(profile);
    const core_profile_set *set = find_set(p, devs, n);
    if (set)
        slowdown += (set->contention.slowdown[index_in(set, devs[index])] - 1) *
                    (n - 1) / (set->n - 1);
    unlock(p);
    return slowdown;
}
