/* Measuring what a graph needs. */
#include "coverage.h"
#include "variants.h"
#include "../../core/device/loss.h"
#include "../../core/device/caps.h"
#include "../../core/device/memory.h"
#include "../../core/base/error.h"
#include "../../core/config/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Quick: real time for the works of a device, more where kinds would be left
 * with few samples, and for one work. */
#define BUDGET_NS 1e9
#define MAX_BUDGET_NS 3e9
#define FEW_SAMPLES 6
#define MAX_WORK_NS 0.3e9
/* Works of a simulated device, which take the host a fraction of a millisecond
 * each; and the process's own time for them, where it computes their results.
 */
#define MAX_SIMULATED 2000
#define MAX_SIMULATED_NS 10e9

/* What is measured without being asked may take so long, for one workload. */
#define QUICK_NS 2e7
/* Rows of a product cost a device about this part of the first one, at least.
 */
#define ROWS_FOR_ONE 16
/* How often copies are timed then. */
#define FEW_COPIES 5

#define MIB (UINT64_C(1) << 20)
static const planner_meter_params full_meter = {.max_seconds = 0.3,
                                                .max_pool = 2048 * MIB};
static const planner_meter_params quick_meter = {.max_seconds = 0.008,
                                                 .max_pool = 1024 * MIB};
static const planner_meter_params unasked_meter = {
    .max_seconds = 0.008, .repetitions = 3, .max_pool = 1024 * MIB};
/* Of one work that is measured without being asked. */
#define QUICK_BYTES (128 * MIB)

/* One device's turn. */
typedef struct turn {
    planner_coverage *coverage;
    planner_profile_device *device;
    planner_workloads list; /* what is missing */
    planner_sample *samples;
    double *wall_ns; /* that samples took; 0: none */
    uint32_t n_samples;
    uint64_t begun_ns; /* by now_of() */
    bool each;         /* all that is wanted, rather than enough for models */
} turn;

static clv_status report(const planner_coverage *s, const char *what,
                         double fraction)
{
    const planner_profile_params *params = s->params;
    double of_all = (s->index + fmin(fraction, 1)) / params->n_devices;
    if (!params->progress ||
        !params->progress(params->progress_ctx, what, of_all))
        return CLV_OK;
    return clv_error(CLV_ERR_CANCELLED, "profiling was cancelled");
}

clv_status planner_coverage_open(planner_coverage *s)
{
    planner_profile *profile = s->profile;
    const bool keeps = profile->keepers && !s->params->full;
    if (!s->meter && keeps)
        s->meter = profile->kept;
    if (s->meter)
        return CLV_OK;
    const planner_meter_params *params = s->params->full    ? &full_meter
                                         : s->params->asked ? &quick_meter
                                                            : &unasked_meter;
    clv_status status = profile->source->open(profile->ctx, params, &s->meter);
    if (!status && keeps)
        profile->kept = s->meter;
    return status;
}

void planner_coverage_close(planner_coverage *s)
{
    if (s->meter != s->profile->kept)
        s->profile->source->close(s->meter);
    s->meter = NULL;
}

void planner_profile_hold(planner_profile *profile)
{
    pthread_mutex_lock(&profile->measuring);
    profile->keepers++;
    pthread_mutex_unlock(&profile->measuring);
}

void planner_profile_release(planner_profile *profile)
{
    pthread_mutex_lock(&profile->measuring);
    if (!--profile->keepers) {
        profile->source->close(profile->kept);
        profile->kept = NULL;
    }
    pthread_mutex_unlock(&profile->measuring);
}

/* ------------------------------------------------------------------------ */
/* What is missing                                                          */

/* Whether the kind of a work was sampled over the sizes of all that is wanted
 * of it. */
static bool is_covered(const planner_profile_device *device,
                       const planner_workloads *list,
                       const planner_workload *workload)
{
    const planner_profile_kind *kind =
        planner_profile_kind_of(device, &workload->kind);
    if (!kind || !kind->has_covered)
        return false;
    for (uint32_t i = 0; i < list->n; i++)
        if (planner_workload_same_kind(&list->items[i].workload, workload) &&
            !planner_workload_box_holds(&kind->covered,
                                        &list->items[i].workload))
            return false;
    return true;
}

