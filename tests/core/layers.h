/* Layers of a transformer whose weights are zeros: graphs to plan for. */
#pragma once

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define LAYERS_MAX_WEIGHTS 256

typedef struct layers_shape {
    uint32_t n_layers;
    int64_t hidden, heads, groups, head_dim, ffn, vocabulary, context;
    int64_t tokens; /* 0: a symbol, up to max_tokens */
    int64_t max_tokens;
    uint32_t dtype, quant; /* of matrices; I8 and I4 with scales */
    uint32_t quant_group;
    uint32_t n_experts, n_used; /* 0: feed-forwards of all neurons; else of
                                   experts, in dtype */
    bool bias;
    bool askew; /* matrices lie at addresses that are odd for
                   devices with wishes */
} layers_shape;

typedef struct layers {
    layers_shape shape;
    clv_context *ctx;
    clv_graph *graph;
    clv_tensor *weights[LAYERS_MAX_WEIGHTS];
    uint32_t n_weights;
    clv_value pos, freq, norm;
    clv_dim rows;
} layers;

static inline clv_tensor *layers_tensor(layers *l, uint32_t dtype,
                                        uint32_t rank, const int64_t *dims)
{
    clv_tensor *t;
    assert_true(l->n_weights < LAYERS_MAX_WEIGHTS);
    assert_ok(clv_tensor_create(l->ctx, dtype, rank, dims, &t));
    return l->weights[l->n_weights++] = t;
}

static inline void layers_release(void *data)
{
    free(data);
}

static inline clv_tensor *layers_askew(layers *l, const int64_t *dims)
{
    uint64_t size;
    void *data = NULL;
    assert_ok(
        clv_dtype_size(l->shape.dtype, (uint64_t)(dims[0] * dims[1]), &size));
    assert_false(posix_memalign(&data, 64, size + 8));
    memset(data, 0, size + 8);
    assert_true(l->n_weights < LAYERS_MAX_WEIGHTS);
    assert_ok(clv_tensor_wrap(l->ctx, l->shape.dtype, 2, dims, (char *)data + 8,
                              size, CLV_ACCESS_READ, layers_release, data,
                              &l->weights[l->n_weights]));
    return l->weights[l->n_weights++];
}

static inline clv_value layers_matrix(layers *l, int64_t rows, int64_t columns)
{
    const layers_shape *s = &l->shape;
    const int64_t dims[] = {rows, columns};
    clv_tensor *t =
        s->askew ? layers_askew(l, dims) : layers_tensor(l, s->dtype, 2, dims);
    if (s->quant) {
        bool grouped = s->quant == CLV_QUANT_PER_GROUP;
        const int64_t scales[] = {s->quant == CLV_QUANT_PER_TENSOR ? 1 : rows,
                                  grouped ? columns / s->quant_group : 0};
        clv_tensor *d =
            layers_tensor(l, CLV_DTYPE_F32, grouped ? 2 : 1, scales);
        assert_ok(clv_tensor_set_quant(t, s->quant, s->quant_group, d));
    }
    return clv_graph_weight(l->graph, "w", t);
}

static inline clv_value layers_linear(layers *l, clv_value x, int64_t out,
                                      int64_t in)
{
    clv_value bias = CLV_NO_TENSOR;
    if (l->shape.bias)
        bias = clv_graph_weight(l->graph, "b",
                                layers_tensor(l, CLV_DTYPE_F32, 1, &out));
    return clv_graph_matmul(l->graph, x, layers_matrix(l, out, in), bias);
}

