/*
 * The order in which the host submits steps. Each device has its own order
 * already; between devices, the step goes first that can be submitted first. So
 * a wait of the host for one device holds back no step of another one, and a
 * queue gets its next step while the one before still runs.
 *
 * This plays a run through with the times that steps take: all that matters is
 * which of two steps ends first. Where profiles do not know them all, the bytes
 * that nodes touch stand for them.
 */
#include "../profile/profile.h"
#include "../../core/device/subgraph.h"
#include "../../core/base/error.h"
#include "lower.h"

#include <stdlib.h>
#include <string.h>

typedef struct scheduler {
    clv_plan *plan;
    uint32_t *lists; /* [n_steps] steps by device, in its order */
    uint32_t *first; /* [n_devices] where a device's begin */
    uint32_t *next;  /* [n_devices] how many of them are submitted */
    double *takes;   /* [n_steps] a step on its device */
    double *ends;    /* [n_steps] when it ends */
    uint32_t *order; /* [n_steps] as submitted */
} scheduler;

/* Bytes that a node touches, for the largest symbols. */
static double node_bytes(const clv_graph *graph, const clv_node *node)
{
    double sum = 0;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        clv_value value = i < node->n_inputs
                              ? node->inputs[i]
                              : node->outputs[i - node->n_inputs];
        uint64_t bytes;
        if (value != CLV_NO_TENSOR &&
            core_desc_size(&graph->tensors[value], NULL, &bytes) == CLV_OK)
            sum += (double)bytes;
    }
    return sum;
}

static void list_steps(scheduler *s)
{
    const clv_plan *plan = s->plan;
    uint32_t at = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        s->first[d] = at;
        for (uint32_t i = 0; i < plan->n_steps; i++)
            if (plan->steps[i].device == d)
                s->lists[at++] = i;
    }
}

static bool time_copy(scheduler *s, const planner_profile *profile,
                      uint32_t part)
{
    const clv_plan *plan = s->plan;
    const core_part *p = &plan->parts[part];
    const planner_overheads *o =
        planner_profile_overheads(profile, plan->devices[p->device].dev);
    core_runs runs;
    if (!o || core_plan_copy_runs(plan, plan->graph->nodes[p->node].inputs[0],
                                  NULL, &runs))
        return false;
    s->takes[p->step] +=
        o->copy * (double)runs.n + o->copy_byte * (double)(runs.bytes * runs.n);
    return true;
}

/* For the largest symbols. False: of some part it is not known. */
static bool time_steps(scheduler *s, const planner_profile *profile)
{
    const clv_plan *plan = s->plan;
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const core_part *part = &plan->parts[i];
        core_workload workload;
        planner_cost cost;
        if (core_part_copies(plan, i)) {
            if (!time_copy(s, profile, i))
                return false;
            continue;
        }
        core_workload_of(plan->graph, part->node, NULL, NULL, &workload);
        if (!planner_profile_cost(profile, plan->devices[part->device].dev,
                                  &workload, &cost))
            return false;
        s->takes[part->step] += cost.ns;
    }
    return true;
}

static clv_status guess_times(scheduler *s)
{
    const clv_plan *plan = s->plan;
    planner_profile *profile;
    clv_status status = planner_profile_of(plan->ctx, &profile);
    if (status || time_steps(s, profile))
        return status;
    memset(s->takes, 0, plan->n_steps * sizeof *s->takes);
    for (uint32_t i = 0; i < plan->n_parts; i++)
        s->takes[plan->parts[i].step] +=
            node_bytes(plan->graph, &plan->graph->nodes[plan->parts[i].node]);
    return CLV_OK;
}

/* Whether all that the step needs has been submitted; then *end becomes when
 * the last of it ends. */
static bool needed_end(const scheduler *s, uint32_t step, double *end)
{
    const clv_plan *plan = s->plan;
    const uint64_t *clock = plan->clocks + (size_t)step * plan->n_devices;
    *end = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        if (!clock[d] || d == plan->steps[step].device)
            continue;
        if (clock[d] > s->next[d])
            return false;
        double then = s->ends[s->lists[s->first[d] + clock[d] - 1]];
        *end = then > *end ? then : *end;
    }
    return true;
}

