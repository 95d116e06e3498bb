/* Devices at work at the same time, against each alone. */
#include "common_workloads.h"
#include "measure_copies.h"
#include "../../core/device/memory.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a node, at least, and of a run, about. Beside them the begin of programs
 * and nodes, in which nothing is moved, does not count. */
typedef struct length_ns {
    double node, run;
} length_ns;
static const length_ns real_length = {2e6, 2e7};
/* What is simulated may be computed as well, which takes its time. */
static const length_ns virtual_length = {5e6, 3e7};
static const length_ns virtual_compute_length = {1e5, 4e5};

#define BALANCING 3 /* rounds */
#define FEW_COPIES 8

/* Repetitions for each of the meter's, where time is real: what others do on
 * the machine disturbs some of these runs. */
#define PATIENCE 4
#define MAX_REPETITIONS 64
#define NOISY_RUNS 32u /* of simulated devices */
/* Runs that differ by no more are enough after the first repetitions. */
#define STEADY 1.04

/* After that long a few runs of a kind are enough. */
#define LONG_NS UINT64_C(1000000000)
#define FEW 3u

/* Work that moves this part of what its device can move alone is slowed down by
 * the memory, which is measured by itself. */
#define MEMORY_BOUND 0.5

/* One device's work, at first the same time for all when alone: a program, or
 * as many copies as that would have nodes. */
typedef struct party {
    clv_device *dev;
    planner_workload workload;
    planner_trial_params params;
    core_trial *trial;
    planner_copier *copier; /* NULL: it runs the program */
    planner_trial_span span;
    double alone_ns; /* a run of the trial */
    bool noisy;      /* a simulated device whose times are random */
    double bytes;    /* that it moves */
} party;

static clv_status set_nodes(planner_meter *meter, party *p, double nodes)
{
    p->params.nodes = nodes > 1 ? (uint32_t)round(nodes) : 1;
    if (p->copier) {
        p->bytes = p->params.nodes * (double)planner_copier_bytes(p->copier);
        return CLV_OK;
    }
    p->bytes = p->params.nodes * planner_workload_bytes(&p->workload);
    planner_trial_destroy(p->trial);
    p->trial = NULL;
    return planner_trial_create(meter, p->dev, &p->params, &p->trial);
}

static clv_status submit(const party *p, uint64_t correlation)
{
    return p->copier
               ? planner_copier_submit(p->copier, p->params.nodes, correlation)
               : planner_trial_submit(p->trial, correlation);
}

/* All of them at once; spans are filled in. */
static clv_status run(party *parties, uint32_t n)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        parties[i].span = (planner_trial_span){.correlation = i + 1};
        planner_trial_forget(parties[i].dev);
        status = planner_trial_now(parties[i].dev, &parties[i].span.begin);
        if (!status)
            status = submit(&parties[i], i + 1);
    }
    for (uint32_t i = 0; i < n && !status; i++) {
        status = parties[i].copier ? planner_copier_wait(parties[i].copier)
                                   : planner_trial_wait(parties[i].trial, 0);
        if (!status)
            status = planner_trial_now(parties[i].dev, &parties[i].span.end);
    }
    for (uint32_t i = 0; i < n && !status; i++) {
        planner_trial_span span = {.correlation = i + 1};
        if (planner_trial_spans(parties[i].dev, &span, 1) == CLV_OK && span.end)
            parties[i].span = span;
    }
    return status;
}

static double length(const party *p)
{
    return p->span.end - p->span.begin;
}

static clv_status party_make(planner_meter *meter, clv_device *dev,
                             bool compute, uint32_t part, uint32_t parts,
                             const planner_workload_kind *weights, party *out)
{
    const length_ns want = dev->info.clock != CLV_CLOCK_VIRTUAL ? real_length
                           : compute ? virtual_compute_length
                                     : virtual_length;
    double node;
    *out = (party){.dev = dev};
    /* Simulated memory is not faster the second time. */
    out->params =
        (planner_trial_params){.workload = &out->workload,
                               .part = part,
                               .parts = parts,
                               .shared = dev->info.clock == CLV_CLOCK_VIRTUAL};
    clv_status status = planner_common_workloads(
        meter, dev, compute, want.node, weights, &out->workload, &node);
    if (!status)
        status = set_nodes(meter, out, want.run / node);
    return status ? status : planner_trial_is_noisy(out->trial, &out->noisy);
}

