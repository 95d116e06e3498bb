/*
 * Copies between memories in the search: its rules case by case, and that it
 * counts what the forecast counts, so that no plan is chosen whose copies cost
 * more than they bring.
 */
#include "../plugins/ref/context.h"
#include "../../core/device/caps.h"

#include "../../planner/candidates/candidates.h"
#include "../../planner/planner.h"
#include "../../planner/forecast/forecast.h"
#include "solve_problem.h"

#include <math.h>

#define NONE UINT32_MAX
/* A whole result of the problem's, a byte an element. */
#define BYTES (PROBLEM_EXTENT * PROBLEM_EXTENT)

static void assert_ns(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%.6f ns, not %.6f", got, want);
}

/* ------------------------------------------------------------------------ */
/* The rules                                                                 */

/* Three devices; 1 and 2 have memory of their own: 7 ns a copy and 1 ns a byte,
 * 9 ns and 2 ns. */
static problem *three(void)
{
    problem *q = problem_new(3);
    for (uint32_t d = 0; d < 3; d++)
        q->devices[d] = problem_device(0, 0, 0, 0, true);
    q->devices[1].memory_index = 2;
    q->devices[1].copy_ns = 7;
    q->devices[1].copy_row_ns = 7;
    q->devices[1].copy_byte_ns = 1;
    q->devices[2].memory_index = 3;
    q->devices[2].copy_ns = 9;
    q->devices[2].copy_row_ns = 9;
    q->devices[2].copy_byte_ns = 2;
    return q;
}

static void give_sizes(problem *q)
{
    for (uint32_t i = 0; i < q->p.n_nodes; i++) {
        planner_solve_node *node = &q->nodes[i];
        node->element_bytes = 1;
        node->columns = PROBLEM_EXTENT;
        for (uint32_t k = 0; k < node->n_deps; k++)
            node->read_bytes[k] = 1;
    }
}

static void finish_case(problem *q, double want)
{
    assert_ns(first_makespan(q), want);
    free(q);
}

/* In, out, and from one's own memory to another's. */
static void test_ways(void **state)
{
    (void)state;
    problem *q = three();
    problem_whole(q, 0, 1000, NONE);
    problem_whole(q, 1, 2000, 0);
    problem_whole(q, 2, 4000, 1);
    problem_whole(q, 0, 8000, 2);
    give_sizes(q);
    double in1 = 7 + BYTES, out1 = in1, in2 = 9 + 2 * BYTES, out2 = in2;
    finish_case(q, 1000 + in1 + 2000 + out1 + in2 + 4000 + out2 + 8000);
}

/* Within one memory nothing is copied, and once it is copied it is there. */
static void test_once(void **state)
{
    (void)state;
    problem *q = three();
    problem_whole(q, 1, 1000, NONE);
    problem_whole(q, 1, 1000, 0);
    problem_whole(q, 0, 2000, 1);
    problem_whole(q, 0, 2000, 1);
    give_sizes(q);
    finish_case(q, 2000 + 7 + BYTES + 4000);
}

/* What the host asked for is copied out. */
static void test_wanted(void **state)
{
    (void)state;
    problem *q = three();
    problem_whole(q, 1, 1000, NONE);
    give_sizes(q);
    q->nodes[0].wanted = true;
    finish_case(q, 1000 + 7 + BYTES);
}

/* Only the part that is needed: of columns, a copy for each row. */
static void test_parts(void **state)
{
    (void)state;
    problem *q = three();
    problem_whole(q, 0, 1000, NONE);
    problem_dep(problem_node(q), 0);
    problem_option(q);
    problem_piece(q, 1, 2000, columns(4, 8))->needs[0] = columns(4, 8);
    give_sizes(q);
    finish_case(q, 1000 + 16 * 7 + 4 * 16 + 2000);
    q = three();
    problem_whole(q, 0, 1000, NONE);
    problem_dep(problem_node(q), 0);
    problem_option(q);
    problem_piece(q, 1, 2000, rows(4, 8))->needs[0] = rows(4, 8);
    give_sizes(q);
    finish_case(q, 1000 + 7 + 4 * 16 + 2000);
    /* Of a state it reads 100 rows for each that was set. */
    q = three();
    problem_whole(q, 0, 1000, NONE);
    problem_dep(problem_node(q), 0);
    problem_option(q);
    problem_piece(q, 1, 2000, columns(4, 8))->needs[0] = columns(4, 8);
    give_sizes(q);
    q->nodes[1].read_bytes[0] = q->nodes[1].read_rows[0] = 100;
    finish_case(q, 1000 + 100 * (16 * 7 + 4 * 16) + 2000);
}

