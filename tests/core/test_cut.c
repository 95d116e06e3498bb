/*
 * Cutting: a layer of a transformer divided at random over two and three
 * devices gives what one device gives, and pieces that are no division of a
 * node are refused. With the argument "gpu": over devices of the GPU plugins
 * and the CPU.
 */
#include "../plugins/ref/context.h"

#include "../../core/device/device.h"
#include "../../core/device/memory.h"
#include "../../planner/planner.h"
#include "../../tools/views/views.h"

#include "divide.h"
#include "drivers.h"
#include "message.h"

#include <math.h>

#define HIDDEN 64
#define HEADS 4
#define GROUPS 2
#define HEAD_DIM 16
#define FFN 96
#define EXPERTS 5
#define EXPERT_FFN 32
#define USED 2
#define VOCABULARY 40
#define CONTEXT 24
#define MAX_TOKENS 9
#define MAX_PIECES 600

/* Bounds of results: sums in another order, now and then on the other side of a
 * rounding to the cache's f16; and activations that a device rounds to 8 bits
 * for its products. */
#define EXACT 1e-8
#define ROUNDED 1e-3

typedef struct layer {
    clv_graph *graph;
    clv_tensor *weights[32];
    uint32_t n_weights;
    clv_tensor *k, *v;
    clv_value ids, pos, chosen, k_state, v_state, logits;
    int64_t tokens; /* fixed, or 0: a symbol */
} layer;

static clv_value weight(layer *l, clv_context *ctx, test_random *r,
                        uint32_t dtype, int64_t rows, int64_t columns)
{
    const int64_t dims[] = {rows ? rows : columns, columns};
    clv_tensor *t;
    assert_ok(clv_tensor_create(ctx, dtype, rows ? 2 : 1, dims, &t));
    uint64_t n = (uint64_t)(rows ? rows * columns : columns);
    float *x = malloc(n * sizeof *x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = rows ? test_float(r) / 4 : 1 + test_float(r) / 8;
    assert_ok(clv_dtype_from_f32(dtype, x, clv_tensor_data(t), n));
    free(x);
    l->weights[l->n_weights++] = t;
    return clv_graph_weight(l->graph, "w", t);
}

/* Integers with scales beside them. */
static clv_value scaled(layer *l, clv_context *ctx, test_random *r,
                        uint32_t dtype, uint32_t quant, int64_t rows,
                        int64_t columns)
{
    enum { GROUP = 16 };
    const bool grouped = quant == CLV_QUANT_PER_GROUP;
    const int64_t dims[] = {rows, columns};
    const int64_t shape[] = {quant == CLV_QUANT_PER_TENSOR ? 1 : rows,
                             columns / GROUP};
    clv_tensor *q, *scales;
    assert_ok(clv_tensor_create(ctx, dtype, 2, dims, &q));
    assert_ok(
        clv_tensor_create(ctx, CLV_DTYPE_F32, grouped ? 2 : 1, shape, &scales));
    uint8_t *bytes = clv_tensor_data(q);
    for (uint64_t i = 0; i < clv_tensor_size(q); i++)
        bytes[i] = (uint8_t)test_bits(r);
    float *d = clv_tensor_data(scales);
    for (uint64_t i = 0; i < clv_tensor_size(scales) / sizeof *d; i++)
        d[i] = (1.5f + test_float(r)) / (dtype == CLV_DTYPE_I4 ? 32 : 512);
    assert_ok(clv_tensor_set_quant(q, quant, grouped ? GROUP : 0, scales));
    l->weights[l->n_weights++] = q;
    l->weights[l->n_weights++] = scales;
    return clv_graph_weight(l->graph, "q", q);
}

static clv_value matmul(layer *l, clv_context *ctx, test_random *r, clv_value x,
                        int64_t out, int64_t in, bool bias)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_Q8_0};
    const uint32_t kind = test_below(r, 9);
    clv_value w =
        kind < 3 ? weight(l, ctx, r, dtypes[kind], out, in)
                 : scaled(l, ctx, r, kind % 2 ? CLV_DTYPE_I8 : CLV_DTYPE_I4,
                          CLV_QUANT_PER_TENSOR + (kind - 3) / 2, out, in);
    clv_value b =
        bias ? weight(l, ctx, r, CLV_DTYPE_F32, 0, out) : CLV_NO_TENSOR;
    return clv_graph_matmul(l->graph, x, w, b);
}

