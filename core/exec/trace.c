/*
 * What devices recorded of a run: spans for the trace, sums by kernel, and what
 * each part of the plan took. A submit's correlation says which step of which
 * run it was.
 */
#include "trace.h"
#include "submit.h"
#include "../device/memory.h"
#include "../base/grow.h"
#include "../context/device_use.h"
#include "../context/kernel_sums.h"
#include "../context/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64
#define MAX_KERNELS 8 /* of one node */

/* What is known of a step from the records so far. */
typedef struct progress {
    bool has_nodes;  /* its nodes have records of their own */
    double whole_ns; /* of its program */
    uint32_t runs;
} progress;

/* Records of one node, which follow one another. */
typedef struct group {
    uint32_t step, node; /* of the step's program */
    clv_kernel_sum kernels[MAX_KERNELS];
    uint32_t n;
} group;

typedef struct collection {
    const clv_run *run;
    const clv_exec *exec; /* the run's */
    clv_device *dev;
    core_exec_run *latest; /* the exec's */
    clv_calibration calibration;
    bool traced;     /* the context's trace and sums want records */
    double *part_ns; /* [plan->n_parts], or NULL */
    progress *steps; /* [plan->n_steps] */
    group group;
    double top_bytes, top_flops; /* a ns, of the device's profile */
} collection;

uint64_t core_run_correlation(const clv_run *run, uint32_t step)
{
    return (run->age << 24) + step + 1;
}

/* False: of another run, one that failed. */
static bool find_step(const clv_run *run, uint64_t correlation, uint32_t *step)
{
    const uint64_t first = core_run_correlation(run, 0);
    *step = (uint32_t)(correlation - first);
    return correlation >= first &&
           correlation - first < run->exec->plan->n_steps;
}

/* A device's ticks as nanoseconds of its clock domain: the host's clock, or for
 * a simulated device its own from zero. */
static uint64_t tick_ns(const clv_device *dev, const clv_calibration *c,
                        uint64_t tick)
{
    if (dev->info.clock == CLV_CLOCK_VIRTUAL)
        return (uint64_t)((double)tick * c->tick_ns);
    double ns = (double)(int64_t)(tick - c->device_tick) * c->tick_ns;
    return c->host_ns + (uint64_t)(int64_t)ns;
}

/* ------------------------------------------------------------------------ */
/* Sums                                                                      */

/* The part that is node i of a step's program; past the step's last part: there
 * is none. */
static uint32_t find_part(const clv_plan *plan, uint32_t step, uint32_t i)
{
    const core_step *s = &plan->steps[step];
    uint32_t part = s->first_part;
    for (; part < s->first_part + s->n_parts; part++)
        if (!core_part_copies(plan, part) && !i--)
            break;
    return part;
}

/* What nodes have to do. */
typedef struct work {
    double bytes, flops;
    double ns; /* the least that it takes at the device's best rates; where they
                  are not known, bytes */
} work;

static work work_of(const collection *c, uint32_t part)
{
    const clv_plan *plan = c->exec->plan;
    work w = {0};
    if (core_part_copies(plan, part) || !plan->node_work)
        return w;
    plan->node_work(plan->graph, plan->parts[part].node, c->run->symbols,
                    &w.bytes, &w.flops);
    w.ns = c->top_bytes > 0 && c->top_flops > 0
               ? fmax(w.bytes / c->top_bytes, w.flops / c->top_flops)
               : w.bytes;
    return w;
}

/* The sum of the parts from first to end; *most: the one with the most. */
static work sum_work(const collection *c, uint32_t first, uint32_t end,
                     uint32_t *most)
{
    work sum = {0};
    double most_ns = 0;
    *most = first;
    for (uint32_t p = first; p < end; p++) {
        const work w = work_of(c, p);
        sum.bytes += w.bytes;
        sum.flops += w.flops;
        sum.ns += w.ns;
        if (w.ns > most_ns)
            *most = p;
        most_ns = fmax(most_ns, w.ns);
    }
    return sum;
}

/* Divides what the group's kernels took over these parts, by their work.
 * Without any the first one has all. */
static void divide_group(const collection *c, uint32_t first, uint32_t end,
                         double work_ns)
{
    double ns = 0;
    for (uint32_t i = 0; i < c->group.n; i++)
        ns += c->group.kernels[i].ns;
    if (!(work_ns > 0))
        c->part_ns[first] += ns;
    for (uint32_t p = first; p < end && work_ns > 0; p++)
        c->part_ns[p] += ns * work_of(c, p).ns / work_ns;
}

/* Of a node: the work counts for the kernel that took the longest; the others
 * prepare it or bring it to an end. */