/* A partial sum comes to where sums are joined. */
static void test_partial(void **state)
{
    (void)state;
    problem *q = three();
    problem_node(q);
    problem_option(q);
    problem_piece(q, 0, 3000, whole_box)->partial = true;
    problem_piece(q, 1, 2000, whole_box)->partial = true;
    problem_piece(q, 0, 500, whole_box)->joins = true;
    give_sizes(q);
    finish_case(q, 3000 + 500);
    q = three();
    problem_node(q);
    problem_option(q);
    problem_piece(q, 0, 1000, whole_box)->partial = true;
    problem_piece(q, 1, 2000, whole_box)->partial = true;
    problem_piece(q, 0, 500, whole_box)->joins = true;
    give_sizes(q);
    finish_case(q, 2000 + 7 + BYTES + 500);
}

/* A device that is twice as fast takes the work only if that pays for the way
 * there and back. */
static void test_choice(void **state)
{
    (void)state;
    for (double ns = 100; ns < 10000; ns *= 1.5)
        for (uint32_t n = 1; n < 6; n++) {
            problem *q = three();
            planner_solution s;
            problem_whole(q, 0, 10, NONE);
            for (uint32_t i = 1; i <= n; i++) {
                problem_dep(problem_node(q), i - 1);
                problem_option(q);
                problem_piece(q, 0, ns, whole_box);
                problem_option(q);
                problem_piece(q, 1, ns / 2, whole_box);
            }
            problem_whole(q, 0, 10, n);
            give_sizes(q);
            assert_ok(planner_search(&q->p, 0, &s));
            double there = 2 * (7 + BYTES) + n * ns / 2, here = n * ns;
            assert_ns(s.makespan_ns, 20 + (there < here ? there : here));
            planner_solution_finish(&s);
            free(q);
        }
}

/* ------------------------------------------------------------------------ */
/* Against the forecast                                                      */

#define ROWS 64
#define COLUMNS 128

typedef struct machine {
    double silu[2], add[2];
    planner_overheads overheads;
} machine;

static uint32_t index_of(const clv_device *dev)
{
    return dev->info.id[0] == '1';
}

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    const machine *m = ctx;
    const double *of = workload->kind.op == CLV_OP_ADD ? m->add : m->silu;
    double part =
        planner_workload_bytes(workload) /
        (ROWS * COLUMNS * 4.0 * (workload->kind.op == CLV_OP_ADD ? 3 : 2));
    *out = (planner_cost){.ns = of[index_of(dev)] * part};
    return true;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    (void)dev;
    return &((const machine *)ctx)->overheads;
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

typedef struct scene {
    test_context t;
    clv_graph *graph;
    clv_plan *plan; /* anything that names devices */
    clv_op_caps *caps;
    machine machine;
} scene;

/* y = x + f(f(..(f(x)))), n times. */
static scene open_scene(const char *settings, uint32_t n)
{
    scene s = {.t = test_context_create(settings)};
    const clv_dim dims[] = {clv_dim_fixed(ROWS), clv_dim_fixed(COLUMNS)};
    assert_ok(clv_graph_create(&s.graph));
    clv_value x = clv_graph_input(s.graph, "x", CLV_DTYPE_F32, 2, dims), y = x;
    for (uint32_t i = 0; i < n; i++)
        y = clv_graph_silu(s.graph, y);
    clv_graph_output(s.graph, clv_graph_add(s.graph, y, x), "y");
    assert_ok(clv_graph_check(s.graph));
    assert_ok(clv_plan_create(s.t.ctx, s.graph, NULL, &s.plan));
    clv_subgraph view = core_graph_view(s.graph);
    s.caps = calloc(2 * s.graph->n_nodes, sizeof *s.caps);
    assert_non_null(s.caps);
    for (uint32_t d = 0; d < 2; d++)
        assert_ok(core_device_caps(clv_context_device(s.t.ctx, d), &view,
                                   s.caps + d * s.graph->n_nodes));
    return s;
}

static void close_scene(scene *s)
{
    free(s->caps);
    clv_plan_destroy(s->plan);
    clv_graph_destroy(s->graph);
    test_context_destroy(&s->t);
}

/* What the plan of these options takes by the forecast. */
static double predicted(const scene *s, const planner_candidates *c,
                        const planner_costs *costs, const uint32_t *options)
{
    core_piece pieces[256];
    core_forecast *f;
    clv_plan *plan;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->graph->n_nodes; i++) {
        const planner_solve_option *o = &c->options[options[i]];
        for (uint32_t j = 0; j < o->n_pieces; j++) {
            pieces[n] = c->cuts[o->first_piece + j];
            pieces[n++].node = i;
        }
    }
    assert_ok(planner_from_pieces(s->t.ctx, s->graph, NULL, pieces, n, &plan));
    assert_ok(planner_forecast_make(plan, costs, NULL, &f));
    double ns = f->makespan_ns;
    core_forecast_free(f);
    clv_plan_destroy(plan);
    return ns;
}