/* Of experts [EXPERTS,rows,columns]. */
static clv_value expert_weight(layer *l, clv_context *ctx, test_random *r,
                               int64_t rows, int64_t columns)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_Q8_0};
    const uint32_t dtype = dtypes[test_below(r, 3)];
    const int64_t dims[] = {EXPERTS, rows, columns};
    clv_tensor *t;
    assert_ok(clv_tensor_create(ctx, dtype, 3, dims, &t));
    const uint64_t n = (uint64_t)(EXPERTS * rows * columns);
    float *x = malloc(n * sizeof *x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = test_float(r) / 4;
    assert_ok(clv_dtype_from_f32(dtype, x, clv_tensor_data(t), n));
    free(x);
    l->weights[l->n_weights++] = t;
    return clv_graph_weight(l->graph, "e", t);
}

/* A feed-forward of experts. Which ones is given: where activations are rounded
 * others would be chosen now and then. */
static clv_value experts(layer *l, clv_context *ctx, test_random *r,
                         clv_value x)
{
    clv_graph *g = l->graph;
    const bool normalised = test_below(r, 2);
    clv_value scores = clv_graph_softmax(
        g, clv_graph_matmul(g, x,
                            weight(l, ctx, r, CLV_DTYPE_F32, EXPERTS, HIDDEN),
                            CLV_NO_TENSOR));
    clv_value ids = l->chosen;
    clv_value gate = clv_graph_matmul_experts(
        g, x, expert_weight(l, ctx, r, EXPERT_FFN, HIDDEN), ids, CLV_NO_TENSOR,
        false);
    clv_value up = clv_graph_matmul_experts(
        g, x, expert_weight(l, ctx, r, EXPERT_FFN, HIDDEN), ids, CLV_NO_TENSOR,
        false);
    clv_value mid = clv_graph_glu(g, gate, up, CLV_ACT_SILU);
    return clv_graph_matmul_experts(
        g, mid, expert_weight(l, ctx, r, HIDDEN, EXPERT_FFN), ids, scores,
        normalised);
}

static clv_value attend(layer *l, clv_context *ctx, test_random *r, clv_value x,
                        clv_dim rows)
{
    clv_graph *g = l->graph;
    clv_tensor *freq;
    assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, 1,
                                (const int64_t[]){HEAD_DIM / 2}, &freq));
    for (int i = 0; i < HEAD_DIM / 2; i++)
        ((float *)clv_tensor_data(freq))[i] = powf(100, -(float)i / 8);
    l->weights[l->n_weights++] = freq;
    clv_value f = clv_graph_weight(g, "freq", freq);
    clv_value q = matmul(l, ctx, r, x, HEADS * HEAD_DIM, HIDDEN, true);
    clv_value k = matmul(l, ctx, r, x, GROUPS * HEAD_DIM, HIDDEN, false);
    clv_value v = matmul(l, ctx, r, x, GROUPS * HEAD_DIM, HIDDEN, true);
    q = clv_graph_rope(g, q, l->pos, f, CLV_ROPE_HALVES, HEAD_DIM, 0);
    k = clv_graph_rope(g, k, l->pos, f, CLV_ROPE_HALVES, HEAD_DIM, 0);
    clv_graph_set_rows(g, l->k_state, k, l->pos);
    clv_graph_set_rows(g, l->v_state, v, l->pos);
    const clv_attention_params params = {.head_dim = HEAD_DIM, .rows = rows};
    clv_value y =
        clv_graph_attention(g, q, l->k_state, l->v_state, l->pos, &params);
    return matmul(l, ctx, r, y, HIDDEN, HEADS * HEAD_DIM, false);
}

static void release(void *memory)
{
    free(memory);
}

/* Not where memory begins that devices import. */
static clv_tensor *cache(clv_context *ctx, const int64_t *dims)
{
    enum { PAGE = 4096, BEGIN = 192 };
    const uint64_t size = (uint64_t)(dims[0] * dims[1]) * 2;
    void *memory = NULL;
    clv_tensor *t;
    assert_int_equal(posix_memalign(&memory, PAGE, size + PAGE), 0);
    memset(memory, 0, size + PAGE);
    assert_ok(clv_tensor_wrap(
        ctx, CLV_DTYPE_F16, 2, dims, (char *)memory + BEGIN, size,
        CLV_ACCESS_READ | CLV_ACCESS_WRITE, release, memory, &t));
    return t;
}

