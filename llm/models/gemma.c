/* Gemma: GELU in place of SiLU, and scaled embeddings. Hugging Face files hold
 * the weights of norms less 1. */
#include "blocks.h"

/* In the order of GGUF files. */
/* clang-format off */
static const llm_tensor_row tensors[] = {
    {LLM_TOKEN_EMBD, LLM_VOCAB, LLM_EMBD, 0,
     "token_embd", "model.embed_tokens"},
    {LLM_OUTPUT_NORM, LLM_EMBD, LLM_NONE, LLM_PLUS_1,
     "output_norm", "model.norm"},
    {LLM_OUTPUT, LLM_VOCAB, LLM_EMBD, LLM_TIED,
     "output", "lm_head"},
    {LLM_ATTN_NORM, LLM_EMBD, LLM_NONE, LLM_PLUS_1,
     "attn_norm", "input_layernorm"},
    {LLM_FFN_NORM, LLM_EMBD, LLM_NONE, LLM_PLUS_1,
     "ffn_norm", "post_attention_layernorm"},
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_ATTN_BIAS,
     "attn_output", "self_attn.o_proj"},
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, 0,
     "ffn_gate", "mlp.gate_proj"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, 0,
     "ffn_up", "mlp.up_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, 0,
     "ffn_down", "mlp.down_proj"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_CAUSAL,
    LLM_SETTING_HAS("attention_bias", attn_bias),
    {0},
};

static const llm_class classes[] = {
    {.name = "GemmaForCausalLM",
     .defaults = {.n_kv_heads = 16,
                  .n_ctx_train = 8192,
                  .head_dim = 256,
                  .attn_bias = LLM_NEVER},
     .tied = true},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"gemma-2b", true,
     {18, 2048, 16384, 256000, 8, 1, 8192, 1e-6f, 1e4f, .head_dim = 256}},
    {"gemma-7b", true,
     {28, 3072, 24576, 256000, 16, 16, 8192, 1e-6f, 1e4f, .head_dim = 256}},
    {0},
};
/* clang-format on */

static const char *const activations[] = {"gelu_pytorch_tanh", "gelu_new",
                                          "gelu_fast", "gelu", NULL};

const llm_arch llm_arch_gemma = {
    .name = "gemma",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = activations,
    .activation = CLV_ACT_GELU_TANH,
    .gguf_rope = CLV_ROPE_HALVES,
    .published = published,
    .build = llm_scaled_model,
};
