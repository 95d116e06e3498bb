/* The feed-forward part of a model of experts, run through OpenCL and compared
 * with sums of doubles: what joins which kernel, and weights that one binding
 * does not reach. (The conformance kit has the ops one by one.) With the
 * argument "all", in more formats. */
#include "sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool all; /* the argument */

enum {
    FEW = 3,
    MANY = 40,
    EMBD = 40,
    FF = 24,
    EXPERTS = 5, /* whose weights there are */
    TOTAL = 7,   /* at most, that the router chooses of */
    USED = 2
};

typedef enum tensor {
    X,
    ROUTER,
    LOGITS,
    SCORES,
    IDS,
    GATE_W,
    UP_W,
    GATE,
    UP,
    MID,
    DOWN_W,
    SUM,
    Y,
    N_TENSORS
} tensor;

static const gpu_target small = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
    .units = 2,
};

typedef struct layer {
    int64_t n;            /* rows */
    int32_t first, total; /* experts */
    graph g;
    void *data[N_TENSORS];
    size_t size[N_TENSORS];
} layer;

static uint32_t seed = 1;

static float random_float(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8 & 0xffff) / 32768.0f - 1.0f;
}

static void add(layer *l, tensor t, uint32_t dtype, uint32_t usage,
                int64_t rows, int64_t channels)
{
    assert_int_equal(graph_tensor(&l->g, dtype, usage, rows, channels), t);
    l->size[t] = (size_t)(rows * channels) * 4;
    l->data[t] = malloc(l->size[t]);
    assert_non_null(l->data[t]);
    for (int64_t i = 0; i < rows * channels; i++)
        ((float *)l->data[t])[i] = random_float();
}

static void add_experts(layer *l, tensor t, int64_t out, int64_t in)
{
    add(l, t, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, EXPERTS * out, in);
    clv_tensor_desc *d = &l->g.tensors[t];
    d->rank = 3;
    d->dims[0] = EXPERTS;
    d->dims[1] = out;
    d->dims[2] = in;
}

#define F32 CLV_DTYPE_F32
#define NODE(op, out, ...)                                                     \
    graph_node(&l->g, op, out, (const uint32_t[]){__VA_ARGS__, CLV_NO_TENSOR})

static void set_experts(const layer *l, clv_node *node)
{
    node->attr.experts.first = l->first;
    node->attr.experts.total = l->total;
}

static void build(layer *l, int64_t n, int32_t first, int32_t total)
{
    const uint32_t between = CLV_USAGE_TRANSIENT;
    *l = (layer){.n = n, .first = first, .total = total};
    graph_init(&l->g);
    add(l, X, F32, CLV_USAGE_INPUT, n, EMBD);
    add(l, ROUTER, F32, CLV_USAGE_WEIGHT, total, EMBD);
    add(l, LOGITS, F32, between, n, total);
    add(l, SCORES, F32, between, n, total);
    add(l, IDS, CLV_DTYPE_I32, between, n, USED);
    add_experts(l, GATE_W, FF, EMBD);
    add_experts(l, UP_W, FF, EMBD);
    add(l, GATE, F32, between, n, USED * FF);
    add(l, UP, F32, between, n, USED * FF);
    add(l, MID, F32, between, n, USED * FF);
    add_experts(l, DOWN_W, EMBD, FF);
    add(l, SUM, F32, between, n, EMBD);
    add(l, Y, F32, CLV_USAGE_OUTPUT, n, EMBD);
    NODE(CLV_OP_MATMUL, LOGITS, X, ROUTER);
    NODE(CLV_OP_SOFTMAX, SCORES, LOGITS);
    NODE(CLV_OP_TOP_K, IDS, SCORES);
    set_experts(l, NODE(CLV_OP_MATMUL_EXPERTS, GATE, X, GATE_W, IDS));
    set_experts(l, NODE(CLV_OP_MATMUL_EXPERTS, UP, X, UP_W, IDS));
    NODE(CLV_OP_GLU, MID, GATE, UP);
    clv_node *down = NODE(CLV_OP_MATMUL_EXPERTS, SUM, MID, DOWN_W, IDS, SCORES);
    down->attr.experts.normalised = 1;
    set_experts(l, down);
    NODE(CLV_OP_ADD, Y, X, SUM);
    graph_symbol(&l->g, n);
}

static void finish(layer *l)
{
    for (uint32_t t = 0; t < N_TENSORS; t++)
        free(l->data[t]);
}

/* ------------------------------------------------------------------------ */