/* Few copies tell how many it takes. */
static clv_status party_copy(clv_device *dev, party *out)
{
    const bool real = dev->info.clock != CLV_CLOCK_VIRTUAL;
    const double want = real ? real_length.run : virtual_length.run;
    *out = (party){.dev = dev};
    CLV_TRY(planner_copier_create(dev, real, &out->copier));
    CLV_TRY(set_nodes(NULL, out, FEW_COPIES));
    CLV_TRY(run(out, 1));
    CLV_TRY(run(out, 1));
    return set_nodes(NULL, out, FEW_COPIES * want / fmax(length(out), 1));
}

static void party_free(party *p)
{
    planner_trial_destroy(p->trial);
    planner_copier_destroy(p->copier);
}

/* Length of a run alone. */
static clv_status time_alone(const planner_meter *meter, party *p)
{
    uint32_t n = meter->params.repetitions;
    if (p->dev->info.clock == CLV_CLOCK_VIRTUAL)
        n = p->noisy ? NOISY_RUNS : 1;
    double *values = calloc(n, sizeof *values);
    if (!values)
        return core_no_memory("to measure devices");
    const uint64_t start = clv_now_ns();
    clv_status status = run(p, 1);
    uint32_t done = 0;
    while (done < n && !status &&
           (done < FEW || clv_now_ns() - start < LONG_NS)) {
        status = run(p, 1);
        values[done++] = length(p);
    }
    p->alone_ns = planner_typical(p->noisy, values, done ? done : 1);
    free(values);
    return status;
}

/* While all of them worked. */
static double overlap(const party *parties, uint32_t n)
{
    double begin = 0, end = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        begin = fmax(begin, parties[i].span.begin);
        end = fmin(end, parties[i].span.end);
    }
    return end - begin;
}

/* Part of its run that a device did while all worked; the rest it did at the
 * speed that it has alone. */
static double shared_part(const party *p, double overlap_ns)
{
    double rest = (length(p) - overlap_ns) / p->alone_ns;
    return rest < 1 ? 1 - rest : 0;
}

static double bandwidth(const party *parties, uint32_t n)
{
    double ns = overlap(parties, n), bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += parties[i].bytes * shared_part(&parties[i], ns);
    return ns > 0 ? bytes / ns : 0;
}

static double slowdown(const party *parties, uint32_t n, uint32_t index)
{
    double ns = overlap(parties, n);
    double part = shared_part(&parties[index], ns);
    return part > 0 ? ns / (part * parties[index].alone_ns) : 1;
}

