/*
 * A small layer of a transformer, with experts, in weights of any type, that is
 * run to compare what plans of it give.
 */
#pragma once

#include "test.h"

#include <math.h>
#include <stdlib.h>

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

static inline clv_value weight(layer *l, clv_context *ctx, test_random *r,
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
static inline clv_value scaled(layer *l, clv_context *ctx, test_random *r,
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

static inline clv_value matmul(layer *l, clv_context *ctx, test_random *r,
                               clv_value x, int64_t out, int64_t in, bool bias)
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
static inline clv_value expert_weight(layer *l, clv_context *ctx,
                                      test_random *r, int64_t rows,
                                      int64_t columns)
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
static inline clv_value experts(layer *l, clv_context *ctx, test_random *r,
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

static inline clv_value attend(layer *l, clv_context *ctx, test_random *r,
                               clv_value x, clv_dim rows)
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
    clv_value y = clv_graph_attention(g, q, l->k_state, l->v_state, l->pos,
                                      CLV_NO_TENSOR, &params);
    return matmul(l, ctx, r, y, HIDDEN, HEADS * HEAD_DIM, false);
}

static inline void release(void *memory)
{
    free(memory);
}

/* Not where memory begins that devices import. */
static inline clv_tensor *cache(clv_context *ctx, const int64_t *dims)
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

static inline void build(layer *l, clv_context *ctx, test_random *r,
                         int64_t tokens)
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

static inline void layer_free(layer *l)
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
static inline void run(layer *l, clv_plan *plan, results *out)
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

static inline void assert_same(const layer *l, const results *a,
                               const results *b, double bound)
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
