/* Phi-3.5-MoE: layer norm, biases, and two experts a token, chosen by
 * SparseMixer. */
#include "blocks.h"

/* In the order of GGUF files. */
/* clang-format off */
static const llm_tensor_row tensors[] = {
    {LLM_TOKEN_EMBD, LLM_VOCAB, LLM_EMBD, 0,
     "token_embd", "model.embed_tokens"},
    {LLM_OUTPUT_NORM, LLM_EMBD, LLM_NONE, LLM_BIAS,
     "output_norm", "model.norm"},
    {LLM_OUTPUT, LLM_VOCAB, LLM_EMBD, LLM_TIED | LLM_OUTPUT_BIAS,
     "output", "lm_head"},
    {LLM_ATTN_NORM, LLM_EMBD, LLM_NONE, LLM_BIAS,
     "attn_norm", "input_layernorm"},
    {LLM_FFN_NORM, LLM_EMBD, LLM_NONE, LLM_BIAS,
     "ffn_norm", "post_attention_layernorm"},
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_ATTN_BIAS,
     "attn_output", "self_attn.o_proj"},
    {LLM_FFN_ROUTER, LLM_EXPERTS, LLM_EMBD, LLM_SPARSE,
     "ffn_gate_inp", "block_sparse_moe.gate"},
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, LLM_SPARSE,
     "ffn_gate_exps", "block_sparse_moe.experts.#.w1"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, LLM_SPARSE,
     "ffn_down_exps", "block_sparse_moe.experts.#.w2"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, LLM_SPARSE,
     "ffn_up_exps", "block_sparse_moe.experts.#.w3"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_REAL("router_jitter_noise", "router_jitter_noise",
                     router_jitter),
    LLM_SETTING_HAS("attention_bias", attn_bias),
    LLM_SETTING_HAS("lm_head_bias", output_bias),
    {0},
};

static const llm_class classes[] = {
    {.name = "PhimoeForCausalLM",
     .settings = LLM_SETTING_WINDOW | LLM_SETTING_EXPERTS,
     .defaults = {.n_kv_heads = 8,
                  .n_ctx_train = 131072,
                  .norm_eps = 1e-5f,
                  .rope_base = 1e6f,
                  .n_experts = 16,
                  .n_experts_used = 2,
                  .router_jitter = 0.01f,
                  .attn_bias = LLM_NEVER,
                  .output_bias = LLM_NEVER}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"phi3.5-moe", false,
     {32, 4096, 6400, 32064, 32, 8, 131072, 1e-5f, 1e4f, .n_experts = 16,
      .n_experts_used = 2, .attn_bias = LLM_ALWAYS,
      .output_bias = LLM_ALWAYS}},
    {0},
};
/* clang-format on */

const llm_arch llm_arch_phimoe = {
    .name = "phimoe",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .gguf_rope = CLV_ROPE_HALVES,
    .layer_norm = true,
    .sparse_mixer = true,
    .short_rope = true,
    .defaults = {.router_jitter = 0.01f},
    .published = published,
    .build = llm_plain_model,
};