static void build(layer *l, clv_context *ctx, test_random *r, int64_t tokens)
{
    *l = (layer){.tokens = tokens};
    assert_ok(clv_graph_create(&l->graph));
    clv_graph *g = l->graph;
    clv_dim n = tokens ? clv_dim_fixed(tokens)
                       : clv_graph_symbol(g, "n", 1, MAX_TOKENS);
    clv_dim rows = clv_graph_symbol(g, "rows", 1, CONTEXT);
    const int64_t dims[] = {CONTEXT, GROUPS * HEAD_DIM};
    l->k = cache(ctx, dims);
    l->v = cache(ctx, dims);
    l->ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    l->pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
    const clv_dim chosen[] = {n, clv_dim_fixed(USED)};
    l->chosen = clv_graph_input(g, "chosen", CLV_DTYPE_I32, 2, chosen);
    l->k_state = clv_graph_state(g, "k", CLV_DTYPE_F16, 2, dims);
    l->v_state = clv_graph_state(g, "v", CLV_DTYPE_F16, 2, dims);
    clv_value table = test_below(r, 2)
                          ? weight(l, ctx, r, CLV_DTYPE_F32, VOCABULARY, HIDDEN)
                          : scaled(l, ctx, r, CLV_DTYPE_I8,
                                   CLV_QUANT_PER_TENSOR + test_below(r, 3),
                                   VOCABULARY, HIDDEN);
    clv_value x = clv_graph_get_rows(g, table, l->ids);
    clv_value norm = weight(l, ctx, r, CLV_DTYPE_F32, 0, HIDDEN);
    clv_value h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    x = clv_graph_add(g, x, attend(l, ctx, r, h, rows));
    h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    clv_value gate = matmul(l, ctx, r, h, FFN, HIDDEN, false);
    clv_value up = matmul(l, ctx, r, h, FFN, HIDDEN, true);
    h = clv_graph_glu(g, gate, up, CLV_ACT_SILU);
    h = matmul(l, ctx, r, h, HIDDEN, FFN, true);
    x = clv_graph_add(g, x, h);
    h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    x = clv_graph_add(g, x, experts(l, ctx, r, h));
    l->logits = clv_graph_matmul(g, x, table, CLV_NO_TENSOR);
    clv_graph_output(g, l->logits, "logits");
    assert_ok(clv_graph_check(g));
}

static void layer_free(layer *l)
{
    clv_graph_destroy(l->graph);
    for (uint32_t i = 0; i < l->n_weights; i++)
        clv_tensor_destroy(l->weights[i]);
    clv_tensor_destroy(l->k);
    clv_tensor_destroy(l->v);
}

typedef struct results {
    float logits[2][MAX_TOKENS * VOCABULARY];
} results;

/* A prefill and, where the number of tokens may differ, a second one. */
static void run(layer *l, clv_plan *plan, results *out)
{
    clv_exec *exec;
    int64_t n = l->tokens ? l->tokens : 5;
    assert_ok(clv_exec_create(plan, &exec));
    memset(clv_tensor_data(l->k), 0, clv_tensor_size(l->k));
    memset(clv_tensor_data(l->v), 0, clv_tensor_size(l->v));
    assert_ok(clv_exec_bind(exec, l->k_state, l->k));
    assert_ok(clv_exec_bind(exec, l->v_state, l->v));
    int32_t *ids = clv_tensor_data(clv_exec_tensor(exec, l->ids));
    int32_t *pos = clv_tensor_data(clv_exec_tensor(exec, l->pos));
    int32_t *chosen = clv_tensor_data(clv_exec_tensor(exec, l->chosen));
    int64_t at = 0;
    for (int i = 0; i < 2; i++) {
        for (int64_t j = 0; j < n; j++) {
            ids[j] = (int32_t)((at + j) * 7 % VOCABULARY);
            pos[j] = (int32_t)(at + j);
            for (int k = 0; k < USED; k++)
                chosen[j * USED + k] =
                    (int32_t)((at + j) * 3 + k * (1 + j % 4)) % EXPERTS;
        }
        at += n;
        const int64_t symbols[] = {n, at}, fixed[] = {at};
        assert_ok(
            clv_exec_run(exec, l->tokens ? fixed : symbols, l->tokens ? 1 : 2));
        memcpy(out->logits[i],
               clv_tensor_data(clv_exec_tensor(exec, l->logits)),
               (size_t)n * VOCABULARY * sizeof(float));
    }
    clv_exec_destroy(exec);
}

static void assert_same(const layer *l, const results *a, const results *b,
                        double bound)
{
    int64_t n = l->tokens ? l->tokens : 5;
    double square = 0, difference = 0;
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; j < n * VOCABULARY; j++) {
            double x = (double)a->logits[i][j], y = (double)b->logits[i][j];
            square += x * x;
            difference += (x - y) * (x - y);
        }
    if (!(difference <= bound * square) || square == 0)
        fail_msg("results differ by %g of %g", difference, square);
}

/* Now and then a node of experts is divided as the one before was, so that one
 * reads what the other leaves it. Returns the number of pieces. */
