/* Products that follow one another as one kernel, by plain code, compared with
 * the same by a kernel each. */
#include "sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEAD 32
#define QUERIES (3 * HEAD)
#define MAX_LAYERS 3
#define CACHE_ROWS 10 /* of the caches that are added to */
#define PAST_ROWS 600 /* of the cache of an attention in front */

/* Of a layer from behind its attention on, and the next layer's queries, keys
 * and values: numbers of channels, and what there may be. */
typedef struct layer {
    uint32_t dtype;
    uint32_t other; /* of values, and of the product behind gates, or where
                       there are none the first; 0: the same */
    int64_t rows;   /* of x, each of a sequence of its own; 0: one */
    int64_t heads, hidden, inner;
    bool halves, bias, gelu;
    uint32_t cache;
    uint32_t past;    /* kind of the cache of an attention in front; 0: none */
    int64_t shared;   /* heads of a group of that cache */
    uint32_t window;  /* of that attention */
    bool attends;     /* at the end, instead of a softmax */
    uint32_t repeats; /* layers behind it that are the same, of as many
                         queries as heads */
    bool brief;       /* without products that are gated */
    uint32_t kernels; /* dispatches that they take as a series */
    uint32_t terms;   /* partial sums, x among them, of as many channels, that
                         come instead of the first product; 0: that comes */
    bool hidden_sum;  /* which only the norm behind it reads */
    float odd;        /* a channel of the first x; 0: as the others */
} layer;

static int64_t queries_of(const layer *c)
{
    return c->repeats ? c->heads : QUERIES;
}

static int64_t rows_of(const layer *c)
{
    return c->rows ? c->rows : 1;
}

typedef struct made {
    sample b;
    int64_t rows;
    uint32_t x;
    uint32_t seen, keys, values; /* of the last layer */
    uint32_t sum;                /* of terms, which is an output; 0: none */
    uint32_t gains[2 * MAX_LAYERS], n_gains;
} made;

static uint32_t add(made *m, uint32_t usage, int64_t rows, int64_t channels)
{
    return sample_add(&m->b, CLV_DTYPE_F32, usage, rows, channels, 0);
}

/* A value of all rows of x. */
static uint32_t add_rows(made *m, uint32_t usage, int64_t channels)
{
    return add(m, usage, m->rows, channels);
}

static uint32_t add_product_of(made *m, const layer *c, uint32_t dtype,
                               uint32_t x, int64_t in, int64_t out)
{
    uint32_t bias = CLV_NO_TENSOR;
    uint32_t w = sample_add(&m->b, dtype, CLV_USAGE_WEIGHT, out, in, 0);
    if (dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4) {
        m->b.g.tensors[w].quant = CLV_QUANT_PER_CHANNEL;
        m->b.g.tensors[w].quant_scales = 1 + add(m, CLV_USAGE_WEIGHT, 0, out);
    }
    if (c->bias)
        bias = add(m, CLV_USAGE_WEIGHT, 0, out);
    uint32_t y = add_rows(m, CLV_USAGE_TRANSIENT, out);
    graph_node(&m->b.g, CLV_OP_MATMUL, y,
               (const uint32_t[]){x, w, bias, CLV_NO_TENSOR});
    return y;
}

static uint32_t add_product(made *m, const layer *c, uint32_t x, int64_t in,
                            int64_t out)
{
    return add_product_of(m, c, c->dtype, x, in, out);
}

/* Of those that may have a format of their own. */
static uint32_t add_other(made *m, const layer *c, uint32_t x, int64_t in,
                          int64_t out)
{
    return add_product_of(m, c, c->other ? c->other : c->dtype, x, in, out);
}

static uint32_t add_sum(made *m, uint32_t a, uint32_t b, int64_t n)
{
    uint32_t y = add_rows(m, CLV_USAGE_TRANSIENT, n);
    graph_node(&m->b.g, CLV_OP_ADD, y, (const uint32_t[]){a, b, CLV_NO_TENSOR});
    return y;
}

static uint32_t add_norm(made *m, uint32_t x, int64_t n, uint32_t *gain)
{
    *gain = add(m, CLV_USAGE_WEIGHT, 0, n);
    uint32_t y = add_rows(m, CLV_USAGE_TRANSIENT, n);
    graph_node(&m->b.g, CLV_OP_RMS_NORM, y,
               (const uint32_t[]){x, *gain, CLV_NO_TENSOR})
        ->attr.norm.eps = 1e-3f;
    return y;
}

