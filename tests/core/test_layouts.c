/*
 * Layouts of states that devices wish for: when they get them, when not, and
 * that contents are the same wherever they are looked at.
 */
#include "../plugins/ref/context.h"
#include "../../core/device/loss.h"

#include "../../core/graph/tensor.h"
#include "../../planner/planner.h"
#include "../../tools/views/views.h"

#include "message.h"

#include <cleave/plugin_layout.h>

#define DIM 5
#define HEADS 4
#define GROUPS 2
#define C (GROUPS * DIM)
#define ROWS 7
#define STEPS 3 /* rows that a run sets */

/* ------------------------------------------------------------------------ */
/* Forms                                                                     */

/* Every element of random boxes goes where the layout says, and nothing else
 * does. */
static void test_forms(void **state)
{
    (void)state;
    test_random random = {3};
    for (int round = 0; round < 200; round++) {
        const int64_t dims[] = {1 + test_below(&random, 9),
                                1 + test_below(&random, 9)};
        const bool turned = test_below(&random, 2);
        const core_form form = {.layout = CLV_LAYOUT_WEIGHTS,
                                .axes = {turned ? CLV_AXIS_I : CLV_AXIS_O,
                                         turned ? CLV_AXIS_O : CLV_AXIS_I}};
        const int64_t logical[] = {dims[turned], 1, 1, 1, dims[!turned]};
        core_bounds box = {0};
        clv_layout_map map;
        uint16_t dense[81], laid[12 * 12 * 4] = {0}, back[81] = {0};
        uint64_t size;
        for (int i = 0; i < 81; i++)
            dense[i] = (uint16_t)(i + 1);
        for (int d = 0; d < 2; d++) {
            box.begin[d] = test_below(&random, (uint32_t)dims[d]);
            box.end[d] =
                box.begin[d] + 1 +
                test_below(&random, (uint32_t)(dims[d] - box.begin[d]));
        }
        assert_true(
            clv_layout_init(&map, form.layout, CLV_STORAGE_BUFFER, logical, 1));
        assert_ok(core_form_size(&form, CLV_DTYPE_F16, 2, dims, &size));
        assert_int_equal(size, 2 * map.n_elements);
        assert_ok(core_form_move(&form, CLV_DTYPE_F16, 2, dims, &box,
                                 (char *)dense, (char *)laid, true));
        assert_ok(core_form_move(&form, CLV_DTYPE_F16, 2, dims, &box,
                                 (char *)back, (char *)laid, false));
        int64_t set = 0, area = 1;
        for (int64_t i = 0; i < map.n_elements; i++)
            set += laid[i] != 0;
        for (int d = 0; d < 2; d++)
            area *= box.end[d] - box.begin[d];
        assert_int_equal(set, area);
        for (int64_t y = box.begin[0]; y < box.end[0]; y++)
            for (int64_t x = box.begin[1]; x < box.end[1]; x++) {
                const int64_t at[] = {turned ? x : y, 0, 0, 0, turned ? y : x};
                const uint16_t want = dense[y * dims[1] + x];
                assert_int_equal(laid[clv_layout_find(&map, at).at[CLV_PHYS_X]],
                                 want);
                assert_int_equal(back[y * dims[1] + x], want);
            }
    }
    const core_form none = {.layout = CLV_LAYOUT_WEIGHTS,
                            .axes = {CLV_AXIS_O, CLV_AXIS_O}};
    uint64_t size;
    assert_int_equal(
        core_form_size(&none, CLV_DTYPE_F16, 2, (const int64_t[]){4, 4}, &size),
        CLV_ERR_INVALID);
}

/* ------------------------------------------------------------------------ */
/* Rows are set in two states, which attention reads                         */

typedef struct cache {
    test_context t;
    clv_tensor *k, *v;
    clv_graph *g;
    clv_value q, rows[2], pos, states[2], y;
} cache;

