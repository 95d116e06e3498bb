#include "blocks.h"

/* CLV_NO_TENSOR for NULL. */
static clv_value use(llm_graph *g, const llm_weight *w)
{
    return w ? clv_graph_weight(g->graph, w->name, w->tensor) : CLV_NO_TENSOR;
}

/* What a weight is multiplied with: x, rounded where the weight says so. */
static clv_value factor(llm_graph *g, clv_value x, const llm_weight *w)
{
    if (g->observe)
        g->observe(g->observe_ctx, x, w);
    if (!w->input_scale)
        return x;
    if (x != g->unrounded || w->input_scale != g->rounded_by) {
        g->rounded = clv_graph_round(g->graph, x, w->input_scale);
        g->unrounded = x;
        g->rounded_by = w->input_scale;
    }
    return g->rounded;
}

clv_value llm_linear_of(llm_graph *g, clv_value x, const llm_linear *w)
{
    const clv_value weight = use(g, w->weight);
    return clv_graph_matmul(g->graph, factor(g, x, w->weight), weight,
                            use(g, w->bias));
}

clv_value llm_rms_norm(llm_graph *g, clv_value x, const llm_linear *w)
{
    return clv_graph_rms_norm(g->graph, x, use(g, w->weight), g->hp->norm_eps);
}

clv_value llm_embed(llm_graph *g)
{
    g->embd = use(g, g->weights->model[LLM_TOKEN_EMBD].weight);
    g->freqs = use(g, g->weights->rope_freqs);
    return clv_graph_get_rows(g->graph, g->embd, g->ids);
}

static clv_value rope(llm_graph *g, clv_value x)
{
    return clv_graph_rope(g->graph, x, g->pos, g->freqs, g->hp->rope_mode,
                          g->hp->head_dim, 1);
}

clv_value llm_attention(llm_graph *g, uint32_t layer, clv_value x)
{
    const llm_linear *w = g->weights->layers[layer];
    clv_value q = llm_linear_of(g, x, &w[LLM_ATTN_Q]);
    clv_value k = llm_linear_of(g, x, &w[LLM_ATTN_K]);
    const clv_value v = llm_linear_of(g, x, &w[LLM_ATTN_V]);
    q = rope(g, q);
    k = rope(g, k);
    clv_graph_set_rows(g->graph, g->k[layer], k, g->pos);
    clv_graph_set_rows(g->graph, g->v[layer], v, g->pos);
    const clv_attention_params params = {
        .head_dim = g->hp->head_dim,
        .window = (int32_t)g->hp->sliding_window,
        .rows = g->rows,
    };
    return clv_graph_attention(g->graph, q, g->k[layer], g->v[layer], g->pos,
                               &params);
}

static clv_value all_neurons(llm_graph *g, const llm_linear *w, clv_value x,
                             uint32_t act)
{
    const clv_value gate = llm_linear_of(g, x, &w[LLM_FFN_GATE]);
    const clv_value up = llm_linear_of(g, x, &w[LLM_FFN_UP]);
    const clv_value mid = clv_graph_glu(g->graph, gate, up, act);
    return llm_linear_of(g, mid, &w[LLM_FFN_DOWN]);
}

/* The experts with the largest scores, summed by their scores, which add up to
 * one. */
static clv_value best_experts(llm_graph *g, const llm_linear *w, clv_value x,
                              uint32_t act)
{
    const clv_value none = CLV_NO_TENSOR;
    const clv_value scores =
        clv_graph_softmax(g->graph, llm_linear_of(g, x, &w[LLM_FFN_ROUTER]));
    const clv_value ids =
        clv_graph_top_k(g->graph, scores, g->hp->n_experts_used);
    const clv_value gate = clv_graph_matmul_experts(
        g->graph, x, use(g, w[LLM_FFN_GATE].weight), ids, none, false);
    const clv_value up = clv_graph_matmul_experts(
        g->graph, x, use(g, w[LLM_FFN_UP].weight), ids, none, false);
    const clv_value mid = clv_graph_glu(g->graph, gate, up, act);
    return clv_graph_matmul_experts(
        g->graph, mid, use(g, w[LLM_FFN_DOWN].weight), ids, scores, true);
}

clv_value llm_feed_forward(llm_graph *g, uint32_t layer, clv_value x,
                           uint32_t act)
{
    const llm_linear *w = g->weights->layers[layer];
    return w[LLM_FFN_ROUTER].weight ? best_experts(g, w, x, act)
                                    : all_neurons(g, w, x, act);
}

void llm_select_rows(llm_graph *g, uint32_t layer, clv_value *x, clv_value *y)
{
    if (layer + 1 < g->hp->n_layers || g->out_ids == CLV_NO_TENSOR)
        return;
    *x = clv_graph_get_rows(g->graph, *x, g->out_ids);
    *y = clv_graph_get_rows(g->graph, *y, g->out_ids);
}

clv_value llm_logits(llm_graph *g, clv_value x)
{
    const llm_linear *ends = g->weights->model;
    const llm_weight *output = ends[LLM_OUTPUT].weight;
    const llm_weight *w = output ? output : ends[LLM_TOKEN_EMBD].weight;
    return clv_graph_matmul(g->graph, factor(g, x, w),
                            output ? use(g, output) : g->embd, CLV_NO_TENSOR);
}

clv_value llm_pre_norm_model(llm_graph *g, uint32_t act)
{
    const llm_linear *ends = g->weights->model;
    clv_value x = llm_embed(g);
    for (uint32_t i = 0; i < g->hp->n_layers; i++) {
        const llm_linear *w = g->weights->layers[i];
        clv_value y = llm_rms_norm(g, x, &w[LLM_ATTN_NORM]);
        y = llm_attention(g, i, y);
        llm_select_rows(g, i, &x, &y);
        y = llm_linear_of(g, y, &w[LLM_ATTN_OUTPUT]);
        x = clv_graph_add(g->graph, x, y);
        y = llm_rms_norm(g, x, &w[LLM_FFN_NORM]);
        y = llm_feed_forward(g, i, y, act);
        x = clv_graph_add(g->graph, x, y);
    }
    x = llm_rms_norm(g, x, &ends[LLM_OUTPUT_NORM]);
    return llm_logits(g, x);
}