static uint32_t add_rope(made *m, const layer *c, uint32_t x, uint32_t pos,
                         uint32_t freq, int64_t n)
{
    uint32_t y = add_rows(m, CLV_USAGE_TRANSIENT, n);
    clv_node *node =
        graph_node(&m->b.g, CLV_OP_ROPE, y,
                   (const uint32_t[]){x, pos, freq, CLV_NO_TENSOR});
    node->attr.rope.head_dim = HEAD;
    node->attr.rope.mode = c->halves ? CLV_ROPE_HALVES : CLV_ROPE_PAIRS;
    return y;
}

static uint32_t add_cache(made *m, const layer *c, uint32_t rows, uint32_t ids)
{
    uint32_t state =
        sample_add(&m->b, c->cache, CLV_USAGE_STATE, CACHE_ROWS, HEAD, 0);
    graph_node(&m->b.g, CLV_OP_SET_ROWS, CLV_NO_TENSOR,
               (const uint32_t[]){state, rows, ids, CLV_NO_TENSOR});
    return state;
}

static uint32_t add_attention(made *m, const layer *c, uint32_t q,
                              uint32_t keys, uint32_t values, uint32_t pos,
                              int64_t n)
{
    uint32_t y = add_rows(m, CLV_USAGE_TRANSIENT, n);
    clv_node *node =
        graph_node(&m->b.g, CLV_OP_ATTENTION, y,
                   (const uint32_t[]){q, keys, values, pos, CLV_NO_TENSOR});
    node->attr.attention.head_dim = HEAD;
    node->attr.attention.scale = 0.2f;
    node->attr.attention.window = c->window;
    return y;
}

/* Over a cache that nobody adds to. */
static uint32_t add_past(made *m, const layer *c, uint32_t q, uint32_t pos)
{
    uint32_t keys = sample_add(&m->b, c->past, CLV_USAGE_STATE, PAST_ROWS,
                               c->heads / c->shared, 0);
    uint32_t values = sample_add(&m->b, c->past, CLV_USAGE_STATE, PAST_ROWS,
                                 c->heads / c->shared, 0);
    return add_attention(m, c, q, keys, values, pos, c->heads);
}

/* So that products are some units. */
static void scale(made *m, uint32_t t, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((float *)m->b.data[t])[i] *= by;
}

/* What all layers share, and what one begins with. */
typedef struct inputs {
    uint32_t x, before, pos, ids, freq;
} inputs;

static void add_gain(made *m, uint32_t gain)
{
    m->gains[m->n_gains++] = gain;
}

/* A gate and its product, with what is before them. */
static uint32_t add_gated(made *m, const layer *c, uint32_t middle)
{
    uint32_t gain, y = add_norm(m, middle, c->hidden, &gain);
    uint32_t gate = add_product(m, c, y, c->hidden, c->inner);
    uint32_t up = add_product(m, c, y, c->hidden, c->inner);
    y = add_rows(m, CLV_USAGE_TRANSIENT, c->inner);
    graph_node(&m->b.g, CLV_OP_GLU, y,
               (const uint32_t[]){gate, up, CLV_NO_TENSOR})
        ->attr.glu.activation = c->gelu ? CLV_ACT_GELU_TANH : CLV_ACT_SILU;
    add_gain(m, gain);
    y = add_other(m, c, y, c->inner, c->hidden);
    return add_sum(m, y, middle, c->hidden);
}

/* Of partial sums, those of other devices among them. */
static uint32_t add_partial(made *m, const layer *c, uint32_t y)
{
    for (uint32_t i = 1; i < c->terms; i++) {
        uint32_t other = add_rows(m, CLV_USAGE_INPUT, c->hidden);
        y = i % 2 ? add_sum(m, y, other, c->hidden)
                  : add_sum(m, other, y, c->hidden);
    }
    return y;
}

