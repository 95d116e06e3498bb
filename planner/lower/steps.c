/*
 * Joins nodes into steps by the rules in planner.h. A step ends early enough
 * that no device waits for work which the devices could do side by side.
 */
#include "lower.h"
#include "../../core/device/subgraph.h"
#include "../memory/file_weights.h"
#include "../../core/base/error.h"

#include <stdlib.h>
#include <string.h>

/* A node's use of a value or of a view of it. */
typedef struct use {
    clv_value value;
    uint32_t part; /* before sorting: the node */
    bool write;
    uint32_t older; /* in uses, or NO_USE */
} use;

#define NO_USE 0xffffffffu
#define NOBODY 0xffffffffu

typedef struct joiner {
    clv_plan *plan;
    use *uses;
    uint32_t n_uses;
    uint32_t *newest; /* [n_tensors] latest use of each base */
    uint32_t *needed; /* [n_parts] first node of the source that needs
                         something of it on another device, or NOBODY */
    uint32_t *due;    /* [n_steps] the first of its parts' */
    uint64_t *sizes;  /* [n_queues] bytes that the step being filled reaches, */
    uint64_t *reads;  /* [n_queues] and that it reads from files */
    uint32_t *open;   /* [n_queues] step being filled, or CORE_NO_STEP */
    uint32_t *latest; /* [n_queues] latest step, or CORE_NO_STEP */
    uint32_t *phases; /* [n_queues] of the step being filled */
} joiner;

/* What a step has so far: nothing or copies, then nodes of its program, then
 * copies again. */
enum { PHASE_BEFORE, PHASE_PROGRAM, PHASE_AFTER };

/* Calls fn for every value the part's node touches, until it answers false. */
typedef bool (*touch_fn)(joiner *j, uint32_t part, clv_value value, bool write);

static bool each_value(joiner *j, uint32_t part, touch_fn fn)
{
    const clv_node *node = &j->plan->graph->nodes[j->plan->parts[part].node];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        clv_value value = node->inputs[i];
        bool writes = node->op == CLV_OP_SET_ROWS && !i;
        for (; value != CLV_NO_TENSOR;
             value = core_value_scales(j->plan->graph, value), writes = false)
            if (!fn(j, part, value, writes))
                return false;
    }
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (!fn(j, part, node->outputs[i], true))
            return false;
    return true;
}

static uint64_t *clock_of(const joiner *j, uint32_t step)
{
    return j->plan->clocks + (size_t)step * j->plan->n_queues;
}

static uint32_t source_of(const clv_plan *plan, uint32_t node)
{
    return plan->cut.graph ? plan->cut.sources[node] : node;
}

/* The next older use that a use of value has to come after; starts from the
 * base's newest one. */
static const use *next_conflict(const joiner *j, clv_value value, bool write,
                                uint32_t *at)
{
    const clv_graph *graph = j->plan->graph;
    while (*at != NO_USE) {
        const use *other = &j->uses[*at];
        *at = other->older;
        if ((write || other->write) &&
            core_values_overlap(graph, value, other->value))
            return other;
    }
    return NULL;
}

static uint32_t newest_use(const joiner *j, clv_value value)
{
    return j->newest[j->plan->graph->values[value].base];
}

static bool note_use(joiner *j, uint32_t part, clv_value value, bool write)
{
    clv_value base = j->plan->graph->values[value].base;
    if (j->plan->graph->tensors[value].usage == CLV_USAGE_WEIGHT)
        return true;
    j->uses[j->n_uses] = (use){value, part, write, j->newest[base]};
    j->newest[base] = j->n_uses++;
    return true;
}

static bool mark_needed(joiner *j, uint32_t part, clv_value value, bool write)
{
    const core_part *parts = j->plan->parts;
    uint32_t at = newest_use(j, value);
    uint32_t source = source_of(j->plan, parts[part].node);
    for (const use *u; (u = next_conflict(j, value, write, &at));)
        if (parts[u->part].device != parts[part].device &&
            source < j->needed[u->part])
            j->needed[u->part] = source;
    return true;
}

/* Whether the device's open step serves for this value: everything it conflicts
 * with is in that step under the same name, or done before the step begins. */
static bool fits_open(joiner *j, uint32_t part, clv_value value, bool write)
{
    const clv_plan *plan = j->plan;
    uint32_t device = plan->parts[part].device, step = j->open[device];
    uint32_t at = newest_use(j, value);
    for (const use *u; (u = next_conflict(j, value, write, &at));) {
        uint32_t other = plan->parts[u->part].step;
        const core_step *s = &plan->steps[other];
        bool copies =
            core_part_copies(plan, part) || core_part_copies(plan, u->part);
        if (other == step ? u->value != value && !copies
                          : s->device != device &&
                                clock_of(j, step)[s->device] < s->signal)
            return false;
    }
    return true;
}