/* Whether the host waits for something that the step needs. */
static bool host_waits(const clv_plan *plan, uint32_t step)
{
    const uint64_t *clock = plan->clocks + (size_t)step * plan->n_devices;
    uint32_t device = plan->steps[step].device;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (clock[d] && d != device && core_plan_host_waits(plan, device, d))
            return true;
    return !(plan->devices[device].dev->info.flags & CLV_DEVICE_FLAG_WAIT);
}

/* The device whose next step can be submitted first. There is one: the steps
 * are in an order that is possible. */
static uint32_t choose(const scheduler *s, double now, double *ready,
                       double *needed)
{
    const clv_plan *plan = s->plan;
    uint32_t best = plan->n_devices, best_step = CORE_NO_STEP;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        double end, then = now;
        if (s->next[d] == plan->devices[d].n_steps)
            continue;
        uint32_t step = s->lists[s->first[d] + s->next[d]];
        if (!needed_end(s, step, &end))
            continue;
        if (host_waits(plan, step) && end > then)
            then = end;
        if (best == plan->n_devices || then < *ready ||
            (then == *ready && step < best_step)) {
            best = d;
            best_step = step;
            *ready = then;
            *needed = end;
        }
    }
    return best;
}

static void play(scheduler *s)
{
    const clv_plan *plan = s->plan;
    double now = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        double ready = 0, needed = 0;
        uint32_t d = choose(s, now, &ready, &needed);
        uint32_t at = s->first[d] + s->next[d]++, step = s->lists[at];
        double begin = ready > needed ? ready : needed;
        if (at > s->first[d] && s->ends[s->lists[at - 1]] > begin)
            begin = s->ends[s->lists[at - 1]];
        s->ends[step] = begin + s->takes[step];
        s->order[i] = step;
        now = ready;
    }
}

/* Moves steps and their clocks to their new places. */
static clv_status renumber(scheduler *s)
{
    clv_plan *plan = s->plan;
    size_t n = plan->n_steps, width = plan->n_devices;
    core_step *steps = calloc(n, sizeof *steps);
    uint64_t *clocks = calloc(n * width, sizeof *clocks);
    uint32_t *place = calloc(n, sizeof *place);
    clv_status status =
        steps && clocks && place ? CLV_OK : core_no_memory("for a plan");
    for (uint32_t i = 0; i < n && !status; i++) {
        steps[i] = plan->steps[s->order[i]];
        memcpy(clocks + i * width, plan->clocks + s->order[i] * width,
               width * sizeof *clocks);
        place[s->order[i]] = i;
    }
    if (!status) {
        for (uint32_t i = 0; i < plan->n_parts; i++)
            plan->parts[i].step = place[plan->parts[i].step];
        memcpy(plan->steps, steps, n * sizeof *steps);
        memcpy(plan->clocks, clocks, n * width * sizeof *clocks);
    }
    free(place);
    free(clocks);
    free(steps);
    return status;
}

clv_status planner_order(clv_plan *plan)
{
    size_t n = plan->n_steps;
    scheduler s = {.plan = plan,
                   .lists = calloc(n, sizeof *s.lists),
                   .first = calloc(plan->n_devices, sizeof *s.first),
                   .next = calloc(plan->n_devices, sizeof *s.next),
                   .takes = calloc(n, sizeof *s.takes),
                   .ends = calloc(n, sizeof *s.ends),
                   .order = calloc(n, sizeof *s.order)};
    clv_status status =
        s.lists && s.first && s.next && s.takes && s.ends && s.order
            ? CLV_OK
            : core_no_memory("for a plan");
    if (!status)
        status = guess_times(&s);
    if (!status) {
        list_steps(&s);
        play(&s);
        status = renumber(&s);
    }
    free(s.order);
    free(s.ends);
    free(s.takes);
    free(s.next);
    free(s.first);
    free(s.lists);
    return status;
}
