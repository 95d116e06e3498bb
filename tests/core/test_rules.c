/*
 * The rules of steps (planner/planner.h) are followed by the search, the
 * lowering and the forecast alike: random divisions of random graphs, made into
 * plans, are compared. That the executor follows them on simulated chips is in
 * test_forecast_sim.c.
 */
#include "../plugins/ref/context.h"
#include "../../core/device/caps.h"

#include "../../core/device/caps.h"
#include "../../planner/candidates/candidates.h"
#include "../../planner/forecast/forecast.h"
#include "../../planner/planner.h"

#include <math.h>
#include <stdlib.h>

#define ROWS 64
#define COLUMNS 128
#define MAX_NODES 24
#define ROUNDS 300
#define DEVICES 2

/* Of the search's makespan against the forecast's. The search does not see
 * waits for memory that is used again, and where a step ends only because of
 * what comes later. */
#define MEAN_BOUND 0.03
#define WORST_BOUND 0.35

/* ------------------------------------------------------------------------ */
/* Costs                                                                     */

typedef struct machine {
    double byte_ns[DEVICES];
    planner_overheads overheads[DEVICES];
} machine;

static uint32_t index_of(const clv_device *dev)
{
    return dev->info.id[0] == '1';
}

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    const machine *m = ctx;
    *out = (planner_cost){.ns = planner_workload_bytes(workload) *
                                m->byte_ns[index_of(dev)]};
    return true;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    return &((const machine *)ctx)->overheads[index_of(dev)];
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    (void)ctx, (void)devs, (void)n;
    return 0;
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    (void)ctx, (void)devs, (void)n, (void)index;
    return 1;
}

static machine random_machine(test_random *r)
{
    machine m;
    for (uint32_t d = 0; d < DEVICES; d++) {
        m.byte_ns[d] = (1 + test_below(r, 20)) / 10.0;
        m.overheads[d] = (planner_overheads){.submit = test_below(r, 20000),
                                             .dispatch = test_below(r, 20000),
                                             .wait_poll = test_below(r, 20000)};
        m.overheads[d].submit_idle =
            m.overheads[d].submit + test_below(r, 20000);
    }
    return m;
}

/* ------------------------------------------------------------------------ */
/* Graphs and plans                                                          */

static clv_graph *random_graph(test_random *r)
{
    const clv_dim dims[] = {clv_dim_fixed(ROWS), clv_dim_fixed(COLUMNS)};
    clv_value values[MAX_NODES + 1];
    bool used[MAX_NODES + 1] = {false};
    uint32_t n = 2 + test_below(r, MAX_NODES - 1);
    clv_graph *g;
    assert_ok(clv_graph_create(&g));
    values[0] = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, dims);
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t near = i < 4 ? i : 4;
        uint32_t a = i - 1 - test_below(r, near);
        uint32_t b = i - 1 - test_below(r, near);
        values[i] = test_below(r, 2) ? clv_graph_silu(g, values[a])
                                     : clv_graph_add(g, values[a], values[b]);
        used[a] = used[b] = true;
    }
    used[n] = false;
    for (uint32_t i = 1; i <= n; i++)
        if (!used[i])
            clv_graph_output(g, values[i], "y");
    assert_ok(clv_graph_check(g));
    return g;
}

typedef struct scene {
    clv_graph *graph;
    planner_candidates c;
    machine machine;
    planner_costs costs;
    double predicted; /* by the search */
    clv_plan *plan;
    core_forecast *forecast;
} scene;

static void make_candidates(clv_context *ctx, scene *s)
{
    clv_plan *any;
    clv_op_caps *caps = calloc(DEVICES * s->graph->n_nodes, sizeof *caps);
    clv_subgraph view = core_graph_view(s->graph);
    assert_non_null(caps);
    assert_ok(clv_plan_create(ctx, s->graph, NULL, &any));
    for (uint32_t d = 0; d < DEVICES; d++)
        assert_ok(core_device_caps(clv_context_device(ctx, d), &view,
                                   caps + d * s->graph->n_nodes));
    assert_ok(planner_candidates_make(any, caps, &s->costs,
                                      PLANNER_STRATEGY_TENSOR, 0, NULL, &s->c));
    clv_plan_destroy(any);
    free(caps);
}