/* The layer's queries, and what the next one adds to. */
static uint32_t add_layer(made *m, const layer *c, inputs *in)
{
    const int64_t queries = queries_of(c);
    uint32_t gain, y, x = in->x;
    if (c->past)
        x = add_past(m, c, x, in->pos);
    y = c->terms   ? add_partial(m, c, x)
        : c->brief ? add_other(m, c, x, c->heads, c->hidden)
                   : add_product(m, c, x, c->heads, c->hidden);
    uint32_t middle = add_sum(m, y, in->before, c->hidden);
    if (c->terms && !c->hidden_sum) {
        m->sum = middle;
        m->b.g.tensors[middle].usage = CLV_USAGE_OUTPUT;
    }
    in->before = c->brief ? middle : add_gated(m, c, middle);
    y = add_norm(m, in->before, c->hidden, &gain);
    add_gain(m, gain);
    uint32_t q = add_product(m, c, y, c->hidden, queries);
    uint32_t k = add_product(m, c, y, c->hidden, HEAD);
    uint32_t v = add_other(m, c, y, c->hidden, HEAD);
    q = add_rope(m, c, q, in->pos, in->freq, queries);
    k = add_rope(m, c, k, in->pos, in->freq, HEAD);
    m->keys = add_cache(m, c, k, in->ids);
    m->values = add_cache(m, c, v, in->ids);
    return q;
}

static void fill(made *m, const layer *c, const inputs *in)
{
    for (uint32_t t = 0; t < m->b.g.sub.n_tensors; t++)
        if (m->b.g.tensors[t].dtype != CLV_DTYPE_I32)
            sample_fill(&m->b, t);
    for (int32_t i = 0; i < m->rows; i++) {
        ((int32_t *)m->b.data[in->pos])[i] = c->past ? PAST_ROWS - 40 : 3 + i;
        ((int32_t *)m->b.data[in->ids])[i] = CACHE_ROWS - 2 - i;
    }
    if (c->odd)
        ((float *)m->b.data[m->x])[c->heads / 2] = c->odd;
    const bool blocks = clv_format_of(c->dtype)->elements == 256;
    const bool bytes = c->dtype == CLV_DTYPE_Q8_0 || c->dtype == CLV_DTYPE_I8;
    for (uint32_t i = 0; i < m->n_gains; i++)
        scale(m, m->gains[i],
              blocks  ? 1.0f / 16384
              : bytes ? 1.0f / 512
                      : 1.0f / 32,
              c->hidden);
}

/* Without data. */
static void build(made *m, const layer *c, inputs *out)
{
    const int64_t queries = queries_of(c);
    inputs in;
    memset(m, 0, sizeof *m);
    m->rows = rows_of(c);
    graph_init(&m->b.g);
    in.x = m->x = add_rows(m, CLV_USAGE_INPUT, c->heads);
    in.before = add_rows(m, CLV_USAGE_INPUT, c->hidden);
    in.pos = sample_add(&m->b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, m->rows, 0);
    in.ids = sample_add(&m->b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, m->rows, 0);
    in.freq = add(m, CLV_USAGE_WEIGHT, 0, HEAD / 2);
    for (uint32_t i = 0; i <= c->repeats; i++)
        in.x = add_layer(m, c, &in);
    if (c->attends) {
        m->seen =
            add_attention(m, c, in.x, m->keys, m->values, in.pos, queries);
        m->b.g.tensors[m->seen].usage = CLV_USAGE_OUTPUT;
    } else {
        m->seen = add_rows(m, CLV_USAGE_OUTPUT, queries);
        graph_node(&m->b.g, CLV_OP_SOFTMAX, m->seen,
                   (const uint32_t[]){in.x, CLV_NO_TENSOR});
    }
    *out = in;
}

static void make(made *m, const layer *c)
{
    inputs in;
    build(m, c, &in);
    fill(m, c, &in);
}

/* Attention rounds what it multiplies to halves, whose scales are of a warp. So
 * do products of several rows: 6e-8 each, and more where what is summed
 * cancels. */
static void compare(const sample *a, const sample *b, uint32_t t, int64_t row,
                    int64_t n, const layer *c, bool odd, const char *what)
{
    judge j = {0, 0};
    const bool spoilt = odd && !isfinite(c->odd);
    for (int64_t i = 0; i < n && spoilt; i++)
        assert_true(isnan(sample_value(a, t, row, i)));
    if (spoilt)
        return;
    for (int64_t i = 0; i < n; i++)
        judge_expect(&j, sample_value(a, t, row, i),
                     sample_value(b, t, row, i));
    judge_conclude(&j,
                   c->rows                 ? 1e-5
                   : c->past || c->attends ? 1e-6
                                           : 1e-10,
                   what);
}