static bool is_to_retake(const turn *t, const planner_sample *known)
{
    return known && planner_profile_is_noisy(known) && !t->device->retaken;
}

static clv_status find_missing(turn *t, const planner_workloads *list)
{
    t->list.items = calloc(list->n + 1u, sizeof *t->list.items);
    if (!t->list.items)
        return core_no_memory("for a profile");
    for (uint32_t i = 0; i < list->n; i++) {
        const planner_workload *workload = &list->items[i].workload;
        const planner_sample *known =
            planner_profile_sample(t->device, workload);
        if (is_to_retake(t, known) ||
            (!known && (t->each || t->coverage->params->full ||
                        !is_covered(t->device, list, workload))))
            t->list.items[t->list.n++] = list->items[i];
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Measuring                                                                */

/* Real time that a work will take, by the largest smaller one of its kind. */
static double expected_ns(const turn *t, const planner_workload *workload)
{
    double flops = planner_workload_flops(workload), best = -1, ns = 0;
    for (uint32_t i = 0; i < t->n_samples; i++) {
        double other = planner_workload_flops(&t->samples[i].workload);
        if (!planner_workload_same_kind(&t->samples[i].workload, workload) ||
            !(t->wall_ns[i] > 0) || other > flops || other <= best)
            continue;
        best = other;
        ns = t->wall_ns[i] * flops / other;
    }
    return ns;
}

static uint32_t count_samples(const turn *t, const planner_workload *workload)
{
    const planner_profile_kind *kind =
        planner_profile_kind_of(t->device, &workload->kind);
    uint32_t n = kind ? kind->fit.n_samples : 0;
    for (uint32_t i = 0; i < t->n_samples; i++)
        n += planner_workload_same_kind(&t->samples[i].workload, workload) &&
             t->samples[i].ns > 0;
    return n;
}

/* Simulated work is this process's own: by this clock, waiting for a processor
 * is no part of it. */
static uint64_t now_of(const clv_device *dev)
{
    struct timespec now;
    if (dev->info.clock == CLV_CLOCK_REAL)
        return clv_now_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_worth(const turn *t, const planner_workload *workload)
{
    if (t->coverage->params->full)
        return true;
    if (planner_coverage_is_quick(t->coverage, t->device->dev))
        return true;
    double spent = (double)(now_of(t->device->dev) - t->begun_ns);
    double expected = expected_ns(t, workload);
    /* Works are counted, so that plans are the same on every machine. */
    if (t->device->dev->info.clock != CLV_CLOCK_REAL)
        return t->n_samples < MAX_SIMULATED &&
               spent + expected < MAX_SIMULATED_NS;
    if (spent + expected < BUDGET_NS)
        return expected < MAX_WORK_NS;
    if (t->each)
        return false;
    uint32_t n = count_samples(t, workload);
    return !n || (n < FEW_SAMPLES && expected < MAX_WORK_NS &&
                  spent + expected < MAX_BUDGET_NS);
}

/* A work that cannot be measured is noted as such, with a time of 0. Other
 * failures end the device's turn. */
static clv_status measure(turn *t, const planner_workload *workload)
{
    const planner_coverage *s = t->coverage;
    planner_sample sample = {.workload = *workload};
    const uint64_t before = now_of(t->device->dev);
    clv_status status = s->profile->source->workload(s->meter, t->device->dev,
                                                     workload, &sample);
    sample.workload = *workload;
    if (status == CLV_ERR_NO_MEMORY &&
        clv_device_room(t->device->dev) != UINT64_MAX) {
        clv_log(s->profile->ctx, CLV_LOG_DEBUG,
                "no room on '%s' to measure more of it now: %s",
                t->device->dev->id, clv_last_error());
        return CLV_OK;
    }
    if (status == CLV_ERR_UNSUPPORTED || status == CLV_ERR_LIMIT) {
        char text[PLANNER_WORKLOAD_TEXT];
        clv_log(s->profile->ctx, CLV_LOG_DEBUG,
                "%s is not measured on '%s': "
                "%s",
                planner_workload_text(workload, text), t->device->dev->id,
                clv_last_error());
        sample.ns = 0;
        status = CLV_OK;
    } else if (!status) {
        t->wall_ns[t->n_samples] = (double)(now_of(t->device->dev) - before);
        sample.ns = sample.ns >= 1e-3 && isfinite(sample.ns) ? sample.ns : 1e-3;
    }
    if (!status)
        t->samples[t->n_samples++] = sample;
    return status;
}

/* What was measured first of the work's kind, or at all; 0: nothing was. */
static double first_ns(const turn *t, const planner_workload *workload)
{
    for (uint32_t i = 0; i < t->n_samples; i++)
        if (planner_workload_same_kind(&t->samples[i].workload, workload))
            return t->samples[i].ns;
    return t->n_samples ? t->samples[0].ns : 0;
}

/* Fewer rows where a row alone shows that the device is slow. */
static planner_workload affordable(const turn *t,
                                   const planner_workload *workload)
{
    planner_workload w = *workload;
    const double row_ns = first_ns(t, workload);
    if (row_ns > 0 && planner_coverage_is_quick(t->coverage, t->device->dev)) {
        const double most = QUICK_NS / row_ns * ROWS_FOR_ONE;
        w.n = (double)w.n > most ? (int64_t)fmax(most, 1) : w.n;
    }
    return w;
}

static clv_status measure_works(turn *t)
{
    char what[CORE_DEVICE_ID_SIZE + 16];
    snprintf(what, sizeof what, "measuring %s", t->device->dev->id);
    t->samples = calloc(t->list.n + 1u, sizeof *t->samples);
    t->wall_ns = calloc(t->list.n + 1u, sizeof *t->wall_ns);
    clv_status status =
        t->samples && t->wall_ns ? CLV_OK : core_no_memory("for a profile");
    t->begun_ns = now_of(t->device->dev);
    for (uint32_t i = 0; i < t->list.n && !status; i++) {
        status = report(t->coverage, what, (double)i / t->list.n);
        const planner_workload w = affordable(t, &t->list.items[i].workload);
        if (!status && is_worth(t, &w))
            status = measure(t, &w);
    }
    return status;
}

static bool has_overheads(const planner_profile_device *device)
{
    return device->overheads && !(device->overheads->learned & PLANNER_ASSUMED);
}

/* What is usual, with what copies take: they need no programs, and what a
 * device with memory of its own is given depends on them. */
static clv_status look_at_copies(const turn *t, planner_overheads *out)
{
    const planner_profile_source *source = t->coverage->profile->source;
    uint32_t type;
    *out = *planner_usual_overheads(t->device->dev);
    return source->copies && core_device_has_local(t->device->dev, &type)
               ? source->copies(t->device->dev, FEW_COPIES, false, out)
               : CLV_OK;
}

static clv_status measure_overheads(turn *t)
{
    planner_overheads overheads;
    planner_profile *profile = t->coverage->profile;
    const bool quick = planner_coverage_is_quick(t->coverage, t->device->dev);
    if (has_overheads(t->device) || (quick && t->device->overheads))
        return CLV_OK;
    CLV_TRY(quick ? look_at_copies(t, &overheads)
                  : profile->source->overheads(t->coverage->meter,
                                               t->device->dev, &overheads));
    pthread_rwlock_wrlock(&profile->lock);
    clv_status status = planner_profile_set_overheads(t->device, &overheads);
    pthread_rwlock_unlock(&profile->lock);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Taking over                                                              */

static clv_status note_covered(turn *t, uint32_t i)
{
    const planner_workload *workload = &t->list.items[i].workload;
    planner_workload_box box;
    bool any = false;
    for (uint32_t j = 0; j < t->list.n; j++) {
        if (!planner_workload_same_kind(&t->list.items[j].workload, workload))
            continue;
        if (j < i)
            return CLV_OK; /* done with the first one */
        planner_workload_box_add(&box, &any, &t->list.items[j].workload);
    }
    return planner_profile_note_covered(t->device, &workload->kind, &box);
}

static bool has_new_samples(const turn *t, const planner_workload_kind *kind)
{
    for (uint32_t i = 0; i < t->n_samples; i++)
        if (!memcmp(&t->samples[i].workload.kind, kind, sizeof *kind))
            return true;
    return false;
}

/* complete: nothing was left out but for want of time. */
static clv_status take_over(turn *t, bool complete)
{
    planner_profile_device *device = t->device;
    pthread_rwlock_t *lock = &t->coverage->profile->lock;
    clv_status status = CLV_OK;
    pthread_rwlock_wrlock(lock);
    for (uint32_t i = 0; i < t->n_samples && !status; i++) {
        planner_profile_to_standard(device, &t->samples[i]);
        status = planner_profile_add_sample(device, &t->samples[i]);
    }
    for (uint32_t i = 0; i < t->list.n && complete && !status; i++)
        status = note_covered(t, i);
    for (uint32_t i = 0; i < device->n_kinds && !status; i++)
        if (has_new_samples(t, &device->kinds[i].kind))
            status = planner_profile_fit_kind(device, &device->kinds[i]);
    pthread_rwlock_unlock(lock);
    return status;
}

/* A device that fails is left with what was measured of it; others go on. */
static clv_status end_turn(turn *t, clv_status status)
{
    if (status && status != CLV_ERR_CANCELLED && status != CLV_ERR_NO_MEMORY) {
        clv_log(t->coverage->profile->ctx, CLV_LOG_WARN,
                "device '%s' is not fully measured: %s", t->device->dev->id,
                clv_last_error());
        status = CLV_OK;
    }
    return status;
}

bool planner_coverage_is_quick(const planner_coverage *s, const clv_device *dev)
{
    return !s->params->asked && dev->info.clock == CLV_CLOCK_REAL;
}

static clv_status note_programs(turn *t)
{
    const planner_profile_source *source = t->coverage->profile->source;
    pthread_rwlock_t *lock = &t->coverage->profile->lock;
    uint32_t n;
    bool changed;
    if (!source->programs)
        return CLV_OK;
    const planner_program_time *times =
        source->programs(t->coverage->meter, &n);
    pthread_rwlock_wrlock(lock);
    clv_status status =
        planner_programs_note(&t->device->programs, times, n, false, &changed);
    pthread_rwlock_unlock(lock);
    return status;
}

/* complete: whether all was measured that there was time for. */
static clv_status measure_missing(turn *t, bool *complete)
{
    clv_status status = planner_coverage_open(t->coverage), measured;
    if (status)
        return status;
    const uint64_t start = clv_now_ns();
    const planner_profile_source *source = t->coverage->profile->source;
    const double others =
        planner_others_of(t->coverage->profile, t->device->dev);
    uint32_t n_before;
    if (source->programs) /* of other devices */
        source->programs(t->coverage->meter, &n_before);
    measured = end_turn(t, measure_overheads(t));
    const uint64_t between = clv_now_ns();
    if (!measured)
        measured = measure_works(t);
    clv_log(t->coverage->profile->ctx, CLV_LOG_DEBUG,
            "measured '%s': overheads "
            "in %.0f ms, %u of %u works in %.0f ms",
            t->device->dev->id, (double)(between - start) * 1e-6, t->n_samples,
            t->list.n, (double)(clv_now_ns() - between) * 1e-6);
    planner_mark_disturbed(t->coverage->profile, t->device->dev, t->samples,
                           t->n_samples, others, start);
    t->device->retaken = true;
    *complete = !measured && !t->each;
    status = take_over(t, *complete);
    if (!status)
        status = note_programs(t);
    planner_profile_save(t->coverage->profile, t->device);
    return status ? status : end_turn(t, measured);
}

static clv_status measure_device(planner_coverage *s,
                                 planner_profile_device *device,
                                 const clv_graph *graph,
                                 const planner_workloads *list)
{
    turn t = {.coverage = s, .device = device};
    bool complete = true;
    clv_status status = find_missing(&t, list);
    if (!status && (t.list.n || (!has_overheads(device) &&
                                 !planner_coverage_is_quick(s, device->dev))))
        status = measure_missing(&t, &complete);
    if (!status && complete && !planner_coverage_is_quick(s, device->dev))
        status = planner_profile_note_done(device, graph, s->params->full);
    planner_workloads_finish(&t.list);
    free(t.samples);
    free(t.wall_ns);
    return status;
}

clv_status planner_coverage_measure(planner_coverage *s,
                                    planner_profile_device *device,
                                    const planner_workloads *list)
{
    turn t = {.coverage = s, .device = device, .each = true};
    bool complete;
    if (planner_coverage_is_quick(s, device->dev))
        return CLV_OK; /* runs will tell */
    clv_status status = find_missing(&t, list);
    if (!status && t.list.n)
        status = measure_missing(&t, &complete);
    planner_workloads_finish(&t.list);
    free(t.samples);
    free(t.wall_ns);
    return status;
}

/* Whether a device before this one is the same, and has been measured. */
static bool is_repeated(const planner_coverage *s,
                        const planner_profile_device *device)
{
    for (uint32_t i = 0; i < s->index; i++)
        if (planner_profile_find(s->profile, s->params->devices[i]) == device)
            return true;
    return false;
}

/* NULL and a status if memory runs out. */
clv_status planner_coverage_device(planner_coverage *s, clv_device *dev,
                                   planner_profile_device **out)
{
    planner_profile *profile = s->profile;
    planner_profile_device *device = planner_profile_find(profile, dev);
    clv_status status = CLV_OK;
    pthread_rwlock_wrlock(&profile->lock);
    if (!device)
        device = planner_profile_add_device(profile, dev);
    else if (s->params->again && !is_repeated(s, device))
        planner_profile_forget(device);
    pthread_rwlock_unlock(&profile->lock);
    if (!device)
        return core_no_memory("for a profile");
    const bool fresh = !device->key;
    if (fresh)
        status = planner_profile_name(profile, device);
    if (!status && fresh && !s->params->again)
        status = planner_profile_load(profile, device);
    *out = device;
    return status;
}

bool planner_coverage_may_measure(const planner_coverage *s)
{
    return !s->params->cached &&
           (s->params->asked ||
            core_config_choice(s->profile->ctx->config, "core.profile") !=
                CORE_PROFILE_OFF);
}

static clv_status cover_device(planner_coverage *s, const clv_graph *graph)
{
    clv_device *dev = s->params->devices[s->index];
    planner_profile_device *device = NULL;
    planner_workloads list = {.n = 0};
    clv_status status = planner_coverage_device(s, dev, &device);
    if (status || !planner_coverage_may_measure(s) || core_device_lost(dev) ||
        (planner_profile_is_done(device, graph, s->params->full) &&
         !planner_profile_has_noisy(device)))
        return status;
    clv_subgraph view = core_graph_view(graph);
    clv_op_caps *caps = calloc(graph->n_nodes + 1u, sizeof *caps);
    if (!caps)
        return core_no_memory("for a profile");
    status = core_device_caps(dev, &view, caps);
    if (!status)
        planner_limit_variants(s->profile->ctx, caps, graph->n_nodes);
    if (!status)
        status = planner_coverage_is_quick(s, dev)
                     ? planner_profile_main_workloads(graph, caps, QUICK_BYTES,
                                                      &list)
                     : planner_profile_workloads(graph, caps, s->params->full,
                                                 &list);
    if (!status)
        status = measure_device(s, device, graph, &list);
    planner_workloads_finish(&list);
    free(caps);
    return status;
}

/* How fast the device is now, where that changes. */
static clv_status find_pace(planner_coverage *s)
{
    clv_device *dev = s->params->devices[s->index];
    planner_profile_device *device = planner_profile_find(s->profile, dev);
    planner_reference now;
    if (!device || !(device->standard.ns > 0) || core_device_lost(dev) ||
        !planner_coverage_may_measure(s))
        return CLV_OK;
    CLV_TRY(planner_coverage_open(s));
    CLV_TRY(planner_measure_reference(s->meter, dev, &now));
    pthread_rwlock_wrlock(&s->profile->lock);
    device->pace = now.ns / device->standard.ns;
    pthread_rwlock_unlock(&s->profile->lock);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

clv_status planner_profile_cover(planner_profile *profile,
                                 const clv_graph *graph,
                                 const planner_profile_params *params)
{
    planner_coverage s = {.profile = profile, .params = params};
    clv_status status = CLV_OK;
    pthread_mutex_lock(&profile->measuring);
    for (; s.index < params->n_devices && !status; s.index++)
        status = cover_device(&s, graph);
    if (!status)
        status = planner_coverage_contention(&s, graph);
    for (s.index = 0; s.index < params->n_devices && !status; s.index++)
        status = find_pace(&s);
    planner_coverage_close(&s);
    pthread_mutex_unlock(&profile->measuring);
    return status;
}