static double dot(const layer *l, tensor w, int64_t row, const double *x,
                  int64_t n)
{
    const float *at = (const float *)l->data[w] + row * n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += at[i] * x[i];
    return sum;
}

/* Adds what expert e makes of x. */
static void add_expert(const layer *l, int64_t e, double factor,
                       const double *x, double *y)
{
    double mid[FF];
    for (int64_t i = 0; i < FF; i++) {
        double gate = dot(l, GATE_W, e * FF + i, x, EMBD);
        mid[i] = gate / (1 + exp(-gate)) * dot(l, UP_W, e * FF + i, x, EMBD);
    }
    for (int64_t i = 0; i < EMBD; i++)
        y[i] += factor * dot(l, DOWN_W, e * EMBD + i, mid, FF);
}

static void compute_row(const layer *l, int64_t row, double *y)
{
    double x[EMBD], scores[TOTAL], sum = 0;
    int best[USED] = {-1, -1};
    for (int i = 0; i < EMBD; i++)
        y[i] = x[i] = ((const float *)l->data[X])[row * EMBD + i];
    for (int e = 0; e < l->total; e++)
        scores[e] = exp(dot(l, ROUTER, e, x, EMBD));
    for (int k = 0; k < USED; k++) {
        for (int e = 0; e < l->total; e++)
            if (e != best[0] && (best[k] < 0 || scores[e] > scores[best[k]]))
                best[k] = e;
        sum += scores[best[k]];
    }
    for (int k = 0; k < USED; k++)
        if (best[k] >= l->first && best[k] < l->first + EXPERTS)
            add_expert(l, best[k] - l->first, scores[best[k]] / sum, x, y);
}

static void run_part(const gpu_target *wanted, int64_t n, int32_t first,
                     int32_t total, uint32_t n_dispatches)
{
    gpu_target target = *wanted;
    gpu_code *code;
    double error = 0, norm = 0;
    layer l;
    runner *r = runner_open(&target);
    if (!r)
        skip();
    build(&l, n, first, total);
    assert_int_equal(gpu_lower(&test_host, &target, &l.g.sub, &code), CLV_OK);
    assert_int_equal(code->n_dispatches, n_dispatches);
    gpu_code_free(&test_host, code);
    runner_run(r, &l.g, l.data, l.size, &n);
    for (int64_t i = 0; i < n; i++) {
        double want[EMBD];
        compute_row(&l, i, want);
        for (int64_t j = 0; j < EMBD; j++) {
            double off = ((float *)l.data[Y])[i * EMBD + j] - want[j];
            error += off * off;
            norm += want[j] * want[j];
        }
    }
    assert_true(error <= 1e-10 * norm);
    finish(&l);
    runner_close(r);
}

static void run_layer(const gpu_target *target, int64_t n, uint32_t dispatches)
{
    run_part(target, n, 0, EXPERTS, dispatches);
}

/* The activation joins the product by up; what is added to an output does not.
 */
static void test_layer(void **unused)
{
    (void)unused;
    run_layer(&small, FEW, 7);
}

/* The three products share one order; the last is joined from its parts. */
static void test_many(void **unused)
{
    (void)unused;
    run_layer(&small, MANY, 3 + 1 + 2 + 2 + 1);
}

/* Two experts a binding, three parts: no sum is joined. Many rows have sums of
 * their own. */
static void test_parts(void **unused)
{
    gpu_target target = small;
    (void)unused;
    target.max_binding = 4096 + 2 * FF * EMBD * 4 + 100;
    run_layer(&target, FEW, 3 + 3 + 3 + 3 + 1);
    target.max_binding = 4096 + 4 * FF * EMBD * 4; /* four, and one */
    run_layer(&target, MANY, 3 + 1 + 2 + 2 + 3 + 1);
}

/* Experts 2 to 6 of seven, at once and in parts. */
static void test_some(void **unused)
{
    gpu_target target = small;
    (void)unused;
    run_part(&small, FEW, 2, TOTAL, 7);
    run_part(&small, MANY, 2, TOTAL, 3 + 1 + 2 + 2 + 1);
    target.max_binding = 4096 + 2 * FF * EMBD * 4 + 100;
    run_part(&target, FEW, 2, TOTAL, 3 + 3 + 3 + 3 + 1);
    target.max_binding = 4096 + 4 * FF * EMBD * 4;
    run_part(&target, MANY, 2, TOTAL, 3 + 1 + 2 + 2 + 3 + 1);
}

/* ------------------------------------------------------------------------ */
/* One product by itself, of more channels than are in local memory at once  */

