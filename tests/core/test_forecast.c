/*
 * Forecasts: every rule by a timeline worked out by hand, in ns, with costs
 * that are made up.
 */
#include "../plugins/ref/context.h"

#include "../../planner/forecast/flight.h"
#include "../../planner/planner.h"

#include "message.h"

#include <math.h>

#define N 4

/* Overheads of both devices. */
#define SUBMIT 2
#define IDLE 10
#define DISPATCH 20
#define POLL 5

/* What SILU takes on each device, and SET_ROWS; nothing else is known. */
typedef struct table {
    double silu[2]; /* 0: not known */
    double set_rows;
    double alone[2]; /* of what SILU moves in 100 ns: bandwidth, */
    double together; /* and of both */
    double slowdown, energy;
    planner_overheads overheads;
    bool no_overheads;
} table;

typedef struct fixture {
    test_context t;
    clv_graph *graph;
    clv_value x;
    clv_plan *plan;
    table costs;
    core_forecast *f;
} fixture;

static uint32_t index_of(const clv_device *dev)
{
    return dev->info.id[0] == '1';
}

/* What SILU moves. */
static double unit(void)
{
    return N * 2 * sizeof(float);
}

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    const table *t = ctx;
    double ns = t->silu[index_of(dev)];
    if (workload->kind.op == CLV_OP_SET_ROWS) {
        *out = (planner_cost){.ns = t->set_rows};
        return true;
    }
    assert_true(planner_workload_bytes(workload) == unit());
    *out = (planner_cost){.ns = ns, .energy_nj = ns * t->energy};
    return ns > 0 && workload->kind.op == CLV_OP_SILU;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    const table *t = ctx;
    (void)dev;
    return t->no_overheads ? NULL : &t->overheads;
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    const table *t = ctx;
    return (n == 1 ? t->alone[index_of(devs[0])] : t->together) * unit() / 100;
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    (void)devs;
    assert_true(n == 2 && index < 2);
    return ((const table *)ctx)->slowdown;
}

/* Devices with a virtual clock: the host polls for them on any machine. */
static fixture begin(const char *settings)
{
    char text[256];
    snprintf(text, sizeof text, "ref.virtual0=on ref.virtual1=on %s", settings);
    fixture f = {.t = test_context_create(text),
                 .costs = {.silu = {100, 100}, .set_rows = 100, .slowdown = 1}};
    f.costs.overheads = (planner_overheads){.submit = SUBMIT,
                                            .submit_idle = IDLE,
                                            .dispatch = DISPATCH,
                                            .wait_poll = POLL,
                                            .wait_block = 1000};
    const clv_dim dims[] = {clv_dim_fixed(N)};
    assert_ok(clv_graph_create(&f.graph));
    f.x = clv_graph_input(f.graph, "x", CLV_DTYPE_F32, 1, dims);
    return f;
}

/* All nodes are there: node i on device devices[i]. */
static clv_status play(fixture *f, const uint32_t *devices)
{
    const planner_costs costs = {&f->costs, cost, overheads, bandwidth,
                                 slowdown};
    core_piece pieces[8] = {0};
    for (uint32_t i = 0; i < f->graph->n_nodes; i++)
        pieces[i] = (core_piece){.node = i, .device = devices[i]};
    core_forecast_free(f->f);
    clv_plan_destroy(f->plan);
    assert_ok(planner_from_pieces(f->t.ctx, f->graph, NULL, pieces,
                                  f->graph->n_nodes, &f->plan));
    return planner_forecast_make(f->plan, &costs, NULL, &f->f);
}

static void finish(fixture *f)
{
    core_forecast_free(f->f);
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->graph);
    test_context_destroy(&f->t);
}

static void assert_span(core_span span, double from, double to)
{
    if (fabs(span.begin_ns - from) > 1e-9 || fabs(span.end_ns - to) > 1e-9)
        fail_msg("%.12g..%.12g, not %.12g..%.12g", span.begin_ns, span.end_ns,
                 from, to);
}

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 1e-9)
        fail_msg("%.12g is not %.12g", a, b);
}