/* By the target, and by one without series, of the same data. */
static void run(runner *r, const gpu_target *target, layer c)
{
    gpu_target without = *target;
    gpu_code *code = NULL;
    made m;
    make(&m, &c);
    sample other = m.b;
    for (uint32_t t = 0; t < m.b.g.sub.n_tensors; t++) {
        other.data[t] = malloc(m.b.size[t]);
        assert_non_null(other.data[t]);
        memcpy(other.data[t], m.b.data[t], m.b.size[t]);
    }
    assert_int_equal(gpu_lower(&test_host, target, &m.b.g.sub, &code), CLV_OK);
    assert_int_equal(code->n_dispatches, c.kernels);
    gpu_code_free(&test_host, code);
    runner_set(r, target);
    runner_run(r, &m.b.g, m.b.data, m.b.size, NULL);
    without.disabled =
        c.rows > 2 ? "gemv_series_rows,gemv_tensor,gemv_fused" : "gemv_series";
    runner_set(r, &without);
    runner_run(r, &other.g, other.data, other.size, NULL);
    if (m.sum)
        assert_memory_equal(m.b.data[m.sum], other.data[m.sum],
                            m.b.size[m.sum]);
    for (int64_t i = 0; i < m.rows; i++) {
        const int64_t row = CACHE_ROWS - 2 - i;
        compare(&m.b, &other, m.keys, row, HEAD, &c, i == 0, "keys");
        compare(&m.b, &other, m.values, row, HEAD, &c, i == 0, "values");
        compare(&m.b, &other, m.seen, i, queries_of(&c), &c, i == 0, "queries");
    }
    sample_free(&other);
    sample_free(&m.b);
}

/* A product that has no neighbour, of many channels. */
static void run_alone(runner *r, const gpu_target *base_target, uint32_t dtype,
                      int64_t rows, int64_t in)
{
    enum { OUT = 520 };
    gpu_target target = *base_target;
    gpu_code *code = NULL;
    bool series = false;
    layer c = {.dtype = dtype, .rows = rows};
    made m = {.rows = rows};
    graph_init(&m.b.g);
    target.units = 1;
    m.x = add_rows(&m, CLV_USAGE_INPUT, in);
    m.seen = add_product(&m, &c, m.x, in, OUT);
    m.b.g.tensors[m.seen].usage = CLV_USAGE_OUTPUT;
    sample_fill(&m.b, m.x);
    sample_fill(&m.b, m.x + 1);
    float *got = malloc(m.b.size[m.seen]), *want = m.b.data[m.seen];
    assert_non_null(got);
    assert_int_equal(gpu_lower(&test_host, &target, &m.b.g.sub, &code), CLV_OK);
    for (uint32_t i = 0; i < code->n_kernels; i++)
        series = series || strstr(code->kernels[i].variant, "gemv_series");
    assert_true(series);
    gpu_code_free(&test_host, code);
    runner_set(r, &target);
    runner_run(r, &m.b.g, m.b.data, m.b.size, NULL);
    memcpy(got, want, m.b.size[m.seen]);
    target.series = false;
    runner_set(r, &target);
    runner_run(r, &m.b.g, m.b.data, m.b.size, NULL);
    judge j = {0, 0};
    for (int64_t i = 0; i < rows * OUT; i++)
        judge_expect(&j, got[i], want[i]);
    judge_conclude(&j, rows > 1 ? 1e-6 : 1e-10, "a product alone");
    free(got);
    sample_free(&m.b);
}

static bool all; /* the argument: formats of weights */

/* With minimums, with sub-blocks, and those whose tiles share a head. */
static void run_formats(runner *r, const gpu_target *target, int64_t rows)
{
    static const uint32_t dtypes[] = {
        CLV_DTYPE_Q4_K, CLV_DTYPE_Q4_1, CLV_DTYPE_Q3_K, CLV_DTYPE_Q2_K,
        CLV_DTYPE_F16,  CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K};
    const uint32_t n = all ? sizeof dtypes / sizeof *dtypes : 3;
    for (uint32_t i = 0; i < n; i++)
        run_alone(r, target, dtypes[i], rows, 1024);
}

static const layer base = {.dtype = CLV_DTYPE_Q8_0,
                           .heads = 256,
                           .hidden = 384,
                           .inner = 512,
                           .cache = CLV_DTYPE_F32,
                           .kernels = 4};

static runner *open_runner(gpu_target *target)
{
    *target = sample_target;
    target->plain_matrix = true;
    target->local_bytes = 48 * 1024;
    target->wgmma_bytes = 256 * 1024;
    target->series = true;
    return runner_open(target);
}