static uint32_t divide_alike(const clv_graph *g, test_random *r, uint32_t node,
                             uint32_t n_devices, core_piece *pieces, uint32_t n)
{
    uint32_t first = n;
    while (first && pieces[first - 1].node == node - 1)
        first--;
    const bool alike = node && core_cut_extent(g, node, CORE_AXIS_EXPERTS) &&
                       core_cut_extent(g, node - 1, CORE_AXIS_EXPERTS) &&
                       !pieces[first].ranges[CORE_AXIS_ROWS].end &&
                       test_below(r, 4);
    if (!alike)
        return test_divide(g, r, node, n_devices, &pieces[n]);
    for (uint32_t i = 0; i < n - first; i++) {
        pieces[n + i] = pieces[first + i];
        pieces[n + i].node = node;
        if (test_below(r, 4) == 0)
            pieces[n + i].device = test_below(r, n_devices);
    }
    return n - first;
}

/* Some pieces of devices with memory of their own are sent their weights in
 * each run. */
static void stream_some(test_random *r, clv_device *const *devices,
                        core_piece *pieces, uint32_t n)
{
    const uint32_t part = test_below(r, 3); /* none, half or all */
    uint32_t type;
    for (uint32_t i = 0; i < n; i++)
        pieces[i].streamed =
            core_device_has_local(devices[pieces[i].device], &type) &&
            test_below(r, 2) < part;
}

/* Copies of a device that cannot import the host's memory, from and to memory
 * that both see. */
static uint32_t count_direct(const clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_copy *copy = &plan->copies[i];
        n += plan->devices[plan->parts[copy->part].device].staged &&
             !copy->staged && !copy->streams;
    }
    return n;
}

/* Copies of parts of streamed weights, which no node reads by themselves. */
static uint32_t count_divided(const clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_part *part = &plan->parts[plan->copies[i].part];
        const clv_value to = plan->graph->nodes[part->node].outputs[0];
        bool read = !plan->copies[i].streams;
        for (uint32_t p = 0; p < plan->n_parts && !read; p++) {
            const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
            for (uint32_t j = 0; j < node->n_inputs; j++)
                read |= node->inputs[j] == to;
        }
        n += !read;
    }
    return n;
}

static uint32_t direct, divided; /* of all plans of try_plans() */

/* Random plans of one layer; returns how many could be had. bound: of the
 * normalised mean square error. */
static uint32_t try_plans(const test_context *t, test_random *r, int64_t tokens,
                          double bound, int count)
{
    layer l;
    results want, got;
    clv_plan *plan;
    uint32_t n_devices = clv_context_device_count(t->ctx);
    clv_device *devices[4];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < n_devices; i++) {
        devices[i] = clv_context_device(t->ctx, i);
        /* So little that few of the streamed weights are there at once. */
        if (test_below(r, 2))
            devices[i]->info.memory_size = 1 << 20;
    }
    const clv_plan_params one = {.devices = devices, .n_devices = 1},
                          all = {.devices = devices, .n_devices = n_devices};
    build(&l, t->ctx, r, tokens);
    assert_ok(clv_plan_create(t->ctx, l.graph, &one, &plan));
    run(&l, plan, &want);
    clv_plan_destroy(plan);
    for (int i = 0; i < count; i++) {
        core_piece pieces[MAX_PIECES];
        uint32_t n = 0;
        for (uint32_t node = 0; node < l.graph->n_nodes; node++)
            n += divide_alike(l.graph, r, node, n_devices, pieces, n);
        stream_some(r, devices, pieces, n);
        clv_status status =
            planner_from_pieces(t->ctx, l.graph, &all, pieces, n, &plan);
        if (status == CLV_ERR_UNSUPPORTED) {
            assert_message("does not take its piece");
            continue;
        }
        assert_ok(status);
        direct += count_direct(plan);
        divided += count_divided(plan);
        run(&l, plan, &got);
        assert_same(&l, &want, &got, bound);
        clv_plan_destroy(plan);
        taken++;
    }
    layer_free(&l);
    return taken;
}

static void test_two_devices(void **state)
{
    (void)state;
    test_random r = {41};
    test_context t = test_context_create("");
    for (int64_t tokens = 1; tokens <= MAX_TOKENS; tokens += 4)
        assert_int_equal(try_plans(&t, &r, tokens, EXACT, 25), 25);
    assert_int_equal(try_plans(&t, &r, 0, EXACT, 25), 25);
    test_context_destroy(&t);
}

/* Devices that wait for each other without the host, run late and hide what
 * they need not show. */
static void test_two_that_wait(void **state)
{
    (void)state;
    test_random r = {43};
    test_context t = test_context_create(
        "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us0=100 ref.hide0=on "
        "ref.hide1=on ref.in_place0=on");
    assert_int_equal(try_plans(&t, &r, 7, EXACT, 15), 15);
    test_context_destroy(&t);
}

/* Devices with memory of their own, which copy from and to the host's memory by
 * themselves (coherent) or through a buffer (shadow, no import). */
