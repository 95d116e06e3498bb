/*
 * Weights that are streamed once lie among values: runs that leave their copies
 * out find them there, whatever else has run in the same workspace.
 */
#include "../plugins/ref/context.h"
#include "../../planner/planner.h"

#define IN 64
#define OUT 32
#define ROWS 4096 /* of the graph that overwrites them */

typedef struct fixture {
    test_context t;
    clv_tensor *weight;
    clv_workspace *workspace;
    clv_graph *graphs[2]; /* a product with the weight; sums of an input */
    clv_plan *plans[2];
    clv_exec *execs[2];
    clv_value x[2], y[2];
} fixture;

static void make_weight(fixture *f)
{
    const int64_t dims[] = {OUT, IN};
    assert_ok(clv_tensor_create(f->t.ctx, CLV_DTYPE_F32, 2, dims, &f->weight));
    float *w = clv_tensor_data(f->weight);
    for (int i = 0; i < OUT * IN; i++)
        w[i] = (float)(i % 7 - 3);
}

static void make_graphs(fixture *f)
{
    const clv_dim one[] = {clv_dim_fixed(1), clv_dim_fixed(IN)};
    const clv_dim many[] = {clv_dim_fixed(ROWS), clv_dim_fixed(IN)};
    for (int i = 0; i < 2; i++) {
        clv_graph *g;
        assert_ok(clv_graph_create(&g));
        f->graphs[i] = g;
        f->x[i] = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, i ? many : one);
        clv_value y = f->x[i];
        if (!i)
            y = clv_graph_matmul(g, y, clv_graph_weight(g, "w", f->weight),
                                 CLV_NO_TENSOR);
        for (int j = 0; i && j < 3; j++)
            y = clv_graph_add(g, y, f->x[i]);
        clv_graph_output(g, y, "y");
        f->y[i] = y;
    }
}

static void open_fixture(fixture *f)
{
    const core_piece once = {.streamed = CORE_STREAM_ONCE};
    core_piece sums[3] = {{.node = 0}, {.node = 1}, {.node = 2}};
    f->t = test_context_create("ref.memory0=local,coherent "
                               "ref.copy_queues0=1 ref.delay_us0=20000");
    make_weight(f);
    make_graphs(f);
    assert_ok(planner_from_pieces(f->t.ctx, f->graphs[0], NULL, &once, 1,
                                  &f->plans[0]));
    assert_ok(planner_from_pieces(f->t.ctx, f->graphs[1], NULL, sums, 3,
                                  &f->plans[1]));
    assert_true(f->plans[0]->n_loads == 1 && f->plans[0]->loads[0].kept);
    assert_ok(clv_workspace_create(f->t.ctx, &f->workspace));
    for (int i = 0; i < 2; i++)
        assert_ok(clv_exec_create_in(f->plans[i], f->workspace, &f->execs[i]));
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < 2; i++) {
        clv_exec_destroy(f->execs[i]);
        clv_plan_destroy(f->plans[i]);
        clv_graph_destroy(f->graphs[i]);
    }
    clv_workspace_destroy(f->workspace);
    clv_tensor_destroy(f->weight);
    test_context_destroy(&f->t);
}

static void fill(clv_tensor *x, int64_t n)
{
    float *data = clv_tensor_data(x);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(i % 5 + 1);
}

static void assert_product(const fixture *f, clv_tensor *y)
{
    const float *w = clv_tensor_data(f->weight), *got = clv_tensor_data(y);
    for (int i = 0; i < OUT; i++) {
        float want = 0;
        for (int j = 0; j < IN; j++)
            want += w[i * IN + j] * (float)(j % 5 + 1);
        assert_true(got[i] == want);
    }
}

static void test_one_after_another(void **state)
{
    (void)state;
    static const int order[] = {0, 0, 1, 0, 0, 1, 1, 0};
    fixture f;
    open_fixture(&f);
    fill(clv_exec_tensor(f.execs[0], f.x[0]), IN);
    fill(clv_exec_tensor(f.execs[1], f.x[1]), (int64_t)ROWS * IN);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        assert_ok(clv_exec_run(f.execs[order[i]], NULL, 0));
        if (!order[i])
            assert_product(&f, clv_exec_tensor(f.execs[0], f.y[0]));
    }
    close_fixture(&f);
}

/* The product ends and begins again while the sums, which are between both, are
 * at work. */
static void test_in_flight(void **state)
{
    (void)state;
    fixture f;
    clv_run *runs[3];
    open_fixture(&f);
    for (int i = 0; i < 3; i++) {
        assert_ok(clv_run_create(f.execs[i == 1], NULL, &runs[i]));
        fill(clv_run_tensor(runs[i], f.x[i == 1]),
             i == 1 ? (int64_t)ROWS * IN : IN);
    }
    for (int round = 0; round < 3; round++) {
        assert_ok(clv_run_submit(runs[0], NULL, 0));
        assert_ok(clv_run_submit(runs[1], NULL, 0));
        assert_ok(clv_run_wait(runs[0]));
        assert_ok(clv_run_submit(runs[2], NULL, 0));
        assert_ok(clv_run_wait(runs[1]));
        assert_ok(clv_run_wait(runs[2]));
        assert_product(&f, clv_run_tensor(runs[0], f.y[0]));
        assert_product(&f, clv_run_tensor(runs[2], f.y[0]));
    }
    for (int i = 0; i < 3; i++)
        clv_run_destroy(runs[i]);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
