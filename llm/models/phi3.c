/* Phi-3, Phi-3.5-mini and Phi-4: q, k and v are one tensor, as are gate and up;
 * rotary frequencies that depend on the length of the context, and heads that
 * may be rotated in part. */
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
    {LLM_ATTN_QKV, LLM_QKV, LLM_EMBD, 0,
     "attn_qkv", "self_attn.qkv_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, 0,
     "attn_output", "self_attn.o_proj"},
    {LLM_FFN_NORM, LLM_EMBD, LLM_NONE, 0,
     "ffn_norm", "post_attention_layernorm"},
    {LLM_FFN_GATE_UP, LLM_FF_2, LLM_EMBD, 0,
     "ffn_up", "mlp.gate_up_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, 0,
     "ffn_down", "mlp.down_proj"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_REAL(NULL, "partial_rotary_factor", rope_share),
    {0},
};

static const llm_class classes[] = {
    {.name = "Phi3ForCausalLM",
     .settings = LLM_SETTING_WINDOW,
     .defaults = {.n_ctx_train = 4096,
                  .norm_eps = 1e-5f,
                  .rope_original_ctx = 4096}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"phi3-mini", false,
     {32, 3072, 8192, 32064, 32, 32, 4096, 1e-5f, 1e4f,
      .sliding_window = 2047}},
    {"phi4", false,
     {40, 5120, 17920, 100352, 40, 10, 16384, 1e-5f, 250000,
      .rope_mode = CLV_ROPE_HALVES}},
    {0},
};
/* clang-format on */

const llm_arch llm_arch_phi3 = {
    .name = "phi3",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .gguf_rope = CLV_ROPE_HALVES,
    .long_rope = true,
    .partial_rope = true,
    .published = published,
    .build = llm_plain_model,
};
