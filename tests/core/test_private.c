/*
 * Weights in a layout of a device's own: when it gets them, when not, how they
 * are brought into it, and that results are the same.
 */
#include "../plugins/ref/context.h"

#include "../../core/device/device.h"
#include "../../core/device/relayout.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/plan.h"
#include "../../planner/planner.h"

#include "fail_alloc.h"

#define IN 64
#define OUT 24
#define ROWS 3
#define EXPERTS 4
#define BLOCK 4 /* rows of the reference plugin's */

/* The first device has the layout, the other one the weights as they are. */
#define OWN "ref.weights0=private ref.memory0=local,coherent"

#define ROW CORE_AXIS_ROWS
#define CHANNEL CORE_AXIS_CHANNELS

typedef struct fixture {
    test_context t;
    clv_graph *g;
    clv_tensor *w;
    clv_dim n; /* rows of x */
    clv_value x, ids, weight, y;
    int64_t in, out; /* features */
} fixture;

/* [rows, columns] of numbers from -1/2 to 1/2. */
static clv_tensor *make_weight(clv_context *ctx, uint32_t dtype, uint32_t rank,
                               const int64_t *dims)
{
    test_random random = {7};
    clv_tensor *t;
    assert_ok(clv_tensor_create(ctx, dtype, rank, dims, &t));
    uint64_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        n *= (uint64_t)dims[i];
    float *x = malloc(n * sizeof *x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = test_float(&random) / 2;
    assert_ok(clv_dtype_from_f32(dtype, x, clv_tensor_data(t), n));
    free(x);
    return t;
}

static fixture begin(const char *settings, uint32_t dtype, int64_t out,
                     int64_t in)
{
    fixture f = {.t = test_context_create(settings), .in = in, .out = out};
    f.w = make_weight(f.t.ctx, dtype, 2, (const int64_t[]){out, in});
    assert_ok(clv_graph_create(&f.g));
    f.n = clv_graph_symbol(f.g, "n", 1, ROWS);
    f.x = clv_graph_input(f.g, "x", CLV_DTYPE_F32, 2,
                          (const clv_dim[]){f.n, clv_dim_fixed(in)});
    f.weight = clv_graph_weight(f.g, "w", f.w);
    f.ids = CLV_NO_TENSOR;
    return f;
}

static void multiply(fixture *f)
{
    f->y = clv_graph_matmul(f->g, f->x, f->weight, CLV_NO_TENSOR);
    clv_graph_output(f->g, f->y, "y");
    assert_ok(clv_graph_check(f->g));
}

static void finish(fixture *f)
{
    clv_graph_destroy(f->g);
    clv_tensor_destroy(f->w);
    test_context_destroy(&f->t);
}

static clv_plan *plan_on(fixture *f, uint32_t device, const core_piece *pieces,
                         uint32_t n)
{
    clv_device *dev = clv_context_device(f->t.ctx, device);
    const clv_plan_params params = {.devices = &dev, .n_devices = 1};
    clv_plan *plan;
    assert_ok(
        pieces ? planner_from_pieces(f->t.ctx, f->g, &params, pieces, n, &plan)
               : clv_plan_create(f->t.ctx, f->g, &params, &plan));
    return plan;
}

/* What ROWS rows give; free(). */
static float *run(const fixture *f, clv_exec *exec)
{
    const int64_t n = ROWS;
    float *x = clv_tensor_data(clv_exec_tensor(exec, f->x));
    for (int64_t i = 0; i < n * f->in; i++)
        x[i] = (float)(i * 5 % 17) / 16 - 0.4f;
    if (f->ids != CLV_NO_TENSOR) {
        int32_t *ids = clv_tensor_data(clv_exec_tensor(exec, f->ids));
        for (int32_t i = 0; i < ROWS; i++)
            ids[i] = (i * 3 + 1) % EXPERTS;
    }
    assert_ok(clv_exec_run(exec, &n, 1));
    const size_t size = (size_t)(n * f->out) * sizeof(float);
    float *out = malloc(size);
    memcpy(out, clv_tensor_data(clv_exec_tensor(exec, f->y)), size);
    return out;
}

/* Weights, or pieces of one, that have the layout; all of these are loaded in
 * it, and only these. */
static uint32_t count_private(const clv_plan *plan)
{
    const clv_graph *g = plan->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        const bool is = g->tensors[load->weight].layout == CLV_LAYOUT_PRIVATE;
        assert_int_equal(load->holding == CORE_HOLD_PRIVATE, is);
        n += is;
    }
    return n;
}

