/* Llama and models of the same form: Mistral, Mixtral, and others that differ
 * in their settings only. */
#include "blocks.h"

/* In the order of GGUF files. */
/* clang-format off */
static const llm_tensor_row tensors[] = {
    {LLM_TOKEN_EMBD, LLM_VOCAB, LLM_EMBD, 0,
     "token_embd", "model.embed_tokens"},
    {LLM_OUTPUT_NORM, LLM_EMBD, LLM_NONE, 0,
     "output_norm", "model.norm"},
    {LLM_OUTPUT, LLM_VOCAB, LLM_EMBD, LLM_TIED,
     "output", "lm_head"},
    {LLM_ATTN_NORM, LLM_EMBD, LLM_NONE, 0,
     "attn_norm", "input_layernorm"},
    {LLM_FFN_NORM, LLM_EMBD, LLM_NONE, 0,
     "ffn_norm", "post_attention_layernorm"},
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_ATTN_BIAS | LLM_ROTARY,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS | LLM_ROTARY,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_ATTN_BIAS,
     "attn_output", "self_attn.o_proj"},
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, LLM_MLP_BIAS | LLM_DENSE,
     "ffn_gate", "mlp.gate_proj"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, LLM_MLP_BIAS | LLM_DENSE,
     "ffn_up", "mlp.up_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, LLM_MLP_BIAS | LLM_DENSE,
     "ffn_down", "mlp.down_proj"},
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
    LLM_SETTING_HAS("attention_bias", attn_bias),
    LLM_SETTING_HAS("mlp_bias", mlp_bias),
    {0},
};

#define NO_BIASES .attn_bias = LLM_NEVER, .mlp_bias = LLM_NEVER
static const llm_class classes[] = {
    {.name = "LlamaForCausalLM", .defaults = {.n_ctx_train = 2048, NO_BIASES}},
    {.name = "MistralForCausalLM",
     .settings = LLM_SETTING_WINDOW,
     .defaults = {.n_kv_heads = 8,
                  .n_ctx_train = 131072,
                  .sliding_window = 4096,
                  NO_BIASES}},
    {.name = "MixtralForCausalLM",
     .settings = LLM_SETTING_WINDOW | LLM_SETTING_EXPERTS,
     .defaults = {.n_kv_heads = 8,
                  .n_ctx_train = 131072,
                  .n_experts = 8,
                  .n_experts_used = 2,
                  .experts_normalised = 1,
                  .norm_eps = 1e-5f,
                  .rope_base = 1e6f,
                  NO_BIASES}},
    {0},
};

/* clang-format off */
#define PAIRS .rope_mode = CLV_ROPE_PAIRS
static const llm_published published[] = {
    {"llama-1b", false,
     {16, 2048, 8192, 32000, 32, 8, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama2-7b", false,
     {32, 4096, 11008, 32000, 32, 32, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama2-13b", false,
     {40, 5120, 13824, 32000, 40, 40, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama2-70b", false,
     {80, 8192, 28672, 32000, 64, 8, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama3-8b", false,
     {32, 4096, 14336, 128256, 32, 8, 8192, 1e-5f, 5e5f, PAIRS}},
    {"llama3-70b", false,
     {80, 8192, 28672, 128256, 64, 8, 8192, 1e-5f, 5e5f, PAIRS}},
    {"llama3.2-3b", true,
     {28, 3072, 8192, 128256, 24, 8, 131072, 1e-5f, 5e5f, PAIRS,
      .rope_scaling = LLM_ROPE_LLAMA3, .rope_factor = 32,
      .rope_low_freq_factor = 1, .rope_high_freq_factor = 4,
      .rope_original_ctx = 8192}},
    {"mistral-7b", false,
     {32, 4096, 14336, 32000, 32, 8, 32768, 1e-5f, 1e4f, PAIRS,
      .sliding_window = 4096}},
    {"mixtral-8x7b", false,
     {32, 4096, 14336, 32000, 32, 8, 32768, 1e-5f, 1e6f, PAIRS,
      .n_experts = 8, .n_experts_used = 2, .experts_normalised = 1}},
    {0},
};
/* clang-format on */

const llm_arch llm_arch_llama = {
    .name = "llama",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .defaults = {.experts_normalised = 1},
    .gguf_rope = CLV_ROPE_PAIRS,
    .published = published,
    .build = llm_plain_model,
};