static void test_memories(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "ref.memory0=local,coherent",
        "ref.memory1=local,coherent ref.in_place1=on",
        "ref.memory1=local,coherent ref.copy_queues1=1",
        "ref.memory1=local,shadow ref.import1=off ref.flag_wait0=on",
        "ref.memory0=local,shadow ref.memory1=local,coherent "
        "ref.flag_wait1=on ref.hide0=on ref.delay_us0=50",
        "ref.memory0=local,shadow ref.import0=off ref.in_place0=on "
        "ref.memory1=local,shadow ref.import1=off ref.hide1=on "
        "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us1=50",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        test_random r = {47 + i};
        test_context t = test_context_create(settings[i]);
        assert_true(try_plans(&t, &r, 7, EXACT, 12) >= 10);
        assert_true(try_plans(&t, &r, 1, EXACT, 12) >= 10);
        assert_true(try_plans(&t, &r, 0, EXACT, 12) >= 10);
        test_context_destroy(&t);
        t = test_context_make(settings[i], true);
        assert_true(try_plans(&t, &r, 7, ROUNDED, 15) >= 10);
        assert_true(try_plans(&t, &r, 0, ROUNDED, 15) >= 10);
        test_context_destroy(&t);
    }
    assert_true(divided > 0);
}

static void test_with_cpu(void **state)
{
    (void)state;
    test_random r = {45};
    test_context t = test_context_make("ref.flag_wait1=on", true);
    assert_true(try_plans(&t, &r, 7, ROUNDED, 40) >= 30);
    assert_true(try_plans(&t, &r, 0, ROUNDED, 20) >= 15);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Over what drives GPUs                                                     */

static char opencl[TEST_DEVICE_ID], vulkan[TEST_DEVICE_ID];

/* setting: one more, or "". */
static test_context gpu_context(const char *devices, const char *setting)
{
    test_context t;
    char text[4096];
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_ok(clv_config_create(&t.config));
    const char *const words[] = {"core.plugins=cpu,opencl,vulkan",
                                 "core.allow_unsafe_plugins=on",
                                 "core.plan=first", setting};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (*words[i])
            assert_ok(clv_config_set(t.config, words[i], "test"));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins", build);
    assert_ok(clv_config_set(t.config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s/tests/core", build);
    assert_ok(clv_config_set(t.config, text, "test"));
    snprintf(text, sizeof text, "core.devices=%s", devices);
    assert_ok(clv_config_set(t.config, text, "test"));
    assert_ok(
        clv_context_create(&(clv_context_params){.config = t.config}, &t.ctx));
    return t;
}

/* The same layers each time, and OpenCL for the same parts, as their kernels
 * need to be compiled. */
static void try_gpus(const char *a, const char *b, const char *setting)
{
    char devices[2 * TEST_DEVICE_ID + 2];
    test_random r = {61};
    snprintf(devices, sizeof devices, "%s,%s", a, b);
    test_context t = gpu_context(devices, setting);
    assert_int_equal(clv_context_device_count(t.ctx), 2);
    direct = 0;
    assert_int_equal(try_plans(&t, &r, 7, ROUNDED, 3), 3);
    assert_int_equal(try_plans(&t, &r, 0, ROUNDED, 3), 3);
    /* Values between devices are not staged; others have no staging. */
    assert_int_equal(direct > 0, *setting != 0);
    test_context_destroy(&t);
}

static void test_gpus_with_cpu(void **state)
{
    (void)state;
    try_gpus("cpu", opencl, "");
    try_gpus("cpu", opencl, "opencl.memory=separate");
    try_gpus("cpu", vulkan, "");
}

static void test_gpus(void **state)
{
    (void)state;
    try_gpus(vulkan, opencl, "");
    try_gpus(vulkan, opencl, "opencl.memory=separate");
}

static int run_gpu_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpus_with_cpu),
        cmocka_unit_test(test_gpus),
    };
    test_find_driver("opencl", opencl);
    test_find_driver("vulkan", vulkan);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ------------------------------------------------------------------------ */
/* What is refused                                                           */

/* ------------------------------------------------------------------------ */
/* Slices                                                                    */

typedef struct chain {
    test_context t;
    layer l;
    core_piece pieces[16];
    uint32_t n;
} chain;

/* Gate, up, GLU and down of experts: nodes 0 to 3. */
static void chain_setup(chain *c, bool is_output)
{
    test_random r = {5};
    const clv_dim x[] = {clv_dim_fixed(3), clv_dim_fixed(HIDDEN)};
    const clv_dim ids[] = {x[0], clv_dim_fixed(USED)};
    const clv_dim scores[] = {x[0], clv_dim_fixed(EXPERTS)};
    *c = (chain){.t = test_context_create("")};
    layer *l = &c->l;
    assert_ok(clv_graph_create(&l->graph));
    clv_graph *g = l->graph;
    clv_value in = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, x);
    clv_value chosen = clv_graph_input(g, "ids", CLV_DTYPE_I32, 2, ids);
    clv_value s = clv_graph_input(g, "scores", CLV_DTYPE_F32, 2, scores);
    clv_value two[2];
    for (int i = 0; i < 2; i++)
        two[i] = clv_graph_matmul_experts(
            g, in, expert_weight(l, c->t.ctx, &r, FFN, HIDDEN), chosen,
            CLV_NO_TENSOR, false);
    clv_value mid = clv_graph_glu(g, two[0], two[1], CLV_ACT_SILU);
    if (is_output)
        clv_graph_output(g, mid, "mid");
    clv_value y = clv_graph_matmul_experts(
        g, mid, expert_weight(l, c->t.ctx, &r, HIDDEN, FFN), chosen, s, true);
    clv_graph_output(g, y, "y");
    assert_ok(clv_graph_check(g));
    c->n = 0;
}