typedef struct single {
    uint32_t dtype;
    int64_t in, out;
    bool scored;
    int64_t rows;
    double tolerance;
    const char *variant; /* that computes it; NULL: any */
    int32_t first;       /* expert that there is, of so many more */
} single;

enum { S_X, S_W, S_Y, S_IDS, S_SCORES };

static void build_single(sample *b, const single *p)
{
    graph_init(&b->g);
    sample_add(b, F32, CLV_USAGE_INPUT, p->rows,
               p->scored ? USED * p->in : p->in, 0);
    sample_add(b, p->dtype, CLV_USAGE_WEIGHT, EXPERTS * p->out, p->in, 0);
    sample_add(b, F32, CLV_USAGE_OUTPUT, p->rows,
               p->scored ? p->out : USED * p->out, 0);
    sample_add(b, CLV_DTYPE_I32, CLV_USAGE_INPUT, p->rows, USED, 0);
    if (p->scored)
        sample_add(b, F32, CLV_USAGE_INPUT, p->rows, p->first + EXPERTS, 0);
    for (uint32_t t = 0; t < b->g.sub.n_tensors; t++)
        if (t != S_IDS)
            sample_fill(b, t);
    for (int32_t i = 0; i < p->rows * USED; i++)
        ((int32_t *)b->data[S_IDS])[i] =
            (i / USED + i % USED * 2) % (p->first + EXPERTS);
    clv_tensor_desc *w = &b->g.tensors[S_W];
    w->rank = 3;
    w->dims[0] = EXPERTS;
    w->dims[1] = p->out;
    w->dims[2] = p->in;
    memset(w->strides, 0, sizeof w->strides);
    const uint32_t inputs[] = {
        S_X, S_W, S_IDS, p->scored ? S_SCORES : CLV_NO_TENSOR, CLV_NO_TENSOR};
    graph_node(&b->g, CLV_OP_MATMUL_EXPERTS, S_Y, inputs)->attr.experts.first =
        p->first;
}

/* Product k of row i, channel o. */
static double dot_single(const sample *b, const single *p, int64_t i, int64_t k,
                         int64_t o)
{
    const int32_t id = ((const int32_t *)b->data[S_IDS])[i * USED + k];
    double sum = 0;
    for (int64_t c = 0; c < p->in && id >= p->first; c++)
        sum += sample_value(b, S_X, i, (p->scored ? k * p->in : 0) + c) *
               sample_value(b, S_W, (id - p->first) * p->out + o, c);
    return p->scored ? sum * sample_value(b, S_SCORES, i, id) : sum;
}

static void expect_variant(const gpu_target *target, const sample *b,
                           const char *variant)
{
    gpu_code *code;
    uint32_t n = 0;
    assert_int_equal(gpu_lower(&test_host, target, &b->g.sub, &code), CLV_OK);
    for (uint32_t i = 0; i < code->n_kernels; i++)
        n += !strcmp(code->kernels[i].variant, variant);
    assert_true(n > 0);
    gpu_code_free(&test_host, code);
}

static void judge_single(const sample *b, const single *p)
{
    judge j = {0, 0};
    char what[80];
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t o = 0; o < p->out; o++) {
            double want[USED], sum = 0;
            for (int64_t k = 0; k < USED; k++)
                sum += want[k] = dot_single(b, p, i, k, o);
            for (int64_t k = 0; k < USED && !p->scored; k++)
                judge_expect(&j, sample_value(b, S_Y, i, k * p->out + o),
                             want[k]);
            if (p->scored)
                judge_expect(&j, sample_value(b, S_Y, i, o), sum);
        }
    snprintf(what, sizeof what, "dtype %u: %d x %d%s", (unsigned)p->dtype,
             (int)p->in, (int)p->out, p->scored ? ", scores" : "");
    judge_conclude(&j, p->tolerance, what);
}

static void run_single(runner *r, const gpu_target *target, const single *p)
{
    sample b = {0};
    build_single(&b, p);
    if (p->variant)
        expect_variant(target, &b, p->variant);
    runner_run(r, &b.g, b.data, b.size, NULL);
    judge_single(&b, p);
    sample_free(&b);
}

