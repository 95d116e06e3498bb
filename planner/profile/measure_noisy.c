/*
 * Simulated devices whose times are random: each submit's by itself, and over
 * seconds. A mean of many runs tells what work takes. In turns with them runs a
 * reference, always the same, that tells how fast the device is meanwhile.
 */
#include "common_workloads.h"
#include "trial.h"

#include <math.h>

/* Rounds, until the means are known so well, as a part of them. */
#define ROUNDS_LEAST 6u
#define ROUNDS_MOST 64u
#define KNOWN 0.01

#define CORRELATION 1u
#define MOST_NODES 2u

/* What is measured, in turns. */
typedef struct turns {
    core_trial *trial;
    double sum, squares, energy;
    uint32_t n;
    bool whole; /* the device does not tell what nodes take: with dispatch */
} turns;

static clv_status take_turn(turns *t)
{
    clv_moment before, after;
    double nodes[MOST_NODES];
    planner_trial_forget(t->trial->dev);
    CLV_TRY(clv_device_now(t->trial->dev, &before));
    CLV_TRY(planner_trial_submit(t->trial, CORRELATION));
    CLV_TRY(planner_trial_wait(t->trial, 0));
    CLV_TRY(clv_device_now(t->trial->dev, &after));
    const uint32_t n =
        planner_trial_nodes(t->trial->dev, CORRELATION, nodes, MOST_NODES);
    const double ns = n ? planner_mean(nodes, n) : after.ns - before.ns;
    t->n++;
    t->whole = !n;
    t->sum += ns;
    t->squares += ns * ns;
    t->energy += after.energy_nj - before.energy_nj;
    return CLV_OK;
}

static double mean(const turns *t)
{
    return t->sum / t->n;
}

/* Of one turn, as a part of the mean. */
static double deviation(const turns *t)
{
    const double variance = t->squares / t->n - mean(t) * mean(t);
    return t->n > 1 && mean(t) > 0
               ? sqrt(fmax(variance, 0) * t->n / (t->n - 1)) / mean(t)
               : 0;
}

static bool is_known(const turns *t)
{
    return t->n >= ROUNDS_LEAST && deviation(t) <= KNOWN * sqrt(t->n);
}

static clv_status take_turns(turns *t, uint32_t n)
{
    bool known = false;
    for (uint32_t round = 0; round < ROUNDS_MOST && !known; round++) {
        known = true;
        for (uint32_t i = 0; i < n; i++) {
            CLV_TRY(take_turn(&t[i]));
            known = known && is_known(&t[i]);
        }
    }
    return CLV_OK;
}

static clv_status make_trial(planner_meter *meter, clv_device *dev,
                             const planner_workload *workload, uint32_t nodes,
                             core_trial **out)
{
    const planner_trial_params params = {
        .workload = workload, .nodes = nodes, .shared = true};
    return planner_trial_create(meter, dev, &params, out);
}

static clv_status make_reference(planner_meter *meter, clv_device *dev,
                                 core_trial **out)
{
    planner_workload workload;
    CLV_TRY(
        planner_common_workloads(meter, dev, true, 0, NULL, &workload, NULL));
    return make_trial(meter, dev, &workload, 1, out);
}

static planner_reference conclude(const turns *t)
{
    return (planner_reference){.ns = mean(t), .noise = deviation(t)};
}

clv_status planner_measure_reference(planner_meter *meter, clv_device *dev,
                                     planner_reference *out)
{
    turns reference = {.trial = NULL};
    *out = (planner_reference){0};
    clv_status status = make_reference(meter, dev, &reference.trial);
    if (!status)
        status = take_turns(&reference, 1);
    if (!status)
        *out = conclude(&reference);
    planner_trial_destroy(reference.trial);
    return status;
}

/* Energy is that of a second node. */
clv_status planner_measure_noisy(planner_meter *meter, clv_device *dev,
                                 const planner_workload *workload,
                                 planner_sample *out)
{
    turns t[3] = {{.trial = NULL}};
    turns *reference = &t[0], *once = &t[1], *twice = &t[2];
    clv_status status = make_reference(meter, dev, &reference->trial);
    if (!status)
        status = make_trial(meter, dev, workload, 1, &once->trial);
    if (!status)
        status = make_trial(meter, dev, workload, 2, &twice->trial);
    if (!status)
        status = take_turns(t, 3);
    if (!status) {
        out->reference = conclude(reference);
        out->ns = once->whole ? mean(twice) - mean(once)
                              : (mean(once) + mean(twice)) / 2;
        out->energy_nj = fmax((twice->energy - once->energy) / once->n, 0);
        out->drifts = deviation(reference) > 0
                          ? fmin(deviation(once) / deviation(reference), 1)
                          : 1;
    }
    for (uint32_t i = 0; i < 3; i++)
        planner_trial_destroy(t[i].trial);
    return status;
}