static void chain_free(chain *c)
{
    layer *l = &c->l;
    clv_graph_destroy(l->graph);
    for (uint32_t i = 0; i < l->n_weights; i++)
        clv_tensor_destroy(l->weights[i]);
    test_context_destroy(&c->t);
}

/* A node in two parts, of experts before and after a point; 0: whole. */
static void divide_at(chain *c, uint32_t node, int64_t point)
{
    for (uint32_t i = 0; i < (point ? 2 : 1); i++) {
        core_piece *p = &c->pieces[c->n++];
        *p = (core_piece){.node = node, .device = i};
        if (point)
            p->ranges[CORE_AXIS_EXPERTS] =
                i ? (core_range){point, EXPERTS} : (core_range){0, point};
    }
}

static uint32_t count_sums(const core_cut *cut)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < cut->graph->n_nodes; i++)
        n += cut->graph->nodes[i].op == CLV_OP_ADD;
    return n;
}

/* Sums in a cut at these points. */
static uint32_t sums_of(bool is_output, const int64_t points[4])
{
    chain c;
    core_cut cut;
    chain_setup(&c, is_output);
    for (uint32_t i = 0; i < 4; i++)
        divide_at(&c, i, points[i]);
    assert_ok(core_cut_make(c.l.graph, c.pieces, c.n, &cut));
    const uint32_t n = count_sums(&cut);
    core_cut_finish(&cut);
    chain_free(&c);
    return n;
}

/* Only the products with scores are added, unless somebody needs what the
 * pieces of a node make together. */
static void test_slices(void **state)
{
    (void)state;
    const struct {
        int64_t points[4];
        bool is_output;
        uint32_t sums;
    } cases[] = {
        {{2, 2, 2, 2}, false, 1}, {{2, 2, 2, 2}, true, 2},
        {{2, 2, 2, 0}, false, 1}, /* of GLU */
        {{2, 2, 0, 0}, false, 2}, /* of gate and of up */
        {{2, 2, 0, 2}, false, 3}, /* gate, up and down */
        {{2, 3, 2, 2}, false, 3}, /* GLU computes all of it twice */
        {{0, 0, 2, 2}, true, 1},  {{2, 2, 3, 3}, false, 3},
        {{0, 0, 0, 2}, false, 1}, {{2, 2, 2, 3}, false, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sums_of(cases[i].is_output, cases[i].points),
                         cases[i].sums);
}

#define ROW CORE_AXIS_ROWS
#define CHANNEL CORE_AXIS_CHANNELS

static void refuse(layer *l, const core_piece *pieces, uint32_t n,
                   const char *parts)
{
    core_cut cut;
    assert_int_equal(core_cut_make(l->graph, pieces, n, &cut), CLV_ERR_INVALID);
    assert_message(parts);
    assert_null(cut.graph);
}

static void test_refused(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    clv_graph *g;
    clv_tensor *w;
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_Q8_0, 2,
                                (const int64_t[]){12, 64}, &w));
    assert_ok(clv_graph_create(&g));
    const clv_dim dims[] = {clv_graph_symbol(g, "n", 1, 8), clv_dim_fixed(64)};
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, dims);
    clv_value y =
        clv_graph_matmul(g, x, clv_graph_weight(g, "w", w), CLV_NO_TENSOR);
    clv_graph_output(g, y, "y");
    layer l = {.graph = g};
    assert_int_equal(core_cut_extent(g, 0, ROW), 12);
    assert_int_equal(core_cut_extent(g, 0, CORE_AXIS_SEQUENCE), 0);
    assert_int_equal(core_cut_extent(g, 0, CORE_AXIS_HEADS), 0);
    assert_int_equal(core_cut_granule(g, 0, CHANNEL), 32);
#define PIECE(axis, b, e)                                                      \
    {                                                                          \
        .ranges = { [axis] = {b, e} }                                          \
    }
