/* Llama and its like: Mistral, Mixtral, and others that differ in settings
 * only. */
#include "arch.h"
#include "../runtime/weights.h"

static void load_dense(llm_loader *l, const llm_hparams *hp, uint32_t i,
                       llm_layer *w)
{
    const int64_t embd = hp->n_embd, ff = hp->n_ff;
    w->gate = llm_load_matrix(l, ff, embd, "blk.%u.ffn_gate.weight", i);
    w->up = llm_load_matrix(l, ff, embd, "blk.%u.ffn_up.weight", i);
    w->down = llm_load_matrix(l, embd, ff, "blk.%u.ffn_down.weight", i);
    w->gate_bias = llm_load_optional_vector(l, ff, "blk.%u.ffn_gate.bias", i);
    w->up_bias = llm_load_optional_vector(l, ff, "blk.%u.ffn_up.bias", i);
    w->down_bias = llm_load_optional_vector(l, embd, "blk.%u.ffn_down.bias", i);
}

static void load_experts(llm_loader *l, const llm_hparams *hp, uint32_t i,
                         llm_layer *w)
{
    const int64_t n = hp->n_experts, embd = hp->n_embd, ff = hp->n_ff;
    w->router = llm_load_matrix(l, n, embd, "blk.%u.ffn_gate_inp.weight", i);
    w->gate_exps =
        llm_load_experts(l, n, ff, embd, "blk.%u.ffn_gate_exps.weight", i);
    w->up_exps =
        llm_load_experts(l, n, ff, embd, "blk.%u.ffn_up_exps.weight", i);
    w->down_exps =
        llm_load_experts(l, n, embd, ff, "blk.%u.ffn_down_exps.weight", i);
}

static void load_layer(llm_loader *l, const llm_hparams *hp, uint32_t i,
                       llm_layer *w)
{
    const int64_t embd = hp->n_embd;
    const int64_t q = (int64_t)hp->n_heads * hp->head_dim;
    const int64_t kv = (int64_t)hp->n_kv_heads * hp->head_dim;

    w->attn_norm = llm_load_vector(l, embd, "blk.%u.attn_norm.weight", i);
    w->q = llm_load_matrix(l, q, embd, "blk.%u.attn_q.weight", i);
    w->k = llm_load_matrix(l, kv, embd, "blk.%u.attn_k.weight", i);
    w->v = llm_load_matrix(l, kv, embd, "blk.%u.attn_v.weight", i);
    w->o = llm_load_matrix(l, embd, q, "blk.%u.attn_output.weight", i);
    w->q_bias = llm_load_optional_vector(l, q, "blk.%u.attn_q.bias", i);
    w->k_bias = llm_load_optional_vector(l, kv, "blk.%u.attn_k.bias", i);
    w->v_bias = llm_load_optional_vector(l, kv, "blk.%u.attn_v.bias", i);
    w->o_bias = llm_load_optional_vector(l, embd, "blk.%u.attn_output.bias", i);
    w->ffn_norm = llm_load_vector(l, embd, "blk.%u.ffn_norm.weight", i);
    if (hp->n_experts)
        load_experts(l, hp, i, w);
    else
        load_dense(l, hp, i, w);
}

static void load(llm_loader *l, const llm_hparams *hp, llm_weights *w)
{
    const int64_t embd = hp->n_embd, vocab = hp->n_vocab;
    w->token_embd = llm_load_matrix(l, vocab, embd, "token_embd.weight");
    w->output_norm = llm_load_vector(l, embd, "output_norm.weight");
    w->output = llm_load_optional_matrix(l, vocab, embd, "output.weight");
    if (!w->output)
        w->output = w->token_embd;
    w->rope_freqs = llm_load_rope(l);
    for (uint32_t i = 0; i < hp->n_layers; i++)
        load_layer(l, hp, i, &w->layers[i]);
}