static void chain(fixture *f, int n)
{
    clv_value x = f->x;
    for (int i = 0; i < n; i++)
        x = clv_graph_silu(f->graph, x);
    clv_graph_output(f->graph, x, "y");
}

static void beside(fixture *f)
{
    clv_graph_output(f->graph, clv_graph_silu(f->graph, f->x), "y");
    clv_graph_output(f->graph, clv_graph_silu(f->graph, f->x), "z");
}

static void test_one_step(void **state)
{
    (void)state;
    fixture f = begin("");
    chain(&f, 2);
    f.costs.energy = 3;
    assert_ok(play(&f, (uint32_t[]){0, 0}));
    assert_int_equal(f.plan->n_steps, 1);
    assert_span(f.f->submits[0], 0, IDLE);
    assert_span(f.f->host_waits[0], 0, 0);
    assert_span(f.f->steps[0], 10, 230);
    assert_span(f.f->parts[0], 30, 130);
    assert_span(f.f->parts[1], 130, 230);
    assert_span(f.f->last_wait, 10, 235);
    assert_near(f.f->makespan_ns, 235);
    assert_near(f.f->busy_ns[0], 220);
    assert_near(f.f->busy_ns[1], 0);
    assert_near(f.f->energy_nj, 600);
    finish(&f);
}

static void test_host_waits(void **state)
{
    (void)state;
    fixture f = begin("");
    chain(&f, 3);
    assert_ok(play(&f, (uint32_t[]){0, 1, 0}));
    assert_int_equal(f.plan->n_steps, 3);
    assert_span(f.f->host_waits[1], 10, 135);
    assert_span(f.f->submits[1], 135, 145);
    assert_span(f.f->steps[1], 145, 265);
    assert_span(f.f->host_waits[2], 145, 270);
    assert_span(f.f->submits[2], 270, 280);
    assert_span(f.f->steps[2], 280, 400);
    assert_near(f.f->makespan_ns, 405);
    finish(&f);
}

static void test_blocking(void **state)
{
    (void)state;
    fixture f = begin("core.sync=block");
    chain(&f, 2);
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_span(f.f->host_waits[1], 10, 1130);
    assert_near(f.f->makespan_ns, 1130 + 10 + 20 + 100 + 1000);
    finish(&f);
}

static void test_devices_wait(void **state)
{
    (void)state;
    fixture f = begin("ref.flag_wait0=on ref.flag_wait1=on");
    chain(&f, 3);
    assert_ok(play(&f, (uint32_t[]){0, 1, 0}));
    assert_span(f.f->submits[1], 10, 20);
    assert_span(f.f->submits[2], 20, 22); /* the queue has work */
    assert_span(f.f->host_waits[1], 10, 10);
    assert_span(f.f->steps[1], 130, 250);
    assert_span(f.f->steps[2], 250, 370);
    assert_near(f.f->makespan_ns, 375);
    finish(&f);
}

/* The host waits for room. */
static void test_full_queue(void **state)
{
    (void)state;
    fixture f = begin("ref.flag_wait0=on ref.flag_wait1=on ref.queue_depth0=1");
    chain(&f, 3);
    assert_ok(play(&f, (uint32_t[]){0, 1, 0}));
    assert_span(f.f->submits[2], 135, 145);
    assert_span(f.f->steps[2], 250, 370);
    finish(&f);
}

static void test_shared_memory(void **state)
{
    (void)state;
    fixture f = begin("");
    beside(&f);
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_span(f.f->parts[0], 30, 130);
    assert_span(f.f->parts[1], 40, 140);
    f.costs.alone[0] = f.costs.alone[1] = 1;
    f.costs.together = 1.5;
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_span(f.f->parts[0], 30, 160);
    assert_span(f.f->parts[1], 40, 170);
    assert_near(f.f->makespan_ns, 175);
    /* Who wants less than its share gets what it wants. */
    f.costs.silu[0] = 250;
    f.costs.together = 1;
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_span(f.f->parts[0], 30, 280);
    assert_span(f.f->parts[1], 40, 40 + 100 / 0.6);
    assert_near(f.f->makespan_ns, 285);
    /* It moves no more than the device can, whatever the work says. */
    f.costs.silu[0] = 50;
    f.costs.alone[0] = 1;
    f.costs.together = 2;
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_span(f.f->parts[0], 30, 80);
    assert_span(f.f->parts[1], 40, 140);
    finish(&f);
}