/* Notes in the clock of the part's new step what this value depends on. */
static bool note_needed(joiner *j, uint32_t part, clv_value value, bool write)
{
    const clv_plan *plan = j->plan;
    uint64_t *clock = clock_of(j, j->open[plan->parts[part].device]);
    uint32_t at = newest_use(j, value);
    for (const use *u; (u = next_conflict(j, value, write, &at));) {
        uint32_t other = plan->parts[u->part].step;
        const core_step *s = &plan->steps[other];
        if (s->device == plan->parts[part].device)
            continue;
        for (uint32_t d = 0; d < plan->n_queues; d++)
            if (clock_of(j, other)[d] > clock[d])
                clock[d] = clock_of(j, other)[d];
        if (s->signal > clock[s->device])
            clock[s->device] = s->signal;
    }
    return true;
}

/* Bytes of a value and its scales, for the largest symbols. */
static uint64_t value_bytes(const clv_graph *graph, clv_value value)
{
    const clv_tensor_desc *desc = &graph->tensors[value];
    uint64_t bytes, scales = 0;
    if (core_desc_size(desc, NULL, &bytes) ||
        (desc->quant_scales &&
         core_desc_size(&graph->tensors[desc->quant_scales - 1], NULL,
                        &scales)))
        return 0; /* said by planner_memory() */
    return bytes + scales;
}

/* Bytes that a node reaches; some may be counted more than once. */
static uint64_t node_bytes(const clv_graph *graph, const clv_node *node)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != CLV_NO_TENSOR)
            sum += value_bytes(graph, node->inputs[i]);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        sum += value_bytes(graph, node->outputs[i]);
    return sum;
}

/* Whether the device's step may reach so many bytes more. */
static bool has_room(const joiner *j, uint32_t device, uint64_t bytes)
{
    uint64_t limit = j->plan->devices[device].dev->info.program_size;
    return !limit || (bytes <= limit && j->sizes[device] <= limit - bytes);
}

static void begin_step(joiner *j, uint32_t part)
{
    clv_plan *plan = j->plan;
    uint32_t device = plan->parts[part].device, step = plan->n_steps++;
    plan->steps[step] = (core_step){.device = device,
                                    .signal = ++plan->devices[device].n_steps};
    if (j->latest[device] != CORE_NO_STEP)
        memcpy(clock_of(j, step), clock_of(j, j->latest[device]),
               plan->n_queues * sizeof *plan->clocks);
    j->due[step] = NOBODY;
    j->sizes[device] = j->reads[device] = 0;
    j->phases[device] = PHASE_BEFORE;
    j->open[device] = j->latest[device] = step;
    each_value(j, part, note_needed);
}

static void forget_uses(joiner *j)
{
    j->n_uses = 0;
    memset(j->newest, 0xff, j->plan->graph->n_tensors * sizeof *j->newest);
}

/* The phase of the device's open step with the part in it; false: it does not
 * go into the step, whose program cannot be divided. */
static bool next_phase(const joiner *j, uint32_t part, uint32_t *phase)
{
    if (!core_part_copies(j->plan, part)) {
        bool fits = *phase != PHASE_AFTER;
        *phase = PHASE_PROGRAM;
        return fits;
    }
    if (*phase == PHASE_BEFORE)
        return true;
    *phase = PHASE_AFTER;
    return core_part_copies_out(j->plan, part);
}

/* Bytes that the part reads from files, with others in their order: which
 * experts are read nobody knows ahead. */
static uint64_t read_bytes(const clv_plan *plan, uint32_t part)
{
    return core_plan_reads_experts(plan, part)
               ? 0
               : core_plan_file_bytes(plan, part, NULL);
}

/* Whether the device's step may read so many bytes more. */
static bool may_read(const joiner *j, uint32_t device, uint64_t bytes)
{
    return !bytes || !j->reads[device] ||
           j->reads[device] + bytes <= planner_file_step(j->plan);
}

/* Whether it copies a weight that stays where it is copied to. */
static bool is_kept(const clv_plan *plan, uint32_t part)
{
    const clv_node *node = &plan->graph->nodes[plan->parts[part].node];
    return core_part_copies(plan, part) &&
           core_plan_is_kept(plan, node->outputs[0]);
}

/* Whether a part may not go into the device's open step. Copies on a queue of
 * their own are a step each, but for those that most runs leave out. */
static bool ends_step(joiner *j, uint32_t part, uint64_t bytes, uint64_t reads)
{
    const clv_plan *plan = j->plan;
    uint32_t device = plan->parts[part].device, step = j->open[device];
    uint32_t phase = j->phases[device];
    if (plan->devices[device].queue)
        return !part || !is_kept(plan, part) || !is_kept(plan, part - 1) ||
               plan->parts[part - 1].device != device;
    if (!next_phase(j, part, &phase))
        return true;
    if (step == CORE_NO_STEP || !has_room(j, device, bytes) ||
        !may_read(j, device, reads))
        return true;
    if (j->due[step] <= source_of(plan, plan->parts[part].node))
        return true;
    return !each_value(j, part, fits_open);
}

