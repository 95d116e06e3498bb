/* Phi-1, 1.5 and 2: layer norm, biases everywhere, heads that are rotated in
 * part, and attention and feed-forward beside one another. */
#include "blocks.h"

/* In the order of GGUF files. */
/* clang-format off */
static const llm_tensor_row tensors[] = {
    {LLM_TOKEN_EMBD, LLM_VOCAB, LLM_EMBD, 0,
     "token_embd", "model.embed_tokens"},
    {LLM_OUTPUT_NORM, LLM_EMBD, LLM_NONE, LLM_BIAS,
     "output_norm", "model.final_layernorm"},
    {LLM_OUTPUT, LLM_VOCAB, LLM_EMBD, LLM_TIED | LLM_BIAS,
     "output", "lm_head"},
    {LLM_ATTN_NORM, LLM_EMBD, LLM_NONE, LLM_BIAS,
     "attn_norm", "input_layernorm"},
    {LLM_ATTN_QKV, LLM_QKV, LLM_EMBD, LLM_BIAS | LLM_OLD,
     "attn_qkv", NULL},
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_BIAS,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_BIAS,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_BIAS,
     "attn_output", "self_attn.dense"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, LLM_BIAS,
     "ffn_up", "mlp.fc1"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, LLM_BIAS,
     "ffn_down", "mlp.fc2"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_EPS("attention.layer_norm_epsilon", "layer_norm_eps"),
    LLM_SETTING_REAL(NULL, "partial_rotary_factor", rope_share),
    LLM_SETTING_REFUSE("qk_layernorm",
                       "norms of q and k (qk_layernorm) are not supported; use "
                       "a published Phi-2"),
    {0},
};

static const llm_class classes[] = {
    {.name = "PhiForCausalLM",
     .defaults = {.n_ctx_train = 2048, .norm_eps = 1e-5f, .rope_share = 0.5f}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"phi-2", false,
     {32, 2560, 10240, 51200, 32, 32, 2048, 1e-5f, 1e4f, .rope_dim = 32}},
    {0},
};
/* clang-format on */

/* One norm, and one residual around both parts of a layer. */
static clv_value build(llm_graph *g)
{
    clv_value x = llm_embed(g);
    for (uint32_t i = 0; i < g->hp->n_layers; i++) {
        const llm_linear *w = g->weights->layers[i];
        clv_value y = llm_norm(g, x, &w[LLM_ATTN_NORM]);
        clv_value attention = llm_attention(g, i, y);
        llm_select_rows(g, i, (clv_value *[]){&x, &y, &attention}, 3);
        attention = llm_linear_of(g, attention, &w[LLM_ATTN_OUTPUT]);
        y = clv_graph_gelu(g->graph, llm_linear_of(g, y, &w[LLM_FFN_UP]));
        y = llm_linear_of(g, y, &w[LLM_FFN_DOWN]);
        x = clv_graph_add(g->graph, x, clv_graph_add(g->graph, attention, y));
    }
    return llm_logits(g, x);
}

const llm_arch llm_arch_phi2 = {
    .name = "phi2",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_gelu,
    .activation = CLV_ACT_GELU_TANH,
    .gguf_rope = CLV_ROPE_HALVES,
    .layer_norm = true,
    .partial_rope = true,
    .published = published,
    .build = build,
};
