/* Qwen3: q and k are normalised head by head, and the last layers may have a
 * window. */
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
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_ATTN_BIAS,
     "attn_output", "self_attn.o_proj"},
    {LLM_ATTN_Q_NORM, LLM_HEAD, LLM_NONE, 0,
     "attn_q_norm", "self_attn.q_norm"},
    {LLM_ATTN_K_NORM, LLM_HEAD, LLM_NONE, 0,
     "attn_k_norm", "self_attn.k_norm"},
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
    LLM_SETTING_IS(NULL, "use_sliding_window", window_used),
    LLM_SETTING_COUNT(NULL, "max_window_layers", window_first, UINT32_MAX,
                      "the first layer with a window"),
    LLM_SETTING_HAS("attention_bias", attn_bias),
    {0},
};

static const llm_class classes[] = {
    {.name = "Qwen3ForCausalLM",
     .settings = LLM_SETTING_WINDOW | LLM_SETTING_LAYERS,
     .defaults = {.n_kv_heads = 32,
                  .n_ctx_train = 32768,
                  .head_dim = 128,
                  .sliding_window = 4096,
                  .window_first = 28,
                  .attn_bias = LLM_NEVER}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"qwen3-0.6b", true,
     {28, 1024, 3072, 151936, 16, 8, 40960, 1e-6f, 1e6f, .head_dim = 128}},
    {"qwen3-1.7b", true,
     {28, 2048, 6144, 151936, 16, 8, 40960, 1e-6f, 1e6f, .head_dim = 128}},
    {"qwen3-4b", true,
     {36, 2560, 9728, 151936, 32, 8, 40960, 1e-6f, 1e6f, .head_dim = 128}},
    {"qwen3-8b", false,
     {36, 4096, 12288, 151936, 32, 8, 40960, 1e-6f, 1e6f, .head_dim = 128}},
    {0},
};
/* clang-format on */

const llm_arch llm_arch_qwen3 = {
    .name = "qwen3",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .gguf_rope = CLV_ROPE_HALVES,
    .defaults = {.window_used = 1},
    .derive = llm_derive_late_window,
    .published = published,
    .build = llm_plain_model,
};