static void join_parts(joiner *j)
{
    clv_plan *plan = j->plan;
    forget_uses(j);
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        each_value(j, i, mark_needed);
        each_value(j, i, note_use);
    }
    forget_uses(j);
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        uint32_t device = plan->parts[i].device, *open = &j->open[device];
        uint64_t bytes =
            node_bytes(plan->graph, &plan->graph->nodes[plan->parts[i].node]);
        uint64_t reads = read_bytes(plan, i);
        if (ends_step(j, i, bytes, reads))
            begin_step(j, i);
        next_phase(j, i, &j->phases[device]);
        plan->parts[i].step = *open;
        plan->steps[*open].n_parts++;
        j->sizes[device] += bytes;
        j->reads[device] += reads;
        if (j->needed[i] < j->due[*open])
            j->due[*open] = j->needed[i];
        each_value(j, i, note_use);
    }
}

/* Into step order, in node order inside a step. */
static clv_status sort_parts(clv_plan *plan)
{
    core_part *sorted = calloc(plan->n_parts, sizeof *sorted);
    if (!sorted)
        return core_no_memory("for a plan");
    uint32_t at = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        plan->steps[s].first_part = at;
        at += plan->steps[s].n_parts;
        plan->steps[s].n_parts = 0;
    }
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        core_step *step = &plan->steps[plan->parts[i].step];
        sorted[step->first_part + step->n_parts++] = plan->parts[i];
    }
    free(plan->parts);
    plan->parts = sorted;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Uses                                                                      */

static void use_value(clv_plan *plan, clv_value value, uint32_t part)
{
    uint32_t step = plan->parts[part].step;
    const clv_value both[] = {value, plan->graph->values[value].base};
    for (int i = 0; i < 2; i++) {
        core_place *place = &plan->places[both[i]];
        place->last_part = part;
        place->last_step = step;
        if (place->first_step == CORE_NO_STEP) {
            place->first_part = part;
            place->first_step = step;
        }
    }
}

static void find_uses(clv_plan *plan)
{
    const clv_graph *graph = plan->graph;
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        plan->places[i].first_step = CORE_NO_STEP;
        plan->places[i].writer = CORE_NO_STEP;
        plan->places[i].in_place = CLV_NO_TENSOR;
    }
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const clv_node *node = &graph->nodes[plan->parts[i].node];
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            if (node->inputs[j] == CLV_NO_TENSOR)
                continue;
            use_value(plan, node->inputs[j], i);
            if (graph->tensors[node->inputs[j]].quant_scales)
                use_value(plan,
                          graph->tensors[node->inputs[j]].quant_scales - 1, i);
        }
        for (uint32_t j = 0; j < node->n_outputs; j++) {
            use_value(plan, node->outputs[j], i);
            if (node->op != CORE_OP_COPY)
                plan->places[node->outputs[j]].writer = plan->parts[i].step;
        }
    }
}

clv_status planner_steps(clv_plan *plan)
{
    size_t n_uses = 0, n = plan->n_parts;
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const clv_node *node = &plan->graph->nodes[i];
        n_uses += 2 * node->n_inputs + node->n_outputs;
    }
    joiner j = {.plan = plan,
                .uses = calloc(n_uses + 1, sizeof *j.uses),
                .newest = calloc(plan->graph->n_tensors, sizeof *j.newest),
                .needed = calloc(n, sizeof *j.needed),
                .due = calloc(n, sizeof *j.due),
                .sizes = calloc(plan->n_queues, sizeof *j.sizes),
                .reads = calloc(plan->n_queues, sizeof *j.reads),
                .open = calloc(plan->n_queues, sizeof *j.open),
                .latest = calloc(plan->n_queues, sizeof *j.latest),
                .phases = calloc(plan->n_queues, sizeof *j.phases)};
    plan->steps = calloc(n, sizeof *plan->steps);
    plan->clocks = calloc(n * plan->n_queues, sizeof *plan->clocks);
    clv_status status = j.uses && j.newest && j.needed && j.due && j.sizes &&
                                j.reads && j.open && j.latest && j.phases &&
                                plan->clocks && plan->steps
                            ? CLV_OK
                            : core_no_memory("for a plan");
    if (!status) {
        memset(j.needed, 0xff, n * sizeof *j.needed);
        memset(j.open, 0xff, plan->n_queues * sizeof *j.open);
        memset(j.latest, 0xff, plan->n_queues * sizeof *j.latest);
        join_parts(&j);
        status = sort_parts(plan);
    }
    if (!status)
        status = planner_order(plan);
    if (!status)
        status = sort_parts(plan);
    free(j.phases);
    free(j.latest);
    free(j.open);
    free(j.reads);
    free(j.sizes);
    free(j.due);
    free(j.needed);
    free(j.newest);
    free(j.uses);
    if (!status)
        find_uses(plan);
    return status;
}
