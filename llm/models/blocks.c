#include "blocks.h"

#include <math.h>

/* CLV_NO_TENSOR for NULL. */
static clv_value use(llm_graph *g, const llm_weight *w)
{
    return w ? clv_graph_weight(g->graph, w->name, w->tensor) : CLV_NO_TENSOR;
}

/* x rounded for a weight. */
static clv_value round_for(llm_graph *g, clv_value x, const llm_weight *w)
{
    if (x != g->unrounded || w->input_scale != g->rounded_by) {
        g->rounded = clv_graph_round(g->graph, x, w->input_scale);
        g->unrounded = x;
        g->rounded_by = w->input_scale;
        g->cut = CLV_NO_TENSOR;
    }
    return g->rounded;
}

/* The product of what rounding x cut off: few channels of a row have something
 * of it, each of which is an expert with one input, that is always 1. */
static clv_value outliers(llm_graph *g, clv_value x, const llm_weight *w)
{
    if (g->cut != x || g->bound != w->outlier_bound) {
        g->left = clv_graph_excess(g->graph, x, 127 * w->input_scale);
        g->channels = clv_graph_nonzero(g->graph, g->left, w->outlier_bound);
        g->cut = x;
        g->bound = w->outlier_bound;
    }
    return clv_graph_matmul_experts(g->graph, g->ones, use(g, w->outliers),
                                    g->channels, g->left, false);
}

/* x * weight + bias. What is rounded for w is a sum of two parts, which may be
 * computed on two devices at once. */
static clv_value product(llm_graph *g, clv_value x, const llm_weight *w,
                         clv_value weight, clv_value bias)
{
    if (g->observe)
        x = g->observe(g->observe_ctx, x, w);
    if (!w->input_scale)
        return clv_graph_matmul(g->graph, x, weight, bias);
    const clv_value y = clv_graph_matmul_rounded(g->graph, round_for(g, x, w),
                                                 weight, bias, w->input_scale);
    return w->outliers ? clv_graph_add(g->graph, y, outliers(g, x, w)) : y;
}

clv_value llm_linear_of(llm_graph *g, clv_value x, const llm_linear *w)
{
    return product(g, x, w->weight, use(g, w->weight), use(g, w->bias));
}

clv_value llm_norm(llm_graph *g, clv_value x, const llm_linear *w)
{
    const clv_value weight = use(g, w->weight);
    return g->hp->arch->layer_norm
               ? clv_graph_layer_norm(g->graph, x, weight, use(g, w->bias),
                                      g->hp->norm_eps)
               : clv_graph_rms_norm(g->graph, x, weight, g->hp->norm_eps);
}

clv_value llm_embed(llm_graph *g)
{
    const llm_weight *const *rope = g->weights->rope;
    g->embd = use(g, g->weights->model[LLM_TOKEN_EMBD].weight);
    g->rope[LLM_ROPE_MAIN] = g->rope_main == CLV_NO_TENSOR
                                 ? use(g, rope[LLM_ROPE_MAIN])
                                 : g->rope_main;
    g->rope[LLM_ROPE_LOCAL] = rope[LLM_ROPE_LOCAL]
                                  ? use(g, rope[LLM_ROPE_LOCAL])
                                  : g->rope[LLM_ROPE_MAIN];
    return clv_graph_get_rows(g->graph, g->embd, g->ids);
}

/* ------------------------------------------------------------------------ */
/* Attention                                                                */

static clv_value turn(llm_graph *g, clv_value x, bool windowed)
{
    const llm_hparams *hp = g->hp;
    const bool local = windowed && g->weights->rope[LLM_ROPE_LOCAL];
    const float factor =
        hp->rope_attn_factor && !local ? hp->rope_attn_factor : 1;
    return clv_graph_rope(g->graph, x, g->pos,
                          g->rope[local ? LLM_ROPE_LOCAL : LLM_ROPE_MAIN],
                          hp->rope_mode, hp->head_dim, factor);
}

