/* Llama and models of the same form: Mistral, Mixtral, and others that differ
 * in their settings only. */
#include "blocks.h"

#include <stddef.h>

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
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_MAYBE_BIAS | LLM_ROTARY,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_MAYBE_BIAS | LLM_ROTARY,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_MAYBE_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_MAYBE_BIAS,
     "attn_output", "self_attn.o_proj"},
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, LLM_MAYBE_BIAS | LLM_DENSE,
     "ffn_gate", "mlp.gate_proj"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, LLM_MAYBE_BIAS | LLM_DENSE,
     "ffn_up", "mlp.up_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, LLM_MAYBE_BIAS | LLM_DENSE,
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
    {.gguf = "attention.layer_norm_rms_epsilon",
     .hf = "rms_norm_eps",
     .offset = offsetof(llm_hparams, norm_eps),
     .flags = LLM_SETTING_FLOAT | LLM_SETTING_GGUF},
    {0},
};

static const llm_class classes[] = {
    {"LlamaForCausalLM", 0, {.n_ctx_train = 2048}},
    {"MistralForCausalLM",
     LLM_SETTING_WINDOW,
     {.n_kv_heads = 8, .n_ctx_train = 131072, .sliding_window = 4096}},
    {"MixtralForCausalLM",
     LLM_SETTING_WINDOW | LLM_SETTING_EXPERTS,
     {.n_kv_heads = 8,
      .n_ctx_train = 131072,
      .n_experts = 8,
      .n_experts_used = 2}},
    {0},
};

/* clang-format off */
#define PAIRS .rope_mode = CLV_ROPE_PAIRS
#define HALVES .rope_mode = CLV_ROPE_HALVES
static const llm_published published[] = {
    {"llama-1b", false, false,
     {16, 2048, 8192, 32000, 32, 8, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama2-7b", false, false,
     {32, 4096, 11008, 32000, 32, 32, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama2-70b", false, false,
     {80, 8192, 28672, 32000, 64, 8, 4096, 1e-5f, 1e4f, PAIRS}},
    {"llama3-8b", false, false,
     {32, 4096, 14336, 128256, 32, 8, 8192, 1e-5f, 5e5f, PAIRS}},
    {"llama3.2-3b", true, false,
     {28, 3072, 8192, 128256, 24, 8, 131072, 1e-5f, 5e5f, PAIRS,
      .rope_scaling = LLM_ROPE_LLAMA3, .rope_factor = 32,
      .rope_low_freq_factor = 1, .rope_high_freq_factor = 4,
      .rope_original_ctx = 8192}},
    {"mistral-7b", false, false,
     {32, 4096, 14336, 32000, 32, 8, 32768, 1e-5f, 1e4f, PAIRS,
      .sliding_window = 4096}},
    {"internlm2-1.8b", false, false,
     {24, 2048, 8192, 92544, 16, 8, 32768, 1e-5f, 1e6f, PAIRS}},
    /* Qwen2 is a Llama with biases of q, k and v. */
    {"qwen1.5-1.8b", false, true,
     {24, 2048, 5504, 151936, 16, 16, 32768, 1e-6f, 1e6f, HALVES}},
    {"qwen2-7b", false, true,
     {28, 3584, 18944, 152064, 28, 4, 131072, 1e-6f, 1e6f, HALVES}},
    {"mixtral-8x7b", false, false,
     {32, 4096, 14336, 32000, 32, 8, 32768, 1e-5f, 1e6f, PAIRS,
      .n_experts = 8, .n_experts_used = 2}},
    {0},
};
/* clang-format on */

static const char *const activations[] = {"silu", "swish", NULL};

static clv_value build(llm_graph *g)
{
    return llm_pre_norm_model(g, CLV_ACT_SILU);
}

const llm_arch llm_arch_llama = {
    .name = "llama",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = activations,
    .gguf_rope = CLV_ROPE_PAIRS,
    .published = published,
    .build = build,
};