static void open_cache(cache *c, const char *settings)
{
    const int64_t dims[] = {ROWS, C};
    *c = (cache){.t = test_context_create(settings)};
    assert_ok(clv_tensor_create(c->t.ctx, CLV_DTYPE_F16, 2, dims, &c->k));
    assert_ok(clv_tensor_create(c->t.ctx, CLV_DTYPE_F16, 2, dims, &c->v));
    assert_ok(clv_graph_create(&c->g));
    const clv_dim n = clv_graph_symbol(c->g, "n", 1, STEPS);
    const clv_dim wide[] = {n, clv_dim_fixed(HEADS * DIM)};
    const clv_dim row[] = {n, clv_dim_fixed(C)};
    c->q = clv_graph_input(c->g, "q", CLV_DTYPE_F32, 2, wide);
    c->pos = clv_graph_input(c->g, "pos", CLV_DTYPE_I32, 1, &n);
    for (int i = 0; i < 2; i++) {
        c->states[i] =
            clv_graph_state(c->g, i ? "v" : "k", CLV_DTYPE_F16, 2, dims);
        c->rows[i] =
            clv_graph_input(c->g, i ? "new v" : "new k", CLV_DTYPE_F32, 2, row);
        clv_graph_set_rows(c->g, c->states[i], c->rows[i], c->pos);
    }
    const clv_attention_params params = {.head_dim = DIM, .scale = 0.5f};
    c->y = clv_graph_attention(c->g, c->q, c->states[0], c->states[1], c->pos,
                               CLV_NO_TENSOR, &params);
    clv_graph_output(c->g, c->y, "y");
    assert_ok(clv_graph_check(c->g));
}

static void close_cache(cache *c)
{
    clv_graph_destroy(c->g);
    clv_tensor_destroy(c->k);
    clv_tensor_destroy(c->v);
    test_context_destroy(&c->t);
}

typedef struct runner {
    clv_plan *plan;
    clv_exec *exec;
} runner;

/* devices: how many, from `first` on. */
static runner open_runner(cache *c, uint32_t first, uint32_t devices)
{
    runner r;
    clv_device *list[] = {clv_context_device(c->t.ctx, first),
                          clv_context_device(c->t.ctx, 1)};
    const clv_plan_params params = {.devices = list, .n_devices = devices};
    assert_ok(clv_plan_create(c->t.ctx, c->g, &params, &r.plan));
    assert_ok(clv_exec_create(r.plan, &r.exec));
    assert_ok(clv_exec_bind(r.exec, c->states[0], c->k));
    assert_ok(clv_exec_bind(r.exec, c->states[1], c->v));
    return r;
}

static void close_runner(runner *r)
{
    clv_exec_destroy(r->exec);
    clv_plan_destroy(r->plan);
}

/* What the row of a position has. */
static float element(bool of_v, int64_t position, int64_t column)
{
    return (float)((position * 7 + column * 3 + of_v * 5) % 11) - 4;
}

static clv_status run(cache *c, const runner *r, int64_t first, int64_t n,
                      float y[STEPS * HEADS * DIM])
{
    float *q = clv_tensor_data(clv_exec_tensor(r->exec, c->q));
    int32_t *pos = clv_tensor_data(clv_exec_tensor(r->exec, c->pos));
    for (int64_t i = 0; i < n; i++) {
        pos[i] = (int32_t)(first + i);
        for (int64_t x = 0; x < HEADS * DIM; x++)
            q[i * HEADS * DIM + x] = (float)((first + i + x) % 5) / 4;
    }
    for (int s = 0; s < 2; s++) {
        float *rows = clv_tensor_data(clv_exec_tensor(r->exec, c->rows[s]));
        for (int64_t i = 0; i < n; i++)
            for (int64_t x = 0; x < C; x++)
                rows[i * C + x] = element(s, first + i, x);
    }
    clv_status status = clv_exec_run(r->exec, &n, 1);
    memcpy(y, clv_tensor_data(clv_exec_tensor(r->exec, c->y)),
           (size_t)n * HEADS * DIM * sizeof *y);
    return status;
}

static uint32_t layout_of(const cache *c, const runner *r, int state)
{
    return r->plan->graph->tensors[c->states[state]].layout;
}