/* q or k: normalised head by head where the layer has weights, then rotated. */
static clv_value place(llm_graph *g, clv_value x, const llm_linear *norm,
                       bool windowed)
{
    if (norm->weight)
        x = clv_graph_head_norm(g->graph, x, use(g, norm->weight),
                                g->hp->head_dim, g->hp->norm_eps);
    return turn(g, x, windowed);
}

clv_value llm_attention(llm_graph *g, uint32_t layer, clv_value x)
{
    const llm_hparams *hp = g->hp;
    const llm_linear *w = g->weights->layers[layer];
    const bool windowed =
        hp->sliding_window && !(hp->layers[layer] & LLM_LAYER_FULL);
    /* The products first: devices do them together. */
    clv_value q = llm_linear_of(g, x, &w[LLM_ATTN_Q]);
    clv_value k = llm_linear_of(g, x, &w[LLM_ATTN_K]);
    const clv_value v = llm_linear_of(g, x, &w[LLM_ATTN_V]);
    q = place(g, q, &w[LLM_ATTN_Q_NORM], windowed);
    k = place(g, k, &w[LLM_ATTN_K_NORM], windowed);
    clv_graph_set_rows(g->graph, g->k[layer], k, g->cache_rows);
    clv_graph_set_rows(g->graph, g->v[layer], v, g->cache_rows);
    const clv_attention_params params = {
        .head_dim = hp->head_dim,
        .scale = hp->query_scalar ? 1 / sqrtf(hp->query_scalar) : 0,
        .softcap = hp->attn_softcap,
        .window = windowed ? (int32_t)hp->sliding_window : 0,
        .rows = g->rows,
        .seen = g->seen,
        .apart = g->apart,
    };
    return clv_graph_attention(g->graph, q, g->k[layer], g->v[layer],
                               g->cache_rows, g->first, &params);
}

/* ------------------------------------------------------------------------ */
/* Feed-forward                                                             */

static clv_value all_neurons(llm_graph *g, const llm_linear *w, clv_value x)
{
    const clv_value gate = llm_linear_of(g, x, &w[LLM_FFN_GATE]);
    const clv_value up = llm_linear_of(g, x, &w[LLM_FFN_UP]);
    const clv_value mid =
        clv_graph_glu(g->graph, gate, up, g->hp->arch->activation);
    return llm_linear_of(g, mid, &w[LLM_FFN_DOWN]);
}

/* The sum of the experts of those ids, times their scores. w: their gate, up
 * and down. */
static clv_value best_experts(llm_graph *g, const llm_linear *w, clv_value x,
                              clv_value ids, clv_value scores, bool normalised)
{
    const clv_value none = CLV_NO_TENSOR;
    const clv_value gate = clv_graph_matmul_experts(
        g->graph, x, use(g, w[0].weight), ids, none, false);
    const clv_value up = clv_graph_matmul_experts(
        g->graph, x, use(g, w[1].weight), ids, none, false);
    const clv_value mid =
        clv_graph_glu(g->graph, gate, up, g->hp->arch->activation);
    return clv_graph_matmul_experts(g->graph, mid, use(g, w[2].weight), ids,
                                    scores, normalised);
}

static clv_value routed_experts(llm_graph *g, uint32_t layer, clv_value x)
{
    const llm_linear *w = g->weights->layers[layer];
    const llm_hparams *hp = g->hp;
    const clv_value logits = llm_linear_of(g, x, &w[LLM_FFN_ROUTER]);
    const clv_value scores =
        hp->arch->sparse_mixer
            ? clv_graph_sparse_mixer(g->graph, logits, hp->router_jitter)
            : clv_graph_softmax(g->graph, logits);
    const clv_value ids = clv_graph_top_k(
        g->graph, hp->arch->sparse_mixer ? logits : scores, hp->n_experts_used);
    if (g->chosen) {
        clv_graph_output(g->graph, ids, "experts");
        g->chosen[layer] = ids;
    }
    return best_experts(g, &w[LLM_FFN_GATE], x, ids, scores,
                        hp->experts_normalised);
}