static clv_value attention(llm_graph *g, const llm_hparams *hp,
                           const llm_layer *w, uint32_t i, clv_value x,
                           clv_value freqs)
{
    clv_value q = llm_graph_linear(g, x, w->q, w->q_bias);
    clv_value k = llm_graph_linear(g, x, w->k, w->k_bias);
    clv_value v = llm_graph_linear(g, x, w->v, w->v_bias);
    q = clv_graph_rope(g->graph, q, g->pos, freqs, hp->rope_mode, hp->head_dim,
                       1);
    k = clv_graph_rope(g->graph, k, g->pos, freqs, hp->rope_mode, hp->head_dim,
                       1);
    clv_graph_set_rows(g->graph, g->k[i], k, g->pos);
    clv_graph_set_rows(g->graph, g->v[i], v, g->pos);
    const clv_attention_params params = {
        .head_dim = hp->head_dim,
        .window = (int32_t)hp->sliding_window,
        .rows = g->rows,
    };
    return clv_graph_attention(g->graph, q, g->k[i], g->v[i], g->pos, &params);
}

static clv_value feed_forward(llm_graph *g, const llm_layer *w, clv_value x)
{
    const clv_value gate = llm_graph_linear(g, x, w->gate, w->gate_bias);
    const clv_value up = llm_graph_linear(g, x, w->up, w->up_bias);
    const clv_value mid = clv_graph_glu(g->graph, gate, up, CLV_ACT_SILU);
    return llm_graph_linear(g, mid, w->down, w->down_bias);
}

/* The experts with the largest scores, of which each has its share; all of it
 * is theirs. */
static clv_value choose_experts(llm_graph *g, const llm_hparams *hp,
                                const llm_layer *w, clv_value x)
{
    const clv_value none = CLV_NO_TENSOR;
    const clv_value scores =
        clv_graph_softmax(g->graph, llm_graph_linear(g, x, w->router, NULL));
    const clv_value ids = clv_graph_top_k(g->graph, scores, hp->n_experts_used);
    const clv_value gate = clv_graph_matmul_experts(
        g->graph, x, llm_graph_use(g, w->gate_exps), ids, none, false);
    const clv_value up = clv_graph_matmul_experts(
        g->graph, x, llm_graph_use(g, w->up_exps), ids, none, false);
    const clv_value mid = clv_graph_glu(g->graph, gate, up, CLV_ACT_SILU);
    return clv_graph_matmul_experts(
        g->graph, mid, llm_graph_use(g, w->down_exps), ids, scores, true);
}

static clv_value norm(llm_graph *g, const llm_hparams *hp, clv_value x,
                      const llm_weight *w)
{
    return clv_graph_rms_norm(g->graph, x, llm_graph_use(g, w), hp->norm_eps);
}

static clv_value build(llm_graph *g, const llm_hparams *hp,
                       const llm_weights *w)
{
    const clv_value embd = llm_graph_use(g, w->token_embd);
    const clv_value freqs = llm_graph_use(g, w->rope_freqs);
    clv_value x = clv_graph_get_rows(g->graph, embd, g->ids);
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const llm_layer *layer = &w->layers[i];
        clv_value y =
            attention(g, hp, layer, i, norm(g, hp, x, layer->attn_norm), freqs);
        /* Past the last attention rows no longer mix: go on with those whose
         * logits are wanted. */
        if (i + 1 == hp->n_layers && g->out_ids != CLV_NO_TENSOR) {
            x = clv_graph_get_rows(g->graph, x, g->out_ids);
            y = clv_graph_get_rows(g->graph, y, g->out_ids);
        }
        x = clv_graph_add(g->graph, x,
                          llm_graph_linear(g, y, layer->o, layer->o_bias));
        y = norm(g, hp, x, layer->ffn_norm);
        y = hp->n_experts ? choose_experts(g, hp, layer, y)
                          : feed_forward(g, layer, y);
        x = clv_graph_add(g->graph, x, y);
    }
    x = norm(g, hp, x, w->output_norm);
    const clv_value output =
        w->output == w->token_embd ? embd : llm_graph_use(g, w->output);
    return clv_graph_matmul(g->graph, x, output, CLV_NO_TENSOR);
}

const llm_arch llm_arch_llama = {
    .name = "llama",
    .load = load,
    .build = build,
};
