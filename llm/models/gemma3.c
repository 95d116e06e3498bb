/* Gemma 3 for text: q and k are normalised head by head, five of six layers
 * have a window and rotary frequencies of their own. */
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
    {LLM_ATTN_Q, LLM_Q, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_q", "self_attn.q_proj"},
    {LLM_ATTN_K, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_k", "self_attn.k_proj"},
    {LLM_ATTN_V, LLM_KV, LLM_EMBD, LLM_ATTN_BIAS,
     "attn_v", "self_attn.v_proj"},
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, LLM_ATTN_BIAS,
     "attn_output", "self_attn.o_proj"},
    {LLM_ATTN_Q_NORM, LLM_HEAD, LLM_NONE, LLM_PLUS_1,
     "attn_q_norm", "self_attn.q_norm"},
    {LLM_ATTN_K_NORM, LLM_HEAD, LLM_NONE, LLM_PLUS_1,
     "attn_k_norm", "self_attn.k_norm"},
    {LLM_ATTN_POST_NORM, LLM_EMBD, LLM_NONE, LLM_PLUS_1,
     "post_attention_norm", "post_attention_layernorm"},
    {LLM_FFN_NORM, LLM_EMBD, LLM_NONE, LLM_PLUS_1,
     "ffn_norm", "pre_feedforward_layernorm"},
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, 0,
     "ffn_gate", "mlp.gate_proj"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, 0,
     "ffn_up", "mlp.up_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, 0,
     "ffn_down", "mlp.down_proj"},
    {LLM_FFN_POST_NORM, LLM_EMBD, LLM_NONE, LLM_PLUS_1,
     "post_ffw_norm", "post_feedforward_layernorm"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_CAUSAL,
    LLM_SETTING_REAL("attn_logit_softcapping", "attn_logit_softcapping",
                     attn_softcap),
    LLM_SETTING_REAL("final_logit_softcapping", "final_logit_softcapping",
                     final_softcap),
    LLM_SETTING_REAL(NULL, "query_pre_attn_scalar", query_scalar),
    LLM_SETTING_HAS("attention_bias", attn_bias),
    LLM_SETTING_REAL("rope.freq_base_swa", "rope_local_base_freq",
                     rope_local_base),
    LLM_SETTING_COUNT(NULL, "sliding_window_pattern|_sliding_window_pattern",
                      window_period, LLM_MAX_LAYERS,
                      "the period of layers without a window"),
    {0},
};

static const llm_class classes[] = {
    {.name = "Gemma3ForCausalLM",
     .settings = LLM_SETTING_WINDOW | LLM_SETTING_LAYERS,
     .defaults = {.n_kv_heads = 4,
                  .n_ctx_train = 131072,
                  .head_dim = 256,
                  .query_scalar = 256,
                  .sliding_window = 4096,
                  .window_period = 6,
                  .rope_base = 1e6f,
                  .rope_local_base = 1e4f,
                  .attn_bias = LLM_NEVER},
     .tied = true},
    {0},
};

/* clang-format off */
#define LOCAL .window_period = 6, .rope_local_base = 1e4f
static const llm_published published[] = {
    {"gemma3-1b", true,
     {26, 1152, 6912, 262144, 4, 1, 32768, 1e-6f, 1e6f, .head_dim = 256,
      .sliding_window = 512, LOCAL}},
    {"gemma3-4b", true,
     {34, 2560, 10240, 262208, 8, 4, 131072, 1e-6f, 1e6f, .head_dim = 256,
      .sliding_window = 1024, LOCAL, .rope_scaling = LLM_ROPE_LINEAR,
      .rope_factor = 8}},
    {0},
};
/* clang-format on */

/* Files without a scale: that of the published 27B model is by another rule. */
static void derive(llm_hparams *h)
{
    if (!h->query_scalar && h->n_heads)
        h->query_scalar =
            (float)(h->n_layers == 62 ? h->n_embd / h->n_heads : h->head_dim);
}

const llm_arch llm_arch_gemma3 = {
    .name = "gemma3",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_gelu,
    .activation = CLV_ACT_GELU_TANH,
    .gguf_rope = CLV_ROPE_HALVES,
    .activation_key = "hidden_activation",
    .defaults = {.rope_base = 1e6f,
                 .rope_local_base = 1e4f,
                 .window_period = 6},
    .derive = derive,
    .published = published,
    .build = llm_scaled_model,
};