static void all_on(const planner_candidates *c, uint32_t device,
                   uint32_t *options)
{
    for (uint32_t i = 0; i < c->problem.n_nodes; i++)
        for (uint32_t o = 0; o < c->nodes[i].n_options; o++) {
            const planner_solve_option *x =
                &c->options[c->nodes[i].first_option + o];
            if (x->n_pieces == 1 && c->pieces[x->first_piece].device == device)
                options[i] = c->nodes[i].first_option + o;
        }
}

/* The plan found is, by the forecast, no slower than either device alone (but
 * for the graph's input, which the search does not count), and takes what the
 * search thinks. */
static void check_scene(const scene *s)
{
    const planner_costs costs = {&s->machine, cost, overheads, bandwidth,
                                 slowdown};
    planner_candidates c;
    planner_solution found;
    uint32_t options[64];
    assert_ok(planner_candidates_make(s->plan, s->caps, &costs,
                                      PLANNER_STRATEGY_TENSOR, 0, NULL, &c));
    assert_ok(planner_search(&c.problem, 0, &found));
    for (uint32_t i = 0; i < s->graph->n_nodes; i++)
        options[i] = found.choices[i].option;
    double input = s->machine.overheads.copy +
                   s->machine.overheads.copy_byte * ROWS * COLUMNS * 4;
    double ns = predicted(s, &c, &costs, options);
    if (ns > found.makespan_ns * 1.05 + 2 * input ||
        ns < found.makespan_ns * 0.9)
        fail_msg("%.0f ns predicted, the search says %.0f", ns,
                 found.makespan_ns);
    for (uint32_t d = 0; d < 2; d++) {
        all_on(&c, d, options);
        double alone = predicted(s, &c, &costs, options);
        if (ns > alone + 2 * input)
            fail_msg("%.0f ns, device %u alone takes %.0f", ns, d, alone);
    }
    planner_solution_finish(&found);
    planner_candidates_finish(&c);
}

/* What leaves the device's own memory takes as long as that way takes. */
static void test_out(void **state)
{
    (void)state;
    scene s = open_scene("ref.memory1=local,coherent", 4);
    const planner_costs costs = {&s.machine, cost, overheads, bandwidth,
                                 slowdown};
    planner_candidates c;
    uint32_t options[64] = {0};
    s.machine.overheads = (planner_overheads){.copy = 10, .copy_byte = 1};
    for (uint32_t d = 0; d < 2; d++)
        s.machine.silu[d] = s.machine.add[d] = 100;
    assert_ok(planner_candidates_make(s.plan, s.caps, &costs,
                                      PLANNER_STRATEGY_TENSOR, 0, NULL, &c));
    all_on(&c, 1, options);
    const double same = predicted(&s, &c, &costs, options);
    s.machine.overheads.copy_out = 10;
    s.machine.overheads.copy_byte_out = 3;
    const double slower = predicted(&s, &c, &costs, options);
    assert_true(fabs(slower - same - 2.0 * ROWS * COLUMNS * 4) < 1);
    planner_candidates_finish(&c);
    close_scene(&s);
}

static void test_forecast(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "ref.memory1=local,coherent",
        "ref.memory0=local,shadow ref.import0=off",
        "ref.memory0=local,coherent ref.memory1=local,shadow"};
    test_random r = {5};
    for (uint32_t i = 0; i < 3; i++) {
        scene s = open_scene(settings[i], 6);
        for (uint32_t round = 0; round < 20; round++) {
            for (uint32_t d = 0; d < 2; d++) {
                s.machine.silu[d] = 1000 + test_below(&r, 100000);
                s.machine.add[d] = 1000 + test_below(&r, 100000);
            }
            s.machine.overheads =
                (planner_overheads){.submit = 100,
                                    .submit_idle = 500,
                                    .dispatch = 200,
                                    .wait_poll = 100,
                                    .wait_block = 100,
                                    .copy = test_below(&r, 2000),
                                    .copy_byte = test_below(&r, 100) / 50.0,
                                    .copy_row = test_below(&r, 500)};
            check_scene(&s);
        }
        close_scene(&s);
    }
}

/* Weights have what states and work leave of a device's memory. */
static void test_budget(void **state)
{
    (void)state;
    scene s = open_scene("ref.memory1=local,coherent", 1);
    const planner_costs costs = {&s.machine, cost, overheads, bandwidth,
                                 slowdown};
    planner_candidates c;
    for (uint32_t known = 0; known < 2; known++) {
        s.plan->devices[1].room = known ? 1600 : UINT64_MAX;
        assert_ok(planner_candidates_make(
            s.plan, s.caps, &costs, PLANNER_STRATEGY_TENSOR, 0, NULL, &c));
        assert_true(c.devices[0].memory == UINT64_MAX);
        assert_true(c.devices[1].memory == (known ? 1500 : UINT64_MAX));
        planner_candidates_finish(&c);
    }
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),    cmocka_unit_test(test_once),
        cmocka_unit_test(test_wanted),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_partial), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_out),     cmocka_unit_test(test_forecast),
        cmocka_unit_test(test_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