/* As it is, with odd channels, and with x that lies anywhere. */
static void run_odd(runner *r, const gpu_target *target, layer c)
{
    static const float odd[] = {0, 3e5f, -INFINITY, NAN};
    for (uint32_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        c.odd = odd[i];
        run(r, target, c);
    }
    c.odd = 0;
    runner_shift(r, 0);
    run(r, target, c);
    runner_shift(r, UINT32_MAX);
}

/* Of weights of several formats, with places of x in different orders. */
static void run_mixed(runner *r, const gpu_target *base_target, int64_t rows)
{
    static const uint32_t pairs[][2] = {{CLV_DTYPE_Q8_0, CLV_DTYPE_Q2_K},
                                        {CLV_DTYPE_Q3_K, CLV_DTYPE_F16},
                                        {CLV_DTYPE_Q4_K, CLV_DTYPE_Q6_K}};
    gpu_target target = *base_target;
    layer c = base;
    c.rows = rows;
    c.hidden = 512;
    for (uint32_t i = 0; i < (all ? 3 : 1); i++) {
        c.dtype = pairs[i][0];
        c.other = pairs[i][1];
        c.brief = !all; /* compilers take long */
        if (i == 2)
            c.heads = c.hidden = c.inner = 1024;
        run(r, &target, c);
    }
    if (rows || !all)
        return;
    target.units = 64;
    c.past = CLV_DTYPE_F16;
    c.shared = 2;
    run(r, &target, c);
}

/* Several rows of x: fewer than columns, and pieces of the longest. */
static void test_rows(void **state)
{
    gpu_target target;
    runner *r = open_runner(&target);
    layer c = base;
    (void)state;
    if (!r)
        skip();
    c.rows = 5;
    run_odd(r, &target, c);
    c.dtype = CLV_DTYPE_Q4_0;
    c.rows = 3;
    c.halves = c.bias = c.gelu = true;
    c.cache = CLV_DTYPE_F16;
    c.hidden = 256; /* a group of items keeps sums of all its strips */
    c.inner = 4608;
    run(r, &target, c);
    run_formats(r, &target, 8);
    run_mixed(r, &target, 3);
    if (all) {
        c = base;
        c.rows = 8;
        c.dtype = CLV_DTYPE_Q4_K;
        c.heads = c.hidden = c.inner = 1024;
        run(r, &target, c);
    }
    /* As exact as floats, which several rows in a series are not. */
    c = base;
    c.rows = 2;
    c.kernels = 7; /* none of them a series */
    run(r, &target, c);
    runner_close(r);
}

/* Sines and cosines, the rows of the caches, the series, what is seen. */
static void test_series(void **state)
{
    gpu_target target;
    runner *r = open_runner(&target);
    layer c = base;
    (void)state;
    if (!r)
        skip();
    run_odd(r, &target, c);
    c.dtype = CLV_DTYPE_Q4_0;
    c.halves = c.bias = c.gelu = true;
    c.cache = CLV_DTYPE_F16;
    run(r, &target, c);
    /* With an attention in front, whose cache is long and has parts for many
     * units, or behind, which sees what the series adds to it. Compilers take
     * long for each, so these have the other formats, and some of them no gated
     * product: its code is the same in all. */
    target.units = 64;
    c = base;
    c.dtype = CLV_DTYPE_F16;
    c.past = CLV_DTYPE_F16;
    c.shared = 2;
    c.brief = !all;
    run(r, &target, c);
    c.brief = false;
    c.bias = true;
    run(r, &target, c);
    c = base;
    c.dtype = CLV_DTYPE_I8;
    c.past = CLV_DTYPE_Q8_0;
    c.shared = 16; /* more than a group of items takes at once */
    c.heads = c.shared * HEAD;
    c.window = 200;
    c.brief = !all;
    run(r, &target, c);
    /* Layers that are one kernel, for which each has arguments of its own. The
     * compiler takes a minute for whole ones. */
    c = base;
    c.past = CLV_DTYPE_F16;
    c.shared = 2;
    c.repeats = MAX_LAYERS - 1;
    c.brief = !all;
    target.repeats = UINT32_MAX;
    run(r, &target, c);
    target.repeats = 0;
    target.units = sample_target.units;
    c = base;
    c.dtype = CLV_DTYPE_I4;
    c.halves = true;
    c.cache = CLV_DTYPE_F16;
    c.attends = true;
    c.brief = !all;
    c.kernels = 3;
    run(r, &target, c);
    run_formats(r, &target, 1);
    run_mixed(r, &target, 0);
    c = base;
    c.dtype = CLV_DTYPE_Q4_K;
    if (all) {
        c.heads = c.hidden = c.inner = 1024;
        run(r, &target, c);
    }
    /* Too few channels for heads that tiles share. */
    c.heads = c.inner = 1024;
    c.hidden = 256;
    c.kernels = 7;
    run(r, &target, c);
    /* Too few channels of the first for two warps. */
    c = base;
    c.heads = 128;
    c.kernels = 5;
    c.inner = 512;
    run(r, &target, c);
    runner_close(r);
}

