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

/* What the host moves between its memory and staging memory for a step: before
 * it is submitted, and once it is done. */
typedef struct relay {
    bool in, out;
} relay;

/* Accesses by step: step s has list[first[s] .. first[s + 1]). */
typedef struct accesses {
    access *list;
    uint32_t *first;
    uint32_t n;
    relay *relays; /* [n_steps] */
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

static void find_relays(const clv_plan *plan, relay *relays)
{
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_copy *copy = &plan->copies[i];
        relay *r = &relays[plan->parts[copy->part].step];
        r->in |= copy->relayed && !copy->out;
        r->out |= copy->relayed && copy->out;
    }
}

bool planner_host_waits(const clv_plan *plan, uint32_t device, uint32_t on)
{
    const clv_device *dev = plan->devices[device].dev;
    return dev != plan->devices[on].dev &&
           !(dev->info.flags & CLV_DEVICE_FLAG_WAIT);
}

/* A later wait of the step for the same device covers an earlier one. */
static core_wait *add_wait(clv_plan *plan, core_step *step,
                           const core_step *other)
{
    if (!step->n_waits)
        step->first_wait = plan->n_waits;
    for (uint32_t i = step->first_wait; i < plan->n_waits; i++)
        if (plan->waits[i].device == other->device)
            return &plan->waits[i];
    step->n_waits++;
    plan->waits[plan->n_waits] = (core_wait){
        .device = other->device,
        .value = other->signal,
        .by_host = planner_host_waits(plan, step->device, other->device)};
    return &plan->waits[plan->n_waits++];
}

/* What is known when a step is submitted, a row of n_queues for each step:
 * clocks[s], how far each queue is once step s is done, and seen, how far the
 * host has waited for each, which submits in this order. */
typedef struct progress {
    uint64_t *clocks, *seen;
} progress;

/* Looking back from the step, what an earlier wait or the device's own order
 * already covers needs no wait. Where the host moves bytes between two steps,
 * only a wait of the host does. */
static void find_waits_of(clv_plan *plan, const accesses *all, uint32_t s,
                          progress *p)
{
    const uint32_t n = plan->n_queues;
    core_step *step = &plan->steps[s];
    uint64_t *clock = p->clocks + (size_t)s * n;
    for (uint32_t t = s; t-- > 0;) {
        const core_step *other = &plan->steps[t];
        const bool relayed =
            (all->relays[s].in || all->relays[t].out) &&
            plan->devices[step->device].dev != plan->devices[other->device].dev;
        const uint64_t known =
            relayed ? p->seen[other->device] : clock[other->device];
        if (other->device == step->device || other->signal <= known ||
            !conflict(plan->graph, all, s, t))
            continue;
        core_wait *wait = add_wait(plan, step, other);
        wait->by_host |= relayed;
        if (wait->by_host && wait->value > p->seen[wait->device])
            p->seen[wait->device] = wait->value;
        join(clock, p->clocks + (size_t)t * n, n);
    }
    clock[step->device] = step->signal;
}

static void find_waits(clv_plan *plan, const accesses *all, progress *p)
{
    const uint32_t n = plan->n_queues;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        uint32_t before = s;
        while (before &&
               plan->steps[before - 1].device != plan->steps[s].device)
            before--;
        if (before)
            join(p->clocks + (size_t)s * n,
                 p->clocks + (size_t)(before - 1) * n, n);
        find_waits_of(plan, all, s, p);
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
                    .first = calloc(n_steps + 1, sizeof *all.first),
                    .relays = calloc(n_steps, sizeof *all.relays)};
    progress p = {.clocks = calloc(n_steps * plan->n_queues, sizeof *p.clocks),
                  .seen = calloc(plan->n_queues, sizeof *p.seen)};
    /* At most one wait on each other device. */
    plan->waits = calloc(n_steps * plan->n_queues, sizeof *plan->waits);
    if (!all.list || !all.first || !all.relays || !p.clocks || !p.seen ||
        !plan->waits) {
        status = core_no_memory("for a plan");
        goto done;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        collect_step(&all, plan, &plan->steps[s]);
        all.first[s + 1] = all.n;
    }
    find_relays(plan, all.relays);
    find_waits(plan, &all, &p);
done:
    free(p.seen);
    free(p.clocks);
    free(all.relays);
    free(all.first);
    free(all.list);
    return status;
}