static inline clv_value layers_attend(layers *l, clv_value x)
{
    const layers_shape *s = &l->shape;
    clv_graph *g = l->graph;
    uint32_t head = (uint32_t)s->head_dim;
    int64_t wide = s->heads * s->head_dim, narrow = s->groups * s->head_dim;
    const int64_t cache[] = {s->context, narrow};
    clv_value k_state = clv_graph_state(g, "k", CLV_DTYPE_F16, 2, cache);
    clv_value v_state = clv_graph_state(g, "v", CLV_DTYPE_F16, 2, cache);
    clv_value q = layers_linear(l, x, wide, s->hidden);
    clv_value k = layers_linear(l, x, narrow, s->hidden);
    clv_value v = layers_linear(l, x, narrow, s->hidden);
    q = clv_graph_rope(g, q, l->pos, l->freq, CLV_ROPE_HALVES, head, 0);
    k = clv_graph_rope(g, k, l->pos, l->freq, CLV_ROPE_HALVES, head, 0);
    clv_graph_set_rows(g, k_state, k, l->pos);
    clv_graph_set_rows(g, v_state, v, l->pos);
    const clv_attention_params params = {.head_dim = head, .rows = l->rows};
    clv_value y = clv_graph_attention(g, q, k_state, v_state, l->pos,
                                      CLV_NO_TENSOR, &params);
    return layers_linear(l, y, s->hidden, wide);
}

static inline clv_value layers_experts(layers *l, int64_t out, int64_t in)
{
    const int64_t dims[] = {l->shape.n_experts, out, in};
    return clv_graph_weight(l->graph, "e",
                            layers_tensor(l, l->shape.dtype, 3, dims));
}

static inline clv_value layers_feed_forward(layers *l, clv_value x)
{
    const layers_shape *s = &l->shape;
    clv_graph *g = l->graph;
    if (!s->n_experts) {
        clv_value gate = layers_linear(l, x, s->ffn, s->hidden);
        clv_value up = layers_linear(l, x, s->ffn, s->hidden);
        x = clv_graph_glu(g, gate, up, CLV_ACT_SILU);
        return layers_linear(l, x, s->hidden, s->ffn);
    }
    clv_value scores =
        clv_graph_softmax(g, layers_linear(l, x, s->n_experts, s->hidden));
    clv_value ids = clv_graph_top_k(g, scores, s->n_used);
    clv_value gate = clv_graph_matmul_experts(
        g, x, layers_experts(l, s->ffn, s->hidden), ids, CLV_NO_TENSOR, false);
    clv_value up = clv_graph_matmul_experts(
        g, x, layers_experts(l, s->ffn, s->hidden), ids, CLV_NO_TENSOR, false);
    x = clv_graph_glu(g, gate, up, CLV_ACT_SILU);
    return clv_graph_matmul_experts(g, x, layers_experts(l, s->hidden, s->ffn),
                                    ids, scores, true);
}

static inline void layers_build(layers *l, clv_context *ctx,
                                const layers_shape *s)
{
    *l = (layers){.shape = *s, .ctx = ctx};
    assert_ok(clv_graph_create(&l->graph));
    clv_graph *g = l->graph;
    clv_dim n = s->tokens ? clv_dim_fixed(s->tokens)
                          : clv_graph_symbol(g, "n", 1, s->max_tokens);
    l->rows = clv_graph_symbol(g, "rows", 1, s->context);
    clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    l->pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
    const int64_t half = s->head_dim / 2;
    l->freq =
        clv_graph_weight(g, "freq", layers_tensor(l, CLV_DTYPE_F32, 1, &half));
    l->norm = clv_graph_weight(g, "norm",
                               layers_tensor(l, CLV_DTYPE_F32, 1, &s->hidden));
    clv_value table = layers_matrix(l, s->vocabulary, s->hidden);
    clv_value x = clv_graph_get_rows(g, table, ids);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        clv_value h = clv_graph_rms_norm(g, x, l->norm, 1e-5f);
        x = clv_graph_add(g, x, layers_attend(l, h));
        h = clv_graph_rms_norm(g, x, l->norm, 1e-5f);
        x = clv_graph_add(g, x, layers_feed_forward(l, h));
    }
    clv_value logits = clv_graph_matmul(g, x, table, CLV_NO_TENSOR);
    clv_graph_output(g, logits, "logits");
    assert_ok(clv_graph_check(g));
}

static inline void layers_free(layers *l)
{
    clv_graph_destroy(l->graph);
    for (uint32_t i = 0; i < l->n_weights; i++)
        clv_tensor_destroy(l->weights[i]);
}