/* The one expert that all tokens use, times a score of its own. */
static clv_value shared_expert(llm_graph *g, const llm_linear *w, clv_value x)
{
    const clv_value score =
        clv_graph_sigmoid(g->graph, llm_linear_of(g, x, &w[LLM_SHARED_ROUTER]));
    const clv_value ids = clv_graph_top_k(g->graph, score, 1);
    return best_experts(g, &w[LLM_SHARED_GATE], x, ids, score, false);
}

clv_value llm_feed_forward(llm_graph *g, uint32_t layer, clv_value x)
{
    const llm_linear *w = g->weights->layers[layer];
    if (!w[LLM_FFN_ROUTER].weight)
        return all_neurons(g, w, x);
    clv_value y = routed_experts(g, layer, x);
    if (w[LLM_SHARED_ROUTER].weight)
        y = clv_graph_add(g->graph, y, shared_expert(g, w, x));
    return y;
}

/* ------------------------------------------------------------------------ */
/* Layers                                                                   */

void llm_select_rows(llm_graph *g, uint32_t layer, clv_value *const *values,
                     uint32_t n)
{
    if (layer + 1 < g->hp->n_layers || g->out_ids == CLV_NO_TENSOR)
        return;
    for (uint32_t i = 0; i < n; i++)
        *values[i] = clv_graph_get_rows(g->graph, *values[i], g->out_ids);
    if (g->ones != CLV_NO_TENSOR)
        g->ones = clv_graph_get_rows(g->graph, g->ones, g->out_ids);
}

/* The residual and what a part of the layer gives. */
static clv_value add(llm_graph *g, clv_value x, clv_value y,
                     const llm_linear *norm)
{
    return clv_graph_add(g->graph, x, norm->weight ? llm_norm(g, y, norm) : y);
}

clv_value llm_layers(llm_graph *g, clv_value x)
{
    for (uint32_t i = 0; i < g->hp->n_layers; i++) {
        const llm_linear *w = g->weights->layers[i];
        clv_value y = llm_norm(g, x, &w[LLM_ATTN_NORM]);
        y = llm_attention(g, i, y);
        llm_select_rows(g, i, (clv_value *[]){&x, &y}, 2);
        y = llm_linear_of(g, y, &w[LLM_ATTN_OUTPUT]);
        x = add(g, x, y, &w[LLM_ATTN_POST_NORM]);
        y = llm_norm(g, x, &w[LLM_FFN_NORM]);
        y = llm_feed_forward(g, i, y);
        x = add(g, x, y, &w[LLM_FFN_POST_NORM]);
    }
    return x;
}

clv_value llm_logits(llm_graph *g, clv_value x)
{
    const llm_linear *ends = g->weights->model, *output = &ends[LLM_OUTPUT];
    const llm_weight *w =
        output->weight ? output->weight : ends[LLM_TOKEN_EMBD].weight;
    x = llm_norm(g, x, &ends[LLM_OUTPUT_NORM]);
    x = product(g, x, w, output->weight ? use(g, w) : g->embd,
                use(g, output->bias));
    return g->hp->final_softcap
               ? clv_graph_softcap(g->graph, x, g->hp->final_softcap)
               : x;
}

clv_value llm_plain_model(llm_graph *g)
{
    return llm_logits(g, llm_layers(g, llm_embed(g)));
}

clv_value llm_scaled_model(llm_graph *g)
{
    const float factor = sqrtf((float)g->hp->n_embd);
    const clv_value x = clv_graph_scale(g->graph, llm_embed(g), factor);
    return llm_logits(g, llm_layers(g, x));
}

const char *const llm_names_of_silu[] = {"silu", "swish", NULL};
const char *const llm_names_of_gelu[] = {"gelu_pytorch_tanh", "gelu_new",
                                         "gelu_fast", NULL};

void llm_derive_late_window(llm_hparams *h)
{
    for (uint32_t i = 0; i < h->n_layers && i < h->window_first; i++)
        h->layers[i] |= LLM_LAYER_FULL;
    if (!h->window_used)
        h->sliding_window = 0;
}