#define REFUSE(parts, ...)                                                     \
    refuse(&l, (const core_piece[]){__VA_ARGS__},                              \
           sizeof((const core_piece[]){__VA_ARGS__}) / sizeof(core_piece),     \
           parts)
    REFUSE("gap", PIECE(ROW, 0, 4), PIECE(ROW, 5, 12));
    REFUSE("gap", PIECE(ROW, 0, 4));
    REFUSE("overlap", PIECE(ROW, 0, 7), PIECE(ROW, 6, 12));
    REFUSE("overlap", PIECE(ROW, 0, 12), PIECE(ROW, 0, 12));
    REFUSE("no range of its rows|12", PIECE(ROW, 0, 6), PIECE(ROW, 6, 13));
    REFUSE("no range of its rows", PIECE(ROW, -1, 6), PIECE(ROW, 6, 12));
    REFUSE("no range of its rows", PIECE(ROW, 6, 6), PIECE(ROW, 0, 12));
    REFUSE("channels|steps of 32", PIECE(CHANNEL, 0, 16),
           PIECE(CHANNEL, 16, 64));
    REFUSE("no range of its sequence", PIECE(CORE_AXIS_SEQUENCE, 0, 4),
           PIECE(CORE_AXIS_SEQUENCE, 4, 8));
    REFUSE("no range of its heads", PIECE(CORE_AXIS_HEADS, 0, 1));
    REFUSE("partial sums", {.ranges = {[ROW] = {0, 6}, [CHANNEL] = {0, 32}}},
           {.ranges = {[ROW] = {6, 12}, [CHANNEL] = {0, 32}}},
           {.ranges = {[CHANNEL] = {32, 64}}});
    core_piece other = {.node = 3};
    refuse(&l, &other, 1, "missing");

    const core_piece good[] = {PIECE(ROW, 0, 5), PIECE(ROW, 5, 12)};
    clv_plan *plan;
    const core_piece stray[] = {{.device = 2}};
    assert_int_equal(planner_from_pieces(t.ctx, g, NULL, stray, 1, &plan),
                     CLV_ERR_INVALID);
    assert_null(plan);
    assert_ok(planner_from_pieces(t.ctx, g, NULL, good, 2, &plan));
    char *text;
    assert_ok(view_plan(plan, "md", &text));
    assert_non_null(strstr(text, "rows 5..12"));
    clv_string_free(text);
    assert_ok(clv_plan_json(plan, &text));
    assert_non_null(strstr(text, "\"rows\":[5,12]"));
    clv_string_free(text);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    clv_tensor_destroy(w);
    test_context_destroy(&t);
}

/* Pieces of one node on two devices do not wait for each other. */
static void test_side_by_side(void **state)
{
    (void)state;
    test_random r = {49};
    test_context t = test_context_create("");
    layer l;
    clv_plan *plan;
    build(&l, t.ctx, &r, 4);
    core_piece pieces[MAX_PIECES];
    uint32_t n = 0;
    for (uint32_t node = 0; node < l.graph->n_nodes; node++) {
        int64_t rows = core_cut_extent(l.graph, node, ROW);
        bool cut = l.graph->nodes[node].op == CLV_OP_MATMUL;
        pieces[n++] = (core_piece){.node = node};
        if (!cut)
            continue;
        pieces[n - 1].ranges[ROW] = (core_range){0, rows / 2};
        pieces[n] = (core_piece){.node = node, .device = 1};
        pieces[n++].ranges[ROW] = (core_range){rows / 2, rows};
    }
    assert_ok(planner_from_pieces(t.ctx, l.graph, NULL, pieces, n, &plan));
    uint64_t waited = 0; /* for device 0, so far */
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        uint32_t source = plan->cut.sources[plan->parts[step->first_part].node];
        if (step->device != 1)
            continue;
        if (step->n_waits)
            waited = plan->waits[step->first_wait].value;
        assert_true(waited > 0);
        /* Its other half is in a later step of device 0. */
        for (uint32_t p = 0; p < plan->n_parts; p++)
            if (plan->cut.sources[plan->parts[p].node] == source &&
                plan->parts[p].device == 0)
                assert_true(plan->steps[plan->parts[p].step].signal > waited);
    }
    clv_plan_destroy(plan);
    layer_free(&l);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Saved plans                                                               */

static clv_plan *random_plan(const test_context *t, test_random *r, layer *l)
{
    core_piece pieces[MAX_PIECES];
    clv_plan *plan;
    uint32_t n = 0;
    for (uint32_t node = 0; node < l->graph->n_nodes; node++)
        n += test_divide(l->graph, r, node, 2, &pieces[n]);
    assert_ok(planner_from_pieces(t->ctx, l->graph, NULL, pieces, n, &plan));
    return plan;
}