static void add_sums(const collection *c, const work *sum, const char *op)
{
    const group *g = &c->group;
    uint32_t longest = 0;
    for (uint32_t i = 1; i < g->n; i++)
        if (g->kernels[i].ns > g->kernels[longest].ns)
            longest = i;
    for (uint32_t i = 0; i < g->n; i++) {
        clv_kernel_sum one = g->kernels[i];
        one.bytes = i == longest ? sum->bytes : 0;
        one.flops = i == longest ? sum->flops : 0;
        snprintf(one.op, sizeof one.op, "%s", op);
        core_kernel_sums_add(c->exec->plan->ctx, &one);
    }
}

/* The group did the work of its node and of those before node `end`, which have
 * no records: a kernel is recorded as the first node's that it computes. */
static void end_group(collection *c, uint32_t end)
{
    const clv_plan *plan = c->exec->plan;
    group *g = &c->group;
    uint32_t most;
    if (!g->n)
        return;
    const uint32_t first = find_part(plan, g->step, g->node);
    const uint32_t last = find_part(plan, g->step, end);
    const work sum = sum_work(c, first, last, &most);
    if (c->part_ns && first < last)
        divide_group(c, first, last, sum.ns);
    if (c->traced)
        add_sums(
            c, &sum,
            first < last
                ? core_op_name(plan->graph->nodes[plan->parts[most].node].op)
                : "");
    g->n = 0;
}

/* What follows without a record is the group's; what was done out of order is
 * its own. */
static uint32_t end_before(const group *g, uint32_t step, uint32_t node)
{
    return g->step != step  ? CLV_NO_TENSOR
           : node > g->node ? node
                            : g->node + 1;
}

static clv_kernel_sum one_run(const collection *c, const char *name, double ns)
{
    const clv_device *dev = c->dev;
    clv_kernel_sum one = {.runs = 1,
                          .ns = ns,
                          .top_bandwidth = c->top_bytes * 1e9,
                          .top_flops = c->top_flops * 1e9,
                          .is_virtual = dev->info.clock == CLV_CLOCK_VIRTUAL};
    snprintf(one.device, sizeof one.device, "%s", dev->id);
    snprintf(one.kernel, sizeof one.kernel, "%s", name);
    return one;
}

static void add_node(collection *c, uint32_t step, const clv_trace_record *r,
                     double ns)
{
    group *g = &c->group;
    if (g->n && (g->step != step || g->node != r->node))
        end_group(c, end_before(g, step, r->node));
    g->step = step;
    g->node = r->node;
    c->steps[step].has_nodes = true;
    for (uint32_t i = 0; i < g->n; i++)
        if (!strcmp(g->kernels[i].kernel, r->name)) {
            g->kernels[i].ns += ns;
            g->kernels[i].runs++;
            return;
        }
    if (g->n < MAX_KERNELS)
        g->kernels[g->n++] = one_run(c, r->name, ns);
}

static bool leaves(const collection *c, const core_command *copy)
{
    uint32_t own;
    return core_device_has_local(c->dev, &own) && copy->dst->mem_type != own;
}

/* Of bytes that the host moves on or has moved, not in the records. */
static bool is_staged(const collection *c, uint32_t step,
                      const core_command *copy)
{
    const uint32_t device = c->exec->plan->steps[step].device;
    const core_part_memory *own = c->run->queues[device].own;
    return own && own->staging &&
           (copy->src == own->staging || copy->dst == own->staging);
}

/* A copy of a weight, in a step of its own. */
static bool streams(const collection *c, uint32_t step)
{
    return c->exec->steps[step].n_copies &&
           c->run->steps[step].copies[0].planned->streams;
}

/* Without memory it is not noted. */
static void note_copy(collection *c, uint32_t step, const core_command *copy,
                      double ns)
{
    core_exec_run *run = c->latest;
    const uint64_t n_rows = copy->n_rows > 1 ? copy->n_rows : 1;
    if (!is_staged(c, step, copy) &&
        core_grow(&run->copies, &run->copies_capacity, run->n_copies + 1ull,
                  sizeof *run->copies))
        run->copies[run->n_copies++] = (core_exec_copied){
            c->exec->plan->steps[step].device, leaves(c, copy),
            n_rows * copy->size, n_rows, ns};
}

static void note_moments(collection *c, uint32_t step,
                         const clv_trace_record *r, double ns)
{
    const core_run_step *s = &c->run->steps[step];
    core_exec_run *run = c->latest;
    core_exec_moments *m = &run->steps[step];
    const double begin = (double)tick_ns(c->dev, &c->calibration, r->begin);
    if (r->node != CLV_NO_TENSOR && (!(m->node > 0) || begin < m->node))
        m->node = begin;
    m->end = fmax(m->end, begin + ns);
    if ((r->command || streams(c, step)) && r->command < s->submit.n_commands &&
        s->commands[r->command].kind == CLV_COMMAND_COPY)
        note_copy(c, step, &s->commands[r->command], ns);
}