/* Rows, or parts of them, of each block lie last first. */
static void check_object(const clv_tensor *t, const core_object *o)
{
    const core_runs *from = &o->range, all = {.bytes = o->size, .n = 1};
    const uint64_t whole = clv_tensor_size(t);
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        rows *= (uint64_t)t->dims[i];
    const uint64_t row = from->n == 1 ? whole / rows : from->bytes;
    const uint64_t pitch = from->n == 1 ? row : from->pitch;
    const uint8_t *host = (const uint8_t *)t->memory->data + from->offset;
    uint8_t *data = malloc(o->size);
    assert_int_equal(o->size, from->n * from->bytes);
    assert_ok(core_buffer_read(o->buffer, o->offset, &all, data));
    for (uint64_t i = 0; i < o->size / row; i++) {
        const uint64_t at = i / BLOCK * BLOCK + BLOCK - 1 - i % BLOCK;
        assert_memory_equal(data + at * row, host + i * pitch, row);
    }
    free(data);
}

static void check_objects(const clv_tensor *t, uint32_t n_private)
{
    uint32_t n = 0;
    for (const core_object *o = t->objects; o; o = o->next)
        if (o->holding == CORE_HOLD_PRIVATE) {
            check_object(t, o);
            n++;
        }
    assert_int_equal(n, n_private);
}

/* The first device gives what the second does, divided in the same way, with so
 * many weights in the layout. */
static void check_same(fixture *f, const core_piece *pieces, uint32_t n,
                       uint32_t n_private)
{
    float *y[2];
    for (uint32_t i = 0; i < 2; i++) {
        clv_exec *exec;
        clv_plan *plan = plan_on(f, i, pieces, n);
        assert_int_equal(count_private(plan), i ? 0 : n_private);
        assert_ok(clv_exec_create(plan, &exec));
        y[i] = run(f, exec);
        clv_exec_destroy(exec);
        clv_plan_destroy(plan);
    }
    assert_memory_equal(y[0], y[1], (size_t)(ROWS * f->out) * sizeof **y);
    free(y[0]);
    free(y[1]);
}

static void test_granted(void **state)
{
    (void)state;
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        fixture f = begin(OWN, dtypes[i], OUT, IN);
        multiply(&f);
        check_same(&f, NULL, 0, 1);
        finish(&f);
    }
}

static void test_printed(void **state)
{
    (void)state;
    fixture f = begin(OWN, CLV_DTYPE_F16, OUT, IN);
    char *text;
    multiply(&f);
    clv_plan *plan = plan_on(&f, 0, NULL, 0);
    assert_ok(clv_plan_json(plan, &text));
    assert_non_null(strstr(text, "\"how\":\"private\""));
    clv_string_free(text);
    clv_plan_destroy(plan);
    finish(&f);
}

/* Rows pass in parts: 40 MiB of them, and 36 MiB of parts of them, which are
 * more than one takes. */
static void test_parts(void **state)
{
    (void)state;
    const core_piece pieces[] = {{.ranges[CHANNEL] = {0, 2304}},
                                 {.ranges[CHANNEL] = {2304, 2560}}};
    fixture f = begin(OWN, CLV_DTYPE_F32, 4096, 2560);
    multiply(&f);
    for (uint32_t n = 0; n <= 2; n += 2) {
        clv_exec *exec;
        clv_plan *plan = plan_on(&f, 0, n ? pieces : NULL, n);
        assert_ok(clv_exec_create(plan, &exec));
        check_objects(f.w, n ? 2 : 1);
        clv_exec_destroy(exec);
        clv_plan_destroy(plan);
    }
    finish(&f);
}

/* Weights of other dtypes and lengths of rows, each by a program of its own. */
static void test_kinds(void **state)
{
    (void)state;
    fixture f = begin(OWN, CLV_DTYPE_F16, 2 * IN, IN);
    clv_tensor *more[2] = {
        make_weight(f.t.ctx, CLV_DTYPE_F16, 2, (const int64_t[]){IN, 2 * IN}),
        make_weight(f.t.ctx, CLV_DTYPE_Q8_0, 2, (const int64_t[]){OUT, IN})};
    f.y = clv_graph_matmul(f.g, f.x, f.weight, CLV_NO_TENSOR);
    for (int i = 0; i < 2; i++)
        f.y = clv_graph_matmul(f.g, f.y, clv_graph_weight(f.g, "m", more[i]),
                               CLV_NO_TENSOR);
    f.out = OUT;
    clv_graph_output(f.g, f.y, "y");
    assert_ok(clv_graph_check(f.g));
    check_same(&f, NULL, 0, 3);
    clv_graph_destroy(f.g);
    f.g = NULL;
    clv_tensor_destroy(more[0]);
    clv_tensor_destroy(more[1]);
    finish(&f);
}