/* A random option for each node; often the same device as before. */
static void make_plan(clv_context *ctx, test_random *r, scene *s)
{
    core_piece pieces[MAX_NODES * 16];
    uint32_t options[MAX_NODES], n = 0;
    for (uint32_t i = 0; i < s->graph->n_nodes; i++) {
        const planner_solve_node *node = &s->c.nodes[i];
        options[i] = node->first_option +
                     test_below(r, test_below(r, 2) ? node->n_options : 2);
        const planner_solve_option *o = &s->c.options[options[i]];
        for (uint32_t k = 0; k < o->n_pieces; k++) {
            pieces[n] = s->c.cuts[o->first_piece + k];
            pieces[n++].node = i;
        }
    }
    assert_ok(planner_solve_evaluate(&s->c.problem, options, NULL, NULL,
                                     &s->predicted));
    assert_ok(planner_from_pieces(ctx, s->graph, NULL, pieces, n, &s->plan));
    assert_ok(planner_forecast_make(s->plan, &s->costs, NULL, &s->forecast));
}

static void open_scene(clv_context *ctx, test_random *r, scene *s)
{
    *s = (scene){.graph = random_graph(r), .machine = random_machine(r)};
    s->costs =
        (planner_costs){&s->machine, cost, overheads, bandwidth, slowdown};
    make_candidates(ctx, s);
    make_plan(ctx, r, s);
}

static void close_scene(scene *s)
{
    core_forecast_free(s->forecast);
    clv_plan_destroy(s->plan);
    planner_candidates_finish(&s->c);
    clv_graph_destroy(s->graph);
}

/* ------------------------------------------------------------------------ */
/* Waits                                                                     */

/* clock[d]: steps of device d that are done when step s begins. skip: a wait
 * that is left out, or UINT32_MAX. */
static void done_before(const clv_plan *p, uint32_t s, uint32_t skip,
                        uint64_t clock[DEVICES])
{
    const core_step *step = &p->steps[s];
    for (uint32_t t = 0; t < s; t++) {
        const core_step *other = &p->steps[t];
        bool seen = other->device == step->device;
        uint64_t before[DEVICES] = {0};
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *w = &p->waits[step->first_wait + i];
            seen |= step->first_wait + i != skip &&
                    w->device == other->device && w->value >= other->signal;
        }
        if (!seen)
            continue;
        done_before(p, t, UINT32_MAX, before);
        if (other->signal > before[other->device])
            before[other->device] = other->signal;
        for (uint32_t d = 0; d < DEVICES; d++)
            clock[d] = before[d] > clock[d] ? before[d] : clock[d];
    }
}

static bool share_memory(const clv_plan *p, clv_value a, clv_value b)
{
    clv_value base_a = p->graph->values[a].base;
    clv_value base_b = p->graph->values[b].base;
    const core_place *x = &p->places[base_a], *y = &p->places[base_b];
    if (base_a == base_b)
        return core_values_overlap(p->graph, a, b);
    return x->home == CORE_HOME_ARENA && y->home == CORE_HOME_ARENA &&
           x->memory == y->memory && x->offset < y->offset + y->size &&
           y->offset < x->offset + x->size;
}

/* Whether a node writes what the other touches, or the other way round. */
static bool conflict(const clv_plan *p, uint32_t a, uint32_t b)
{
    const clv_node *x = &p->graph->nodes[p->parts[a].node];
    const clv_node *y = &p->graph->nodes[p->parts[b].node];
    for (uint32_t i = 0; i < x->n_outputs; i++) {
        for (uint32_t j = 0; j < y->n_inputs; j++)
            if (share_memory(p, x->outputs[i], y->inputs[j]))
                return true;
        for (uint32_t j = 0; j < y->n_outputs; j++)
            if (share_memory(p, x->outputs[i], y->outputs[j]))
                return true;
    }
    for (uint32_t i = 0; i < x->n_inputs; i++)
        for (uint32_t j = 0; j < y->n_outputs; j++)
            if (share_memory(p, x->inputs[i], y->outputs[j]))
                return true;
    return false;
}