static void add_record(collection *c, const clv_trace_record *r, double ns)
{
    uint32_t step;
    if (!find_step(c->run, r->correlation, &step))
        return;
    const core_exec_step *s = &c->exec->steps[step];
    if (c->part_ns)
        note_moments(c, step, r, ns);
    if (r->node != CLV_NO_TENSOR) {
        add_node(c, step, r, ns);
    } else if (s->program && r->command == s->n_before) {
        c->steps[step].whole_ns += ns;
        c->steps[step].runs++;
    } else if (c->traced) {
        clv_kernel_sum one = one_run(c, r->name, ns);
        core_kernel_sums_add(c->exec->plan->ctx, &one);
    }
}

/* A program's time is divided over its parts as the forecast has it. */
static void divide_program(const collection *c, uint32_t step, double ns)
{
    const clv_plan *plan = c->exec->plan;
    const core_step *s = &plan->steps[step];
    double sum = 0;
    for (uint32_t p = s->first_part; p < s->first_part + s->n_parts; p++)
        if (plan->forecast && !core_part_copies(plan, p))
            sum += plan->forecast->costs_ns[p];
    for (uint32_t p = s->first_part; p < s->first_part + s->n_parts; p++)
        if (sum > 0 && !core_part_copies(plan, p))
            c->part_ns[p] = ns * plan->forecast->costs_ns[p] / sum;
}

/* Programs of devices that time no single nodes. */
static void add_programs(collection *c)
{
    for (uint32_t i = 0; i < c->exec->plan->n_steps; i++) {
        progress *p = &c->steps[i];
        if (!p->runs || p->has_nodes)
            continue;
        if (c->part_ns)
            divide_program(c, i, p->whole_ns);
        if (!c->traced)
            continue;
        clv_kernel_sum one = one_run(c, "run", p->whole_ns);
        one.runs = p->runs;
        core_kernel_sums_add(c->exec->plan->ctx, &one);
    }
}

/* ------------------------------------------------------------------------ */

static void add_spans(const collection *c, const clv_trace_record *r)
{
    clv_context *ctx = c->exec->plan->ctx;
    const uint64_t begin = tick_ns(c->dev, &c->calibration, r->begin);
    const uint64_t end = tick_ns(c->dev, &c->calibration, r->end);
    core_trace_add(ctx, c->dev->info.clock, c->dev->id, r->name, begin, end);
    core_device_use_add(ctx, c->dev, begin, end);
}

static void collect(collection *c)
{
    clv_device *dev = c->dev;
    const clv_calibration *calibration = &c->calibration;
    clv_trace_record records[BATCH];
    uint32_t n;
    c->calibration =
        (clv_calibration)CLV_INIT(clv_calibration, CLV_STRUCT_CALIBRATION);
    if (core_device_calibrate(dev, &c->calibration))
        return;
    do {
        n = BATCH;
        if (core_device_trace_read(dev, &n, records))
            return;
        for (uint32_t i = 0; i < n; i++) {
            const clv_trace_record *r = &records[i];
            if (c->traced)
                add_spans(c, r);
            add_record(c, r,
                       (double)(r->end - r->begin) * calibration->tick_ns);
        }
    } while (n == BATCH);
    end_group(c, CLV_NO_TENSOR);
    add_programs(c);
}

bool core_run_is_recorded(const clv_run *run)
{
    return (run->noted && run->exec->latest.part_ns) ||
           clv_trace_enabled(run->exec->plan->ctx);
}

/* All devices of a plan have one clock. */
static void note_run(const clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    if (clv_trace_enabled(plan->ctx) && plan->n_devices)
        core_device_use_add_run(plan->ctx, plan->devices[0].dev->info.clock,
                                (uint64_t)run->begin,
                                (uint64_t)core_run_moment(run));
}

void core_run_collect_records(clv_run *run)
{
    clv_exec *exec = run->exec;
    const clv_plan *plan = exec->plan;
    note_run(run);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        collection c = {.run = run,
                        .exec = exec,
                        .dev = plan->devices[d].dev,
                        .latest = &exec->latest};
        if (!run->queues[d].timeline)
            continue;
        c.traced = clv_trace_enabled(plan->ctx);
        c.part_ns = run->noted ? exec->latest.part_ns : NULL;
        c.top_bytes = plan->devices[d].top_bytes;
        c.top_flops = plan->devices[d].top_flops;
        c.steps = calloc(plan->n_steps + 1u, sizeof *c.steps);
        if (c.steps)
            collect(&c);
        free(c.steps);
    }
}