/* That begin with a sum of what several devices have, and write it. */
static void test_sums(void **state)
{
    gpu_target target;
    runner *r = open_runner(&target);
    layer c = base;
    (void)state;
    if (!r)
        skip();
    c.heads = c.hidden;
    c.terms = 2;
    run_odd(r, &target, c); /* the second step adds the sum, too */
    c.terms = 4;
    c.dtype = CLV_DTYPE_F16;
    c.brief = true; /* there is one step alone */
    run(r, &target, c);
    c.hidden_sum = true;
    run(r, &target, c);
    c.hidden_sum = false;
    c.terms = 5; /* one too many: a kernel for the first */
    c.kernels = 5;
    run(r, &target, c);
    runner_close(r);
}

static uint32_t pick(uint32_t n)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* What there may be in any order, of sizes that a series takes. */
static layer pick_layer(void)
{
    static const uint32_t dtypes[] = {
        CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0, CLV_DTYPE_F16,  CLV_DTYPE_I8,
        CLV_DTYPE_I4,   CLV_DTYPE_Q4_K, CLV_DTYPE_Q6_K, CLV_DTYPE_Q2_K};
    const uint32_t n = sizeof dtypes / sizeof *dtypes;
    static const uint32_t caches[] = {CLV_DTYPE_F32, CLV_DTYPE_F16};
    static const uint32_t pasts[] = {0, CLV_DTYPE_F16, CLV_DTYPE_Q8_0};
    static const int64_t rows[] = {0, 0, 0, 2, 3, 8};
    layer c = {.dtype = dtypes[pick(n)],
               .rows = rows[pick(6)],
               .heads = 2048,
               .hidden = 2048,
               .inner = 2048 << pick(2),
               .halves = pick(2),
               .bias = !pick(4),
               .gelu = pick(2),
               .cache = caches[pick(2)],
               .past = pasts[pick(3)],
               .shared = 1 << pick(5),
               .window = 200 * pick(2),
               .brief = pick(2),
               .repeats = pick(MAX_LAYERS)};
    c.other = pick(2) ? dtypes[pick(n)] : 0;
    c.terms = c.past || pick(2) ? 0 : 1 + pick(5);
    c.hidden_sum = pick(2);
    c.attends = !c.rows && pick(2);
    return c;
}

/* All that layers may be has kernels, for a GPU whose series exchange. */
static void test_lowered(void **state)
{
    const uint32_t n = all ? 4000 : 120;
    gpu_target target = sample_target;
    uint32_t n_series = 0;
    (void)state;
    target.nvidia_ptx = target.series = true;
    target.local_bytes = 49152;
    target.wgmma_bytes = 232448;
    target.max_group = target.max_group_size[0] = 1024;
    for (uint32_t i = 0; i < n; i++) {
        const layer c = pick_layer();
        gpu_code *code = NULL;
        bool series = false;
        inputs in;
        made m;
        target.units = 1 + pick(132);
        target.repeats = pick(2) ? UINT32_MAX : 0;
        build(&m, &c, &in);
        if (gpu_lower(&test_host, &target, &m.b.g.sub, &code))
            fail_msg("layer %u: dtype %u, rows %d, past %u, terms %u: %s", i,
                     c.dtype, (int)c.rows, c.past, c.terms, test_error());
        for (uint32_t k = 0; k < code->n_kernels; k++)
            series = series || strstr(code->kernels[k].variant, "gemv_series");
        n_series += series;
        gpu_code_free(&test_host, code);
        sample_free(&m.b);
    }
    assert_true(n_series > n / 2);
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowered),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