/* The bytes are where the layout has them, and padding is zeros. */
static void check_object(const clv_tensor *t, bool of_v, int64_t n)
{
    const core_object *o = t->objects;
    while (o && !(o->holding == CORE_HOLD_LOCAL && o->form.layout))
        o = o->next;
    assert_non_null(o);
    /* O and I in slices of 4: rows and channels, or the reverse. */
    const int64_t outer = of_v ? 12 : 8, inner = of_v ? 8 : 12;
    uint16_t data[8 * 12];
    assert_int_equal(o->size, sizeof data);
    const core_runs all = {.bytes = o->size, .n = 1};
    if (o->image)
        memcpy(data, o->image->data, o->size);
    else
        assert_ok(core_buffer_read(o->buffer, o->offset, &all, data));
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < inner; j++) {
            const int64_t row = of_v ? j : i, column = of_v ? i : j;
            float want = row < n && column < C ? element(of_v, row, column) : 0;
            uint16_t half;
            assert_ok(clv_dtype_from_f32(CLV_DTYPE_F16, &want, &half, 1));
            assert_int_equal(data[i * inner + j], half);
        }
}

static void check_host(clv_tensor *t, bool of_v, int64_t n)
{
    const uint16_t *data = clv_tensor_data(t);
    assert_non_null(data);
    for (int64_t i = 0; i < ROWS * C; i++) {
        float want = i / C < n ? element(of_v, i / C, i % C) : 0;
        uint16_t half;
        assert_ok(clv_dtype_from_f32(CLV_DTYPE_F16, &want, &half, 1));
        assert_int_equal(data[i], half);
    }
}

/* ref:0 has them as weights, ref:1 as they are; each continues the other's. */
static void check_granted(const char *settings)
{
    cache c;
    float a[STEPS * HEADS * DIM], b[STEPS * HEADS * DIM];
    open_cache(&c, settings);
    runner laid = open_runner(&c, 0, 1), plain = open_runner(&c, 1, 1);
    for (int s = 0; s < 2; s++) {
        const clv_tensor_desc *d = &laid.plan->graph->tensors[c.states[s]];
        assert_int_equal(layout_of(&c, &laid, s), CLV_LAYOUT_WEIGHTS);
        assert_int_equal(d->axes[s], CLV_AXIS_O);
        assert_int_equal(d->axes[1 - s], CLV_AXIS_I);
        assert_int_equal(layout_of(&c, &plain, s), CLV_LAYOUT_LINEAR);
    }
    assert_ok(run(&c, &laid, 0, STEPS, a));
    check_object(c.k, false, STEPS);
    check_object(c.v, true, STEPS);
    assert_ok(run(&c, &plain, 2, 1, b)); /* the same row again */
    assert_memory_equal(b, a + 2 * HEADS * DIM, HEADS * DIM * sizeof *b);
    assert_ok(run(&c, &plain, 3, 2, b));
    assert_ok(run(&c, &laid, 4, 1, a));
    assert_memory_equal(a, b + HEADS * DIM, HEADS * DIM * sizeof *a);
    check_object(c.v, true, 5);
    check_host(c.k, false, 5);
    check_host(c.v, true, 5);
    assert_ok(run(&c, &laid, 5, 1, a)); /* back from the host */
    check_object(c.k, false, 6);
    check_host(c.v, true, 6);
    close_runner(&laid);
    close_runner(&plain);
    close_cache(&c);
}

static void test_granted(void **state)
{
    (void)state;
    check_granted("ref.states0=weights");
    check_granted("ref.states0=weights ref.memory0=local,coherent");
    check_granted("ref.states0=weights ref.memory0=local,shadow "
                  "ref.import0=off");
    check_granted("ref.states0=weights ref.memory1=local,coherent");
    check_granted("ref.states0=weights ref.memory0=shadow");
}

static void test_printed(void **state)
{
    (void)state;
    cache c;
    char *text;
    open_cache(&c, "ref.states0=weights");
    runner r = open_runner(&c, 0, 2);
    assert_ok(view_plan(r.plan, "md", &text));
    assert_non_null(strstr(text, "States in the layout of weights on ref:0: 2, "
                                 "384 B."));
    clv_string_free(text);
    assert_ok(clv_plan_json(r.plan, &text));
    assert_non_null(strstr(text, "\"device\":0,\"layout\":\"weights\","
                                 "\"bytes\":192}"));
    clv_string_free(text);
    close_runner(&r);
    close_cache(&c);
}

