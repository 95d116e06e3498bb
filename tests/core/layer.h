/*
 * A graph of one layer of a transformer, with its table and output, in any
 * shape. All weights are the same block of memory: it has to be planned and
 * measured, not run.
 */
#pragma once

#include "test.h"

#include <stdlib.h>

typedef struct test_shape {
    int64_t hidden, heads, groups, head_dim, ffn, vocabulary;
    int64_t tokens;  /* most, of a symbol; 1: fixed */
    int64_t context; /* rows of the cache */
    uint32_t dtype;  /* of the weights: F16, Q8_0, Q4_0, or I4 with scales */
} test_shape;

#define TEST_LAYER_WEIGHTS 32

typedef struct test_layer {
    const test_shape *shape;
    clv_context *ctx;
    clv_graph *graph;
    clv_tensor *weights[TEST_LAYER_WEIGHTS];
    uint32_t n_weights;
    void *block;
    uint64_t block_size;
} test_layer;

static inline clv_tensor *test_layer_tensor(test_layer *l, uint32_t dtype,
                                            int64_t rows, int64_t columns)
{
    const int64_t dims[] = {rows ? rows : columns, columns};
    clv_tensor *t;
    assert_true(l->n_weights < TEST_LAYER_WEIGHTS);
    assert_ok(clv_tensor_wrap(l->ctx, dtype, rows ? 2 : 1, dims, l->block,
                              l->block_size, CLV_ACCESS_READ, NULL, NULL, &t));
    return l->weights[l->n_weights++] = t;
}

static inline clv_value test_layer_weight(test_layer *l, uint32_t dtype,
                                          int64_t rows, int64_t columns)
{
    clv_tensor *t = test_layer_tensor(l, dtype, rows, columns);
    if (dtype == CLV_DTYPE_I4 || dtype == CLV_DTYPE_I8)
        assert_ok(
            clv_tensor_set_quant(t, CLV_QUANT_PER_CHANNEL, 0,
                                 test_layer_tensor(l, CLV_DTYPE_F32, 0, rows)));
    return clv_graph_weight(l->graph, "w", t);
}

static inline clv_value test_layer_matmul(test_layer *l, clv_value x,
                                          int64_t out, int64_t in)
{
    return clv_graph_matmul(l->graph, x,
                            test_layer_weight(l, l->shape->dtype, out, in),
                            CLV_NO_TENSOR);
}

static inline clv_value test_layer_attend(test_layer *l, clv_value x,
                                          clv_value pos, clv_dim rows)
{
    const test_shape *s = l->shape;
    clv_graph *g = l->graph;
    const int64_t cache[] = {s->context, s->groups * s->head_dim};
    clv_value freq = test_layer_weight(l, CLV_DTYPE_F32, 0, s->head_dim / 2);
    clv_value q = test_layer_matmul(l, x, s->heads * s->head_dim, s->hidden);
    clv_value k = test_layer_matmul(l, x, cache[1], s->hidden);
    clv_value v = test_layer_matmul(l, x, cache[1], s->hidden);
    clv_value ks = clv_graph_state(g, "k", CLV_DTYPE_F16, 2, cache);
    clv_value vs = clv_graph_state(g, "v", CLV_DTYPE_F16, 2, cache);
    uint32_t dim = (uint32_t)s->head_dim;
    q = clv_graph_rope(g, q, pos, freq, CLV_ROPE_HALVES, dim, 0);
    k = clv_graph_rope(g, k, pos, freq, CLV_ROPE_HALVES, dim, 0);
    clv_graph_set_rows(g, ks, k, pos);
    clv_graph_set_rows(g, vs, v, pos);
    const clv_attention_params params = {.head_dim = dim, .rows = rows};
    clv_value y =
        clv_graph_attention(g, q, ks, vs, pos, CLV_NO_TENSOR, &params);
    return test_layer_matmul(l, y, s->hidden, s->heads * s->head_dim);
}

static inline void test_layer_make(test_layer *l, clv_context *ctx,
                                   const test_shape *s)
{
    *l = (test_layer){.shape = s, .ctx = ctx};
    int64_t longest = s->ffn > s->vocabulary ? s->ffn : s->vocabulary;
    l->block_size = (uint64_t)(s->hidden * longest * 4);
    l->block = aligned_alloc(4096, (l->block_size + 4095) & ~UINT64_C(4095));
    assert_non_null(l->block);
    memset(l->block, 0x11, l->block_size);
    assert_ok(clv_graph_create(&l->graph));
    clv_graph *g = l->graph;
    clv_dim n = s->tokens > 1 ? clv_graph_symbol(g, "n", 1, s->tokens)
                              : clv_dim_fixed(1);
    clv_dim rows = clv_graph_symbol(g, "rows", 1, s->context);
    clv_dim one = clv_dim_fixed(1);
    clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    clv_value pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
    clv_value out_ids = clv_graph_input(g, "out", CLV_DTYPE_I32, 1, &one);
    clv_value norm = test_layer_weight(l, CLV_DTYPE_F32, 0, s->hidden);
    clv_value table =
        test_layer_weight(l, CLV_DTYPE_F16, s->vocabulary, s->hidden);
    clv_value x = clv_graph_get_rows(g, table, ids);
    clv_value h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    x = clv_graph_add(g, x, test_layer_attend(l, h, pos, rows));
    h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    clv_value gate = test_layer_matmul(l, h, s->ffn, s->hidden);
    clv_value up = test_layer_matmul(l, h, s->ffn, s->hidden);
    h = clv_graph_glu(g, gate, up, CLV_ACT_SILU);
    x = clv_graph_add(g, x, test_layer_matmul(l, h, s->hidden, s->ffn));
    x = clv_graph_get_rows(g, x, out_ids);
    clv_graph_output(g, test_layer_matmul(l, x, s->vocabulary, s->hidden),
                     "logits");
    assert_ok(clv_graph_check(g));
}

static inline void test_layer_free(test_layer *l)
{
    clv_graph_destroy(l->graph);
    for (uint32_t i = 0; i < l->n_weights; i++)
        clv_tensor_destroy(l->weights[i]);
    free(l->block);
}