static void test_experts(void **state)
{
    (void)state;
    fixture f = begin(OWN, CLV_DTYPE_Q8_0, OUT, IN);
    clv_tensor *one = f.w;
    f.w = make_weight(f.t.ctx, CLV_DTYPE_Q8_0, 3,
                      (const int64_t[]){EXPERTS, OUT, IN});
    const clv_dim ids[] = {f.n, clv_dim_fixed(1)};
    f.ids = clv_graph_input(f.g, "ids", CLV_DTYPE_I32, 2, ids);
    f.weight = clv_graph_weight(f.g, "e", f.w);
    f.y = clv_graph_matmul_experts(f.g, f.x, f.weight, f.ids, CLV_NO_TENSOR,
                                   false);
    clv_graph_output(f.g, f.y, "y");
    assert_ok(clv_graph_check(f.g));
    check_same(&f, NULL, 0, 1);
    clv_tensor_destroy(one);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* Pieces                                                                    */

/* Pieces of whole blocks have it, and are rows of less than whole length;
 * others stay as they are. */
static void test_cut(void **state)
{
    (void)state;
    const struct {
        core_piece pieces[3];
        uint32_t n, n_private;
    } cases[] = {
        {{{.ranges[ROW] = {0, 8}}, {.ranges[ROW] = {8, OUT}}}, 2, 2},
        {{{.ranges[ROW] = {0, 9}},
          {.ranges[ROW] = {9, 17}},
          {.ranges[ROW] = {17, OUT}}},
         3,
         1},
        {{{.ranges[CHANNEL] = {0, 32}}, {.ranges[CHANNEL] = {32, IN}}}, 2, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = begin(OWN, CLV_DTYPE_Q8_0, OUT, IN);
        multiply(&f);
        check_same(&f, cases[i].pieces, cases[i].n, cases[i].n_private);
        finish(&f);
    }
}

/* What the plan of both devices gives, with so many copies in the layout, is
 * what the first one alone gives. */
static void check_both(fixture *f, const core_piece *pieces, uint32_t n,
                       uint32_t n_private)
{
    clv_device *devices[] = {clv_context_device(f->t.ctx, 0),
                             clv_context_device(f->t.ctx, 1)};
    const clv_plan_params params = {.devices = devices, .n_devices = 2};
    clv_plan *plans[2];
    float *y[2];
    plans[0] = plan_on(f, 0, NULL, 0);
    assert_ok(
        planner_from_pieces(f->t.ctx, f->g, &params, pieces, n, &plans[1]));
    assert_int_equal(count_private(plans[1]), n_private);
    for (uint32_t i = 0; i < 2; i++) {
        clv_exec *exec;
        assert_ok(clv_exec_create(plans[i], &exec));
        y[i] = run(f, exec);
        if (i)
            check_objects(f->w, n_private);
        clv_exec_destroy(exec);
    }
    assert_memory_equal(y[0], y[1], (size_t)(ROWS * f->out) * sizeof **y);
    for (uint32_t i = 0; i < 2; i++) {
        clv_plan_destroy(plans[i]);
        free(y[i]);
    }
}

/* Each device has its own copy of a weight that several read whole, if all of
 * them want it in a layout of their own. */
static void test_two_devices(void **state)
{
    (void)state;
    const core_piece pieces[] = {{.node = 0},
                                 {.node = 1, .device = 1},
                                 {.node = 2, .device = 1},
                                 {.node = 3}};
    static const char *const settings[] = {
        OWN " ref.memory1=local,coherent ref.weights1=private",
        OWN " ref.memory1=local,coherent", OWN " ref.weights1=private"};
    for (uint32_t i = 0; i < 3; i++) {
        fixture f = begin(settings[i], CLV_DTYPE_Q8_0, OUT, IN);
        const clv_value first =
            clv_graph_matmul(f.g, f.x, f.weight, CLV_NO_TENSOR);
        const clv_value second = clv_graph_matmul(
            f.g, clv_graph_add(f.g, f.x, f.x), f.weight, CLV_NO_TENSOR);
        f.y = clv_graph_add(f.g, first, second);
        clv_graph_output(f.g, f.y, "y");
        assert_ok(clv_graph_check(f.g));
        check_both(&f, pieces, 4, i ? 0 : 2);
        finish(&f);
    }
}

/* What comes to the device in each run stays as it is. */
static void test_streamed(void **state)
{
    (void)state;
    const core_piece piece = {.streamed = 1};
    fixture f = begin(OWN " ref.copy_queues0=1 ref.memory1=local,coherent "
                          "ref.copy_queues1=1",
                      CLV_DTYPE_F16, OUT, IN);
    multiply(&f);
    clv_plan *plan = plan_on(&f, 0, &piece, 1);
    assert_true(plan->loads[0].streamed);
    clv_plan_destroy(plan);
    check_same(&f, &piece, 1, 0);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* Not granted                                                               */

static void check_linear(const char *settings, int64_t out)
{
    fixture f = begin(settings, CLV_DTYPE_F16, out, IN);
    multiply(&f);
    check_same(&f, NULL, 0, 0);
    finish(&f);
}

/* There is no memory of its own; the device says no once it is asked; nobody
 * there asks; the rows are no whole blocks. */
static void test_not_granted(void **state)
{
    (void)state;
    check_linear("ref.weights0=private ref.memory0=coherent", OUT);
    check_linear("ref.weights0=fickle ref.memory0=local,coherent", OUT);
    check_linear("ref.weights0=linear ref.memory0=local,coherent", OUT);
    check_linear(OWN, OUT + 1);
}

/* Another node reads the rows as they are. */
static void test_other_readers(void **state)
{
    (void)state;
    fixture f = begin(OWN, CLV_DTYPE_F32, IN, IN);
    f.ids = clv_graph_input(f.g, "ids", CLV_DTYPE_I32, 1, &f.n);
    clv_value rows = clv_graph_get_rows(f.g, f.weight, f.ids);
    f.y = clv_graph_matmul(f.g, clv_graph_add(f.g, f.x, rows), f.weight,
                           CLV_NO_TENSOR);
    clv_graph_output(f.g, f.y, "y");
    assert_ok(clv_graph_check(f.g));
    check_same(&f, NULL, 0, 0);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* Memory                                                                    */

/* Two plans work with one copy, which goes with the last of them. */
static void test_shared(void **state)
{
    (void)state;
    fixture f = begin(OWN, CLV_DTYPE_F16, OUT, IN);
    clv_plan *plans[2];
    clv_exec *execs[2];
    float *y[2];
    multiply(&f);
    for (int i = 0; i < 2; i++) {
        plans[i] = plan_on(&f, 0, NULL, 0);
        assert_ok(clv_exec_create(plans[i], &execs[i]));
        y[i] = run(&f, execs[i]);
    }
    const core_object *o = f.w->objects;
    check_objects(f.w, 1);
    assert_null(o->next);
    assert_int_equal(o->users, 2);
    assert_memory_equal(y[0], y[1], OUT * ROWS * sizeof **y);
    const clv_memory_use use =
        clv_plans_memory((const clv_plan *const *)plans, 2, NULL,
                         clv_context_device(f.t.ctx, 0));
    assert_int_equal(use.weights, clv_tensor_size(f.w));
    for (int i = 0; i < 2; i++) {
        clv_exec_destroy(execs[i]);
        clv_plan_destroy(plans[i]);
        free(y[i]);
    }
    finish(&f);
}

typedef struct loading {
    fixture f;
    clv_plan *plan;
} loading;

/* Makes the copy, and all that it takes. */
static clv_status load(void *arg)
{
    const loading *l = arg;
    clv_exec *exec;
    const clv_status status = clv_exec_create(l->plan, &exec);
    if (!status)
        clv_exec_destroy(exec);
    return status;
}

/* What fails leaves nothing that the next one would use. */
static void test_no_memory(void **state)
{
    (void)state;
    loading l = {.f = begin(OWN, CLV_DTYPE_Q8_0, OUT, IN)};
    multiply(&l.f);
    l.plan = plan_on(&l.f, 0, NULL, 0);
    test_allocations(load, &l);
    clv_plan_destroy(l.plan);
    check_same(&l.f, NULL, 0, 1);
    finish(&l.f);
}

/* The program is kept for the next weight while the staging is held. */
static void test_kept(void **state)
{
    (void)state;
    fixture f = begin(OWN, CLV_DTYPE_F16, OUT, IN);
    clv_device *dev = clv_context_device(f.t.ctx, 0);
    const core_runs all = core_tensor_whole(f.w);
    for (int held = 0; held < 2; held++) {
        core_buffer *buf;
        if (held)
            core_device_hold_staging(dev, all.bytes);
        assert_ok(core_device_relayout(dev, CLV_DTYPE_F16, IN, &all,
                                       clv_tensor_data(f.w), &buf));
        assert_int_equal(dev->relayout != NULL, held);
        core_buffer_free(buf);
        if (held)
            core_device_release_staging(dev);
        assert_null(dev->relayout);
    }
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_granted),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_not_granted),
        cmocka_unit_test(test_other_readers),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