static void check_linear(const char *settings, uint32_t devices)
{
    cache c;
    float y[STEPS * HEADS * DIM];
    open_cache(&c, settings);
    runner r = open_runner(&c, 0, devices);
    for (int s = 0; s < 2; s++)
        assert_int_equal(layout_of(&c, &r, s), CLV_LAYOUT_LINEAR);
    assert_ok(run(&c, &r, 0, STEPS, y));
    check_host(c.k, false, STEPS);
    check_host(c.v, true, STEPS);
    close_runner(&r);
    close_cache(&c);
}

/* Two devices use them; the device says no once it is asked; nobody there
 * asks. */
static void test_not_granted(void **state)
{
    (void)state;
    check_linear("ref.states0=weights ref.states1=weights ref.ops0=set_rows",
                 2);
    check_linear("ref.states0=fickle", 1);
    check_linear("ref.states1=weights", 1);
}

/* Pieces of a state lie in it as they are. */
static void test_cut(void **state)
{
    (void)state;
    cache c;
    clv_plan *plan;
    open_cache(&c, "ref.states0=weights");
    const core_piece pieces[] = {
        {.node = 0},
        {.node = 1},
        {.node = 2, .ranges[CORE_AXIS_HEADS] = {0, 2}},
        {.node = 2, .ranges[CORE_AXIS_HEADS] = {2, 4}}};
    clv_device *dev = clv_context_device(c.t.ctx, 0);
    const clv_plan_params params = {.devices = &dev, .n_devices = 1};
    assert_ok(planner_from_pieces(c.t.ctx, c.g, &params, pieces, 4, &plan));
    for (int s = 0; s < 2; s++)
        assert_int_equal(plan->graph->tensors[c.states[s]].layout,
                         CLV_LAYOUT_LINEAR);
    clv_plan_destroy(plan);
    close_cache(&c);
}

/* Where costs divide a plan over devices, plans of other lengths may be divided
 * in other ways. */
static void test_by_costs(void **state)
{
    (void)state;
    cache c;
    clv_plan *plan;
    core_piece pieces[] = {{.node = 0}, {.node = 1}, {.node = 2}};
    open_cache(&c, "ref.states0=weights core.plan=tensor");
    clv_device *devices[] = {clv_context_device(c.t.ctx, 0),
                             clv_context_device(c.t.ctx, 1)};
    for (uint32_t n = 1; n <= 2; n++) {
        const clv_plan_params params = {.devices = devices, .n_devices = 2};
        pieces[2].device = n - 1;
        assert_ok(planner_from_pieces(c.t.ctx, c.g, &params, pieces, 3, &plan));
        for (int s = 0; s < 2; s++)
            assert_int_equal(plan->graph->tensors[c.states[s]].layout,
                             n == 1 ? CLV_LAYOUT_WEIGHTS : CLV_LAYOUT_LINEAR);
        clv_plan_destroy(plan);
    }
    close_cache(&c);
}

/* What the device alone had goes with it; what lies in the host's memory, in
 * whatever layout, does not. */
static void check_lost(const char *settings, bool gone)
{
    cache c;
    float y[STEPS * HEADS * DIM];
    open_cache(&c, settings);
    runner laid = open_runner(&c, 0, 1), plain = open_runner(&c, 1, 1);
    assert_ok(run(&c, &laid, 0, STEPS, y));
    core_device_lose(clv_context_device(c.t.ctx, 0));
    assert_int_equal(clv_tensor_lost(c.v), gone);
    if (gone) {
        assert_int_equal(run(&c, &plain, 3, 1, y), CLV_ERR_DEVICE_LOST);
        assert_message("in the memory of device 'ref:0', which is lost");
    } else {
        assert_ok(run(&c, &plain, 3, 1, y));
        check_host(c.k, false, 4);
        check_host(c.v, true, 4);
    }
    close_runner(&laid);
    close_runner(&plain);
    close_cache(&c);
}

static void test_lost(void **state)
{
    (void)state;
    check_lost("ref.states0=weights ref.memory0=local,coherent", true);
    check_lost("ref.states0=weights", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),   cmocka_unit_test(test_granted),
        cmocka_unit_test(test_printed), cmocka_unit_test(test_not_granted),
        cmocka_unit_test(test_cut),     cmocka_unit_test(test_by_costs),
        cmocka_unit_test(test_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