/* No step begins before the steps of others that it conflicts with are done,
 * by its waits and by the forecast. */
static void check_sufficient(const scene *s)
{
    const clv_plan *p = s->plan;
    for (uint32_t b = 0; b < p->n_parts; b++) {
        uint64_t clock[DEVICES] = {0};
        uint32_t then = p->parts[b].step;
        done_before(p, then, UINT32_MAX, clock);
        for (uint32_t a = 0; a < b; a++) {
            const core_step *step = &p->steps[p->parts[a].step];
            if (step->device == p->parts[b].device || !conflict(p, a, b))
                continue;
            assert_true(clock[step->device] >= step->signal);
            assert_true(s->forecast->steps[then].begin_ns >=
                        s->forecast->steps[p->parts[a].step].end_ns - 1e-6);
        }
    }
}

/* No wait is implied by the others and the devices' own order. */
static void check_minimal(const clv_plan *p)
{
    for (uint32_t s = 0; s < p->n_steps; s++)
        for (uint32_t i = 0; i < p->steps[s].n_waits; i++) {
            const core_wait *w = &p->waits[p->steps[s].first_wait + i];
            uint64_t clock[DEVICES] = {0};
            done_before(p, s, p->steps[s].first_wait + i, clock);
            assert_true(clock[w->device] < w->value);
        }
}

/* The host waits by itself for what devices cannot wait for, and submits
 * follow each other. */
static void check_host(const scene *s)
{
    const clv_plan *p = s->plan;
    double host = 0;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const core_step *step = &p->steps[t];
        const planner_overheads *o = &s->machine.overheads[step->device];
        const core_span *submit = &s->forecast->submits[t];
        double ns = submit->end_ns - submit->begin_ns;
        assert_true(submit->begin_ns >= host - 1e-6);
        assert_true(fabs(ns - o->submit) < 1e-6 ||
                    fabs(ns - o->submit_idle) < 1e-6);
        assert_true(s->forecast->steps[t].begin_ns >= submit->end_ns - 1e-6);
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *w = &p->waits[step->first_wait + i];
            assert_true(w->by_host ==
                        !(p->devices[step->device].dev->info.flags &
                          CLV_DEVICE_FLAG_WAIT));
            for (uint32_t u = 0; u < t && w->by_host; u++)
                if (p->steps[u].device == w->device &&
                    p->steps[u].signal <= w->value)
                    assert_true(submit->begin_ns >=
                                s->forecast->steps[u].end_ns - 1e-6);
        }
        host = submit->end_ns;
    }
}

/* ------------------------------------------------------------------------ */

static void check_rules(const char *settings, uint64_t seed)
{
    test_context t = test_context_create(settings);
    test_random r = {seed};
    double sum = 0, worst = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        scene s;
        open_scene(t.ctx, &r, &s);
        check_sufficient(&s);
        check_minimal(s.plan);
        check_host(&s);
        double off = fabs(s.predicted / s.forecast->makespan_ns - 1);
        sum += off;
        worst = off > worst ? off : worst;
        close_scene(&s);
    }
    print_message("search against forecast: %.2f%% in the mean, %.1f%% at "
                  "most\n",
                  100 * sum / ROUNDS, 100 * worst);
    assert_true(sum / ROUNDS < MEAN_BOUND && worst < WORST_BOUND);
    test_context_destroy(&t);
}

static void test_host_waits(void **state)
{
    (void)state;
    check_rules("ref.virtual0=on ref.virtual1=on", 1);
}

static void test_devices_wait(void **state)
{
    (void)state;
    check_rules("ref.virtual0=on ref.virtual1=on ref.flag_wait0=on "
                "ref.flag_wait1=on",
                2);
}

static void test_one_waits(void **state)
{
    (void)state;
    check_rules("ref.virtual0=on ref.virtual1=on ref.flag_wait1=on", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_waits),
        cmocka_unit_test(test_devices_wait),
        cmocka_unit_test(test_one_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