static bool same_pieces(const char *a, const char *b)
{
    const char *from = strstr(a, "\"pieces\""),
               *other = strstr(b, "\"pieces\"");
    size_t size = (size_t)(strstr(from, "\"parts\"") - from);
    return strlen(other) >= size && !memcmp(from, other, size);
}

/* Reading what was printed gives the same plan; devices may come in another
 * order, so the pieces are compared by what they print. */
static void test_saved(void **state)
{
    (void)state;
    test_random r = {51};
    test_context t = test_context_create("");
    layer l, other;
    build(&l, t.ctx, &r, 6);
    build(&other, t.ctx, &r, 7);
    for (int i = 0; i < 10; i++) {
        clv_plan *plan = random_plan(&t, &r, &l), *again, *none;
        char *text, *second;
        assert_ok(clv_plan_json(plan, &text));
        const size_t size = strlen(text);
        results want, got;
        assert_ok(clv_plan_check(text, size));
        assert_true(clv_plan_fits(l.graph, text, size));
        assert_false(clv_plan_fits(other.graph, text, size));
        assert_int_equal(
            clv_plan_parse(t.ctx, other.graph, NULL, text, size, &none),
            CLV_ERR_NOT_FOUND);
        assert_message("another model, phase");
        assert_ok(clv_plan_parse(t.ctx, l.graph, NULL, text, size, &again));
        assert_ok(clv_plan_json(again, &second));
        assert_true(same_pieces(text, second));
        run(&l, plan, &want);
        run(&l, again, &got);
        assert_same(&l, &want, &got, EXACT);
        clv_string_free(text);
        clv_string_free(second);
        clv_plan_destroy(plan);
        clv_plan_destroy(again);
    }
    layer_free(&l);
    layer_free(&other);
    test_context_destroy(&t);
}

/* text with the first `from` replaced is refused. */
static void refuse_edit(const test_context *t, const layer *l, const char *text,
                        const char *from, const char *to, const char *parts)
{
    const char *at = strstr(text, from);
    char *edited = malloc(strlen(text) + strlen(to) + 1);
    clv_plan *plan;
    assert_non_null(at);
    sprintf(edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_not_equal(
        clv_plan_parse(t->ctx, l->graph, NULL, edited, strlen(edited), &plan),
        CLV_OK);
    assert_null(plan);
    assert_message(parts);
    free(edited);
}

static void test_edited(void **state)
{
    (void)state;
    test_random r = {53};
    test_context t = test_context_create("");
    layer l;
    build(&l, t.ctx, &r, 6);
    clv_plan *plan;
    assert_ok(clv_plan_create(t.ctx, l.graph, NULL, &plan));
    char *text;
    assert_ok(clv_plan_json(plan, &text));
    clv_plan_destroy(plan);
#define PIECE0 "{\"node\":0,\"device\":\"ref:0\"}"
    refuse_edit(&t, &l, text, "\"pieces\":[", "\"pieces\":{", "line");
    refuse_edit(&t, &l, text, "\"pieces\"", "\"peices\"", "pieces");
    refuse_edit(&t, &l, text, "\"graph\"", "\"grahp\"", "graph");
    refuse_edit(&t, &l, text, PIECE0, "7", "piece 0: it is no object");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":0}", "no device");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":1e9,\"device\":\"ref:0\"}",
                "no node");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":0,\"device\":\"xpu\"}",
                "xpu|ref:0");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":0,\"device\":3}", "no string");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rows\":[0,1,2]}",
                "rows are not [begin, end]");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rows\":[0.5,2]}",
                "rows are not");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rwos\":[0,2]}", "rwos");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rows\":[0,32]}", "gap");
    refuse_edit(&t, &l, text, PIECE0 ",", "", "cover");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":5,\"device\":\"ref:0\"}",
                "order");
    /* Whatever is changed, there is an error or a plan. */
    size_t size = strlen(text);
    for (int i = 0; i < 3000; i++) {
        char *copy = malloc(size);
        memcpy(copy, text, size);
        for (int j = 0; j < 3; j++)
            copy[test_below(&r, (uint32_t)size)] = (char)test_below(&r, 128);
        size_t length = i % 3 ? size : test_below(&r, (uint32_t)size);
        if (!clv_plan_parse(t.ctx, l.graph, NULL, copy, length, &plan))
            clv_plan_destroy(plan);
        free(copy);
    }
    clv_string_free(text);
    layer_free(&l);
    test_context_destroy(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_two_that_wait),
        cmocka_unit_test(test_with_cpu),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_memories),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_saved),
        cmocka_unit_test(test_edited),
    };
    if (argc > 1 && !strcmp(argv[1], "gpu"))
        return run_gpu_tests();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