static void test_long(void **unused)
{
    static const single cases[] = {
        {CLV_DTYPE_Q4_0, 2112, 17, false, FEW, 1e-10, NULL, 0},
        {CLV_DTYPE_Q4_0, 1056, 6, true, FEW, 1e-10, NULL, 0},
        {CLV_DTYPE_Q6_K, 1280, 5, true, FEW, 1e-10, NULL, 0},
        {CLV_DTYPE_BF16, 783, 9, false, FEW, 1e-10, NULL, 0},
        {CLV_DTYPE_F32, 398, 10, true, FEW, 1e-10, NULL, 0}};
    gpu_target target = small;
    runner *r = runner_open(&target);
    (void)unused;
    if (!r)
        skip();
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_single(r, &target, &cases[i]);
    runner_close(r);
}

/* By warp groups, in plain code: blocks that are not full, channels past whole
 * groups, experts in parts. */
static void test_warp_groups(void **unused)
{
    static const single cases[] = {
        {CLV_DTYPE_Q4_0, 256, 144, false, MANY, 1e-6, "experts_wgmma", 0},
        {CLV_DTYPE_Q8_0, 384, 272, true, 3 * MANY, 1e-6, "experts_wgmma", 0},
        {CLV_DTYPE_BF16, 128, 1040, false, MANY, 1e-6, "experts_wgmma", 0},
        {CLV_DTYPE_Q8_0, 96, 48, true, MANY, 1e-6, "gemm_tensor", 0},
        {CLV_DTYPE_Q4_K, 256, 48, false, MANY, 1e-6, "experts_wgmma", 0},
        {CLV_DTYPE_F16, 128, 16, true, MANY, 1e-6, "experts_wgmma", 0}};
    gpu_target target = small;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    target.wgmma_bytes = 96 * 1024;
    runner *r = runner_open(&target);
    (void)unused;
    if (!r)
        skip();
    for (uint32_t i = 0; i < (all ? 6 : 4); i++) {
        target.units = i % 2 ? 1 : 16;
        target.max_binding = cases[i].out > 1000 ? 1 << 20 : small.max_binding;
        runner_set(r, &target);
        run_single(r, &target, &cases[i]);
    }
    runner_close(r);
}

/* ------------------------------------------------------------------------ */
/* Weights in the device's layout                                            */