static void test_computing_slows_others(void **state)
{
    (void)state;
    fixture f = begin("");
    beside(&f);
    f.costs.alone[0] = f.costs.alone[1] = 10;
    f.costs.slowdown = 1.25;
    f.costs.energy = 1;
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_span(f.f->parts[0], 30, 40 + 90 / 0.8);
    assert_span(f.f->parts[1], 40, 162.5);
    assert_near(f.f->energy_nj, 122.5 + 122.5);
    /* Also what the memory holds up, but not beyond that. */
    f.costs.together = 4;
    f.costs.silu[0] = f.costs.silu[1] = 1000;
    f.costs.slowdown = 1;
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    double by_memory = f.f->makespan_ns;
    f.costs.slowdown = 1.001;
    assert_ok(play(&f, (uint32_t[]){0, 1}));
    assert_true(f.f->makespan_ns >= by_memory);
    assert_true(f.f->makespan_ns <= by_memory * 1.001);
    finish(&f);
}

/* Four runs, of which each reads on one device what the one before it set on
 * the other: in flight they take no less than all the work. Where it is read
 * from a state that nobody sets, the devices work side by side. */
static void test_flight(void **state)
{
    (void)state;
    const int64_t dims[] = {1, N};
    const clv_dim wide[] = {clv_dim_fixed(1), clv_dim_fixed(N)};
    const uint32_t devices[] = {1, 0, 0};
    double ns[2];
    for (int i = 0; i < 2; i++) {
        fixture f = begin("");
        const planner_costs costs = {&f.costs, cost, overheads, bandwidth,
                                     slowdown};
        clv_value states[2];
        for (int j = 0; j < 2; j++)
            states[j] = clv_graph_state(f.graph, "s", CLV_DTYPE_F32, 2, dims);
        const clv_value pos =
            clv_graph_input(f.graph, "pos", CLV_DTYPE_I32, 1, wide);
        const clv_value y =
            clv_graph_silu(f.graph, clv_graph_silu(f.graph, states[0]));
        clv_graph_set_rows(f.graph, states[i], y, pos);
        clv_graph_output(f.graph, y, "y");
        assert_ok(play(&f, devices));
        assert_ok(planner_forecast_flight(f.plan, &costs, NULL, 1, 1, &ns[i]));
        assert_true(fabs(ns[i] - f.f->makespan_ns) <= 2 * POLL);
        assert_ok(planner_forecast_flight(f.plan, &costs, NULL, 4, 4, &ns[i]));
        finish(&f);
    }
    assert_true(ns[0] >= 4 * 300);
    assert_true(ns[1] < 0.9 * ns[0]);
}

static void test_not_known(void **state)
{
    (void)state;
    fixture f = begin("");
    beside(&f);
    f.costs.silu[1] = 0;
    assert_int_equal(play(&f, (uint32_t[]){0, 1}), CLV_ERR_NOT_FOUND);
    assert_message("ref:1|silu|cleave profile");
    assert_null(f.f);
    assert_ok(play(&f, (uint32_t[]){0, 0}));
    f.costs.no_overheads = true;
    assert_int_equal(play(&f, (uint32_t[]){0, 0}), CLV_ERR_NOT_FOUND);
    assert_message("ref:0|submits|cleave profile");
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step),
        cmocka_unit_test(test_host_waits),
        cmocka_unit_test(test_blocking),
        cmocka_unit_test(test_devices_wait),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_computing_slows_others),
        cmocka_unit_test(test_flight),
        cmocka_unit_test(test_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