/* At least 1. Where times are random, what chance explains is nothing. */
static double typical_slowdown(const party *p, double *values, uint32_t n)
{
    double squares = 0;
    const double mean = planner_typical(p->noisy, values, n);
    if (!p->noisy || n < 2)
        return fmax(mean, 1);
    for (uint32_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    const double error = sqrt(2 * squares / (n * (n - 1.0)));
    return mean > 1 + 2 * error ? mean : 1;
}

/* What a device does after others have ended is at some other speed than alone,
 * if there are still others: as much work for each as it does by the time that
 * the first one ends. */
static clv_status balance(planner_meter *meter, party *parties, uint32_t n)
{
    clv_status status = CLV_OK;
    for (int round = 0; round < BALANCING && n > 2 && !status; round++) {
        double shortest = INFINITY;
        status = run(parties, n);
        for (uint32_t i = 0; i < n; i++)
            shortest = fmin(shortest, length(&parties[i]));
        for (uint32_t i = 0; i < n && !status; i++)
            status = set_nodes(meter, &parties[i],
                               parties[i].params.nodes * shortest /
                                   length(&parties[i]));
    }
    return status;
}

/* The middle half of what was found lies together: nobody disturbed that. */
static bool is_steady(const double *values, uint32_t n)
{
    double sorted[MAX_REPETITIONS];
    memcpy(sorted, values, n * sizeof *sorted);
    double low = planner_undisturbed(sorted, n); /* sorts */
    return sorted[n - 1 - (n - 1) / 4] <= low * STEADY;
}

static bool all_steady(const double *values, uint32_t n, uint32_t repetitions,
                       uint32_t done)
{
    for (uint32_t i = 0; i < n; i++)
        if (!is_steady(values + i * repetitions, done))
            return false;
    return true;
}

/* values: [repetitions] for 1 / bandwidth, or [n][repetitions]; as many as
 * *done of each. */
static clv_status measure(planner_meter *meter, party *parties, uint32_t n,
                          bool compute, double *values, uint32_t repetitions,
                          uint32_t *done)
{
    clv_status status = balance(meter, parties, n);
    for (uint32_t i = 0; i < n && !status; i++)
        status = time_alone(meter, &parties[i]);
    *done = 0;
    const uint64_t start = clv_now_ns();
    for (uint32_t r = 0; r < repetitions && !status; r++) {
        if ((r && r % meter->params.repetitions == 0 &&
             all_steady(values, compute ? n : 1, repetitions, r)) ||
            (r >= FEW && clv_now_ns() - start > LONG_NS))
            break;
        *done = r + 1;
        status = run(parties, n);
        for (uint32_t i = 0; i < n && compute && !status; i++)
            values[i * repetitions + r] = slowdown(parties, n, i);
        if (!compute && !status)
            values[r] = 1 / fmax(bandwidth(parties, n), 1e-9);
    }
    return status;
}

static uint32_t repetitions(const planner_meter *meter, const party *parties,
                            uint32_t n)
{
    uint32_t reps = PATIENCE * meter->params.repetitions;
    if (parties[0].dev->info.clock == CLV_CLOCK_VIRTUAL)
        reps = 1;
    for (uint32_t i = 0; i < n; i++)
        if (parties[i].noisy)
            reps = NOISY_RUNS;
    return reps < MAX_REPETITIONS ? reps : MAX_REPETITIONS;
}

static bool has_own_memory(const clv_device *dev)
{
    uint32_t type;
    return core_device_has_local(dev, &type);
}

static clv_status one_kind(planner_meter *meter, clv_device *const *devs,
                           uint32_t n, bool compute, planner_contention *out)
{
    party *parties = calloc(n, sizeof *parties);
    double *values = calloc((size_t)n * MAX_REPETITIONS, sizeof *values);
    clv_status status =
        parties && values ? CLV_OK : core_no_memory("to measure devices");
    for (uint32_t i = 0; i < n && !status; i++)
        status = compute || !has_own_memory(devs[i])
                     ? party_make(meter, devs[i], compute, i, n, &out->weights,
                                  &parties[i])
                     : party_copy(devs[i], &parties[i]);
    const uint32_t reps = status ? 1 : repetitions(meter, parties, n);
    uint32_t done = reps;
    if (!status)
        status = measure(meter, parties, n, compute, values, reps, &done);
    for (uint32_t i = 0; i < n && !status; i++) {
        const double rate = parties[i].bytes / parties[i].alone_ns;
        if (compute)
            out->slowdown[i] =
                has_own_memory(devs[i]) || rate < MEMORY_BOUND * out->alone[i]
                    ? typical_slowdown(&parties[i], values + i * reps, done)
                    : 1;
        else
            out->alone[i] = rate;
    }
    if (!status && !compute)
        out->bandwidth = 1 / planner_median(values, done);
    for (uint32_t i = 0; i < n && parties; i++)
        party_free(&parties[i]);
    free(values);
    free(parties);
    return status;
}

static clv_status check(clv_device *const *devs, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (devs[i]->info.clock != devs[0]->info.clock ||
            (devs[0]->info.clock == CLV_CLOCK_VIRTUAL &&
             devs[i]->plugin != devs[0]->plugin))
            return clv_error(CLV_ERR_INVALID,
                             "devices '%s' and '%s' have different clocks and "
                             "cannot be timed together",
                             devs[0]->id, devs[i]->id);
    return n > 1 ? CLV_OK
                 : clv_error(CLV_ERR_INVALID, "one device alone has none to "
                                              "share with; name two");
}

/* A device that works in memory of its own takes nothing from the others, but
 * for what it copies. One that cannot copy by itself is left out. */
static clv_status measure_memory(planner_meter *meter, clv_device *const *devs,
                                 uint32_t n, planner_contention *out)
{
    clv_device **sharing = calloc(n, sizeof *sharing);
    double *alone = calloc(n, sizeof *alone);
    clv_status status =
        sharing && alone ? CLV_OK : core_no_memory("to measure devices");
    planner_contention one = {.weights = out->weights, .alone = alone};
    uint32_t m = 0, type;
    for (uint32_t i = 0; i < n && !status; i++)
        if (!has_own_memory(devs[i]) ||
            core_device_staging_type(devs[i], &type))
            sharing[m++] = devs[i];
    if (m && !status)
        status = one_kind(meter, sharing, m, false, &one);
    out->bandwidth = m > 1 ? one.bandwidth : 0;
    for (uint32_t i = 0, j = 0; i < n && !status; i++)
        out->alone[i] = j < m && devs[i] == sharing[j] ? alone[j++] : 0;
    free(alone);
    free(sharing);
    return status;
}

clv_status planner_measure_contention(planner_meter *meter,
                                      clv_device *const *devs, uint32_t n,
                                      planner_contention *out)
{
    clv_status status = check(devs, n);
    if (!status)
        status = measure_memory(meter, devs, n, out);
    if (!status)
        status = one_kind(meter, devs, n, true, out);
    return status ? clv_error_prefix(status, "devices at work together")
                  : CLV_OK;
}