/* In OpenCL alone: not all of these layouts are there in GLSL. */
static void run_code(runner *r, const gpu_target *target, const sample *b,
                     void *const *data)
{
    gpu_code *code;
    if (gpu_lower(&test_host, target, &b->g.sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    runner_code(r, &b->g, code, data, b->size, NULL);
    gpu_code_free(&test_host, code);
}

/* The product's weights, by CONVERT. */
static void convert(runner *r, const gpu_target *target, const sample *b,
                    const single *p, void *to)
{
    const int64_t rows = EXPERTS * p->out;
    sample c = {0};
    graph_init(&c.g);
    sample_add(&c, p->dtype, CLV_USAGE_INPUT, rows, p->in, 0);
    sample_add(&c, p->dtype, CLV_USAGE_OUTPUT, rows, p->in, 0);
    c.g.tensors[1].layout = CLV_LAYOUT_PRIVATE;
    memcpy(c.data[0], b->data[S_W], b->size[S_W]);
    graph_node(&c.g, CLV_OP_CONVERT, 1, (const uint32_t[]){0, CLV_NO_TENSOR});
    run_code(r, target, &c, c.data);
    memcpy(to, c.data[1], b->size[S_W]);
    sample_free(&c);
}

static void run_private(runner *r, const gpu_target *target, const single *p)
{
    sample b = {0};
    void *data[GRAPH_TENSORS];
    build_single(&b, p);
    memcpy(data, b.data, sizeof data);
    data[S_W] = malloc(b.size[S_W]);
    assert_non_null(data[S_W]);
    convert(r, target, &b, p, data[S_W]);
    b.g.tensors[S_W].layout = CLV_LAYOUT_PRIVATE;
    expect_variant(target, &b, p->variant);
    run_code(r, target, &b, data);
    judge_single(&b, p);
    free(data[S_W]);
    sample_free(&b);
}

static void init_plain(gpu_target *target)
{
    *target = small;
    target->plain_matrix = true;
    target->local_bytes = 48 * 1024;
}

static void run_privates(const gpu_target *wanted, const single *cases,
                         uint32_t n)
{
    gpu_target target = *wanted;
    runner *r = runner_open(&target);
    if (!r)
        skip();
    for (uint32_t i = 0; i < n; i++)
        run_private(r, &target, &cases[i]);
    runner_close(r);
}

/* Few rows: more channels than are in local memory at once, and fewer than the
 * items of a group have; some of the experts. */
static void test_private_few(void **unused)
{
    static const char tiles[] = "experts_gemv_tiles",
                      shared[] = "experts_gemv_tiles_shared";
    static const single cases[] = {
        {CLV_DTYPE_Q8_0, 544, 48, false, FEW, 1e-12, tiles, 2},
        {CLV_DTYPE_Q4_0, 1056, 16, true, FEW, 1e-12, tiles, 2},
        {CLV_DTYPE_Q4_K, 2304, 48, true, FEW, 1e-12, shared, 0},
        {CLV_DTYPE_Q5_K, 2304, 48, false, FEW, 1e-12, shared, 2},
        {CLV_DTYPE_Q6_K, 256, 16, false, FEW, 1e-12, shared, 0},
        {CLV_DTYPE_F16, 544, 48, true, FEW, 1e-12, tiles, 0},
        {CLV_DTYPE_Q4_K, 256, 16, false, FEW, 1e-12, shared, 2},
        {CLV_DTYPE_Q5_K, 256, 16, true, FEW, 1e-12, shared, 0},
        {CLV_DTYPE_Q6_K, 2304, 48, true, FEW, 1e-12, shared, 2}};
    gpu_target target;
    (void)unused;
    init_plain(&target);
    run_privates(&target, cases, all ? 9 : 5);
}

/* Many, by one warp and by groups of them. */
static void test_private_many(void **unused)
{
    static const single cases[] = {
        {CLV_DTYPE_Q5_K, 512, 16, true, MANY, 1e-6, "gemm_tensor", 2},
        {CLV_DTYPE_Q4_K, 256, 48, false, MANY, 1e-6, "gemm_tensor", 0},
        {CLV_DTYPE_Q6_K, 256, 48, false, MANY, 1e-6, "gemm_tensor", 2}};
    static const single by_groups[] = {
        {CLV_DTYPE_Q4_K, 512, 48, true, MANY, 1e-6, "experts_wgmma", 2},
        {CLV_DTYPE_Q6_K, 256, 48, true, MANY, 1e-6, "experts_wgmma", 0},
        {CLV_DTYPE_Q5_K, 256, 144, false, MANY, 1e-6, "experts_wgmma", 0}};
    gpu_target target;
    (void)unused;
    init_plain(&target);
    run_privates(&target, cases, all ? 3 : 1);
    target.wgmma_bytes = 96 * 1024;
    run_privates(&target, by_groups, all ? 3 : 2);
}

/* Rows of a block of weights in the preferred layout; 0: none is. */
static uint32_t preferred_rows(const gpu_target *target, uint32_t dtype,
                               int64_t out, int64_t rows)
{
    const single p = {dtype, 256, out, false, rows, 0, NULL, 0};
    clv_op_caps caps = CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    sample b = {0};
    build_single(&b, &p);
    gpu_caps(target, &b.g.sub, &caps, sizeof caps);
    sample_free(&b);
    assert_int_equal(caps.answer, CLV_ANSWER_YES);
    assert_int_equal(caps.layouts[1] == CLV_LAYOUT_PRIVATE,
                     caps.private_rows > 0);
    return caps.private_rows;
}

/* Where few rows and many have kernels for it, of whole tiles. */
static void test_preferred(void **unused)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_Q4_K, CLV_DTYPE_Q5_K,
                                      CLV_DTYPE_Q6_K};
    (void)unused;
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t dtype = dtypes[i];
        gpu_target target;
        init_plain(&target);
        assert_int_equal(preferred_rows(&target, dtype, 48, 1), 16);
        assert_int_equal(preferred_rows(&target, dtype, 48, MANY), 16);
        assert_int_equal(preferred_rows(&target, dtype, 40, 1), 0);
        target.language = GPU_GLSL;
        assert_int_equal(preferred_rows(&target, dtype, 48, 1), 0);
        init_plain(&target);
        target.disabled = "experts_gemv_tiles";
        assert_int_equal(preferred_rows(&target, dtype, 48, 1), 16);
        target.disabled = "experts_gemv_tiles_shared";
        assert_int_equal(preferred_rows(&target, dtype, 48, 1), 0);
        assert_int_equal(preferred_rows(&target, CLV_DTYPE_Q4_0, 48, 1), 16);
        init_plain(&target);
        target.plain_matrix = false;
        assert_int_equal(preferred_rows(&target, dtype, 48, 1), 0);
    }
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_some),
        cmocka_unit_test(test_long),        cmocka_unit_test(test_warp_groups),
        cmocka_unit_test(test_private_few), cmocka_unit_test(test_private_many),
        cmocka_unit_test(test_preferred),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
