/* InternLM2: a Llama whose Hugging Face files hold q, k and v of a group of
 * heads side by side. */
#include "blocks.h"

/* In the order of GGUF files. */
/* clang-format off */
static const llm_tensor_row tensors[] = {
    {LLM_TOKEN_EMBD, LLM_VOCAB, LLM_EMBD, 0,
     "token_embd", "model.tok_embeddings"},
    {LLM_OUTPUT_NORM, LLM_EMBD, LLM_NONE, 0,
     "output_norm", "model.norm"},
    {LLM_OUTPUT, LLM_VOCAB, LLM_EMBD, LLM_TIED,
     "output", "output"},
    {LLM_ATTN_NORM, LLM_EMBD, LLM_NONE, 0,
     "attn_norm", "attention_norm"},
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_ATTN_BIAS | LLM_GROUPED | LLM_ROTARY,
     "attn_q", "attention.wqkv"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS | LLM_GROUPED | LLM_ROTARY,
     "attn_k", "attention.wqkv"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS | LLM_GROUPED,
     "attn_v", "attention.wqkv"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_ATTN_BIAS,
     "attn_output", "attention.wo"},
    {LLM_FFN_NORM, LLM_EMBD, LLM_NONE, 0,
     "ffn_norm", "ffn_norm"},
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, 0,
     "ffn_gate", "feed_forward.w1"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, 0,
     "ffn_down", "feed_forward.w2"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, 0,
     "ffn_up", "feed_forward.w3"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_HAS("bias", attn_bias),
    {0},
};

static const llm_class classes[] = {
    {.name = "InternLM2ForCausalLM",
     .defaults = {.n_ctx_train = 2048, .attn_bias = LLM_ALWAYS}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"internlm2-1.8b", false,
     {24, 2048, 8192, 92544, 16, 8, 32768, 1e-5f, 1e6f,
      .rope_mode = CLV_ROPE_PAIRS}},
    {"internlm2-7b", false,
     {32, 4096, 14336, 92544, 32, 8, 32768, 1e-5f, 1e6f,
      .rope_mode = CLV_ROPE_PAIRS}},
    {0},
};
/* clang-format on */

const llm_arch llm_arch_internlm2 = {
    .name = "internlm2",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .gguf_rope = CLV_ROPE_PAIRS,
    .published = published,
    .build = llm_plain_model,
};
