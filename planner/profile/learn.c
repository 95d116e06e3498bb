/* Costs that runs of plans have shown. */
#include "coverage.h"

#include <string.h>

static bool has_kind(const planner_sample *samples, uint32_t n,
                     const planner_workload_kind *kind)
{
    for (uint32_t i = 0; i < n; i++)
        if (!memcmp(&samples[i].workload.kind, kind, sizeof *kind))
            return true;
    return false;
}

/* The device, which nobody else reads or measures until end(), also after an
 * error. */
static clv_status begin(planner_profile *profile, clv_device *dev,
                        planner_profile_device **device)
{
    const planner_profile_params params = {.cached = true};
    planner_coverage s = {.profile = profile, .params = &params};
    pthread_mutex_lock(&profile->measuring);
    clv_status status = planner_coverage_device(&s, dev, device);
    pthread_rwlock_wrlock(&profile->lock);
    return status;
}

/* changed: NULL if nothing is to be saved. */
static clv_status end(planner_profile *profile, clv_status status,
                      planner_profile_device *changed)
{
    pthread_rwlock_unlock(&profile->lock);
    if (!status && changed)
        planner_profile_save(profile, changed);
    pthread_mutex_unlock(&profile->measuring);
    return status;
}

clv_status planner_profile_learn(planner_profile *profile, clv_device *dev,
                                 const planner_sample *samples, uint32_t n)
{
    planner_profile_device *device = NULL;
    clv_status status = begin(profile, dev, &device);
    for (uint32_t i = 0; i < n && !status; i++) {
        planner_sample sample = samples[i];
        const planner_sample *known =
            planner_profile_sample(device, &sample.workload);
        sample.drifts = known ? known->drifts : device->standard.ns > 0;
        sample.ns /= planner_profile_drift(device, sample.drifts);
        status = planner_profile_add_sample(device, &sample);
    }
    for (uint32_t i = 0; !status && i < device->n_kinds; i++)
        if (has_kind(samples, n, &device->kinds[i].kind))
            status = planner_profile_fit_kind(device, &device->kinds[i]);
    return end(profile, status, device);
}

clv_status planner_profile_learn_overheads(planner_profile *profile,
                                           clv_device *dev,
                                           const planner_overheads *overheads)
{
    planner_profile_device *device = NULL;
    clv_status status = begin(profile, dev, &device);
    if (!status)
        status = planner_profile_set_overheads(device, overheads);
    return end(profile, status, device);
}

clv_status planner_profile_learn_programs(planner_profile *profile,
                                          clv_device *dev,
                                          const planner_program_time *times,
                                          uint32_t n)
{
    planner_profile_device *device = NULL;
    bool changed = false;
    clv_status status = begin(profile, dev, &device);
    if (!status)
        status = planner_programs_note(&device->programs, times, n,
                                       planner_programs_load(dev), &changed);
    return end(profile, status, changed ? device : NULL);
}

planner_history *planner_profile_history(planner_profile *profile)
{
    return &profile->history;
}
