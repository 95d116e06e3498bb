/*
 * Finds the waits between steps of different devices: wherever two steps touch
 * the same memory and one of them writes it.
 */
#include "lower.h"
#include "../../core/base/error.h"

#include <stdlib.h>

/* A step's touch of a value's memory. */
typedef struct access {
    clv_value value;
    bool arena; /* values may share memory there */
    uint32_t memory;
    uint64_t begin, end; /* of the whole base, in the arena */
    bool write;
} access;

/* Accesses by step: step s has list[first[s] .. first[s + 1]). */
typedef struct accesses {
    access *list;
    uint32_t *first;
    uint32_t n;
} accesses;

static void add_access(accesses *all, const clv_plan *plan, clv_value value,
                       bool write)
{
    if (value == CLV_NO_TENSOR)
        return;
    clv_value base = plan->graph->values[value].base;
    const core_place *place = &plan->places[base];
    if (place->home == CORE_HOME_WEIGHT)
        return;
    all->list[all->n++] = (access){.value = value,
                                   .arena = place->home == CORE_HOME_ARENA,
                                   .memory = place->memory,
                                   .begin = place->offset,
                                   .end = place->offset + place->size,
                                   .write = write};
}

/* Parts of one value conflict where they overlap, so that devices can work on
 * it side by side. */
static bool share_memory(const clv_graph *graph, const access *a,
                         const access *b)
{
    if (graph->values[a->value].base == graph->values[b->value].base)
        return core_values_overlap(graph, a->value, b->value);
    return a->arena && b->arena && a->memory == b->memory &&
           a->begin < b->end && b->begin < a->end;
}

static void collect_step(accesses *all, const clv_plan *plan,
                         const core_step *step)
{
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const clv_node *node =
            &plan->graph->nodes[plan->parts[step->first_part + i].node];
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            const clv_value value = node->inputs[j];
            add_access(all, plan, value, node->op == CLV_OP_SET_ROWS && j == 0);
            if (value != CLV_NO_TENSOR)
                add_access(all, plan, core_value_scales(plan->graph, value),
                           false);
        }
        for (uint32_t j = 0; j < node->n_outputs; j++)
            add_access(all, plan, node->outputs[j], true);
    }
}

static bool conflict(const clv_graph *graph, const accesses *all, uint32_t s,
                     uint32_t t)
{
    for (uint32_t i = all->first[s]; i < all->first[s + 1]; i++) {
        const access *a = &all->list[i];
        for (uint32_t j = all->first[t]; j < all->first[t + 1]; j++) {
            const access *b = &all->list[j];
            if ((a->write || b->write) && share_memory(graph, a, b))
                return true;
        }
    }
    return false;
}

static void join(uint64_t *clock, const uint64_t *other, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        clock[i] = other[i] > clock[i] ? other[i] : clock[i];
}

/* What the host moves between steps, it waits for. */
bool planner_host_waits(const clv_plan *plan, uint32_t device, uint32_t on)
{
    const core_plan_device *d = &plan->devices[device];
    return d->dev != plan->devices[on].dev &&
           (!(d->dev->info.flags & CLV_DEVICE_FLAG_WAIT) || d->relayed ||
            plan->devices[on].relayed);
}

static void add_wait(clv_plan *plan, core_step *step, const core_step *on)
{
    if (!step->n_waits)
        step->first_wait = plan->n_waits;
    step->n_waits++;
    plan->waits[plan->n_waits++] = (core_wait){
        .device = on->device,
        .value = on->signal,
        .by_host = planner_host_waits(plan, step->device, on->device)};
}

/* clocks[s * n_devices + d]: how far device d is once step s is done. Looking
 * back from each step, what an earlier wait or the device's own order already
 * covers needs no wait. */
static void find_waits(clv_plan *plan, const accesses *all, uint64_t *clocks)
{
    uint32_t n = plan->n_queues;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        core_step *step = &plan->steps[s];
        uint64_t *clock = clocks + (size_t)s * n;
        uint32_t before = s;
        while (before && plan->steps[before - 1].device != step->device)
            before--;
        if (before)
            join(clock, clocks + (size_t)(before - 1) * n, n);
        for (uint32_t t = s; t-- > 0;) {
            const core_step *other = &plan->steps[t];
            if (other->device == step->device ||
                other->signal <= clock[other->device] ||
                !conflict(plan->graph, all, s, t))
                continue;
            add_wait(plan, step, other);
            join(clock, clocks + (size_t)t * n, n);
        }
        clock[step->device] = step->signal;
    }
}

clv_status planner_waits(clv_plan *plan)
{
    size_t n_accesses = 0;
    size_t n_steps = plan->n_steps;
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const clv_node *node = &plan->graph->nodes[plan->parts[i].node];
        n_accesses += 2 * node->n_inputs + node->n_outputs;
    }
    clv_status status = CLV_OK;
    accesses all = {.list = calloc(n_accesses, sizeof *all.list),
                    .first = calloc(n_steps + 1, sizeof *all.first)};
    uint64_t *clocks = calloc(n_steps * plan->n_queues, sizeof *clocks);
    /* At most one wait on each other device that is still needed. */
    plan->waits = calloc(n_steps * plan->n_queues, sizeof *plan->waits);
    if (!all.list || !all.first || !clocks || !plan->waits) {
        status = core_no_memory("for a plan");
        goto done;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        collect_step(&all, plan, &plan->steps[s]);
        all.first[s + 1] = all.n;
    }
    find_waits(plan, &all, clocks);
done:
    free(clocks);
    free(all.first);
    free(all.list);
    return status;
}
