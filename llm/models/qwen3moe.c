/* Qwen3-MoE: q and k are normalised head by head, and layers have experts. */
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
    {LLM_FFN_GATE, LLM_FF, LLM_EMBD, LLM_DENSE,
     "ffn_gate", "mlp.gate_proj"},
    {LLM_FFN_UP, LLM_FF, LLM_EMBD, LLM_DENSE,
     "ffn_up", "mlp.up_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF, LLM_DENSE,
     "ffn_down", "mlp.down_proj"},
    {LLM_FFN_ROUTER, LLM_EXPERTS, LLM_EMBD, LLM_SPARSE,
     "ffn_gate_inp", "mlp.gate"},
    {LLM_FFN_GATE, LLM_FF_EXPERT, LLM_EMBD, LLM_SPARSE,
     "ffn_gate_exps", "mlp.experts.#.gate_proj"},
    {LLM_FFN_DOWN, LLM_EMBD, LLM_FF_EXPERT, LLM_SPARSE,
     "ffn_down_exps", "mlp.experts.#.down_proj"},
    {LLM_FFN_UP, LLM_FF_EXPERT, LLM_EMBD, LLM_SPARSE,
     "ffn_up_exps", "mlp.experts.#.up_proj"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_IS(NULL, "use_sliding_window", window_used),
    LLM_SETTING_IS("expert_weights_norm", "norm_topk_prob", experts_normalised),
    LLM_SETTING_COUNT(NULL, "decoder_sparse_step", sparse_step, LLM_MAX_LAYERS,
                      "the step of layers with experts"),
    LLM_SETTING_COUNT("expert_feed_forward_length", "moe_intermediate_size",
                      n_ff_expert, LLM_MAX_WIDTH,
                      "the feed-forward width of an expert"),
    LLM_SETTING_HAS("attention_bias", attn_bias),
    {0},
};

static const llm_class classes[] = {
    {.name = "Qwen3MoeForCausalLM",
     .settings = LLM_SETTING_WINDOW | LLM_SETTING_EXPERTS,
     .defaults = {.n_kv_heads = 4,
                  .n_ctx_train = 32768,
                  .sliding_window = 4096,
                  .n_experts = 128,
                  .n_experts_used = 8,
                  .n_ff_expert = 768,
                  .attn_bias = LLM_NEVER}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"qwen3-30b-a3b", false,
     {48, 2048, 6144, 151936, 32, 4, 40960, 1e-6f, 1e6f, .head_dim = 128,
      .n_experts = 128, .n_experts_used = 8, .n_ff_expert = 768}},
    {0},
};
/* clang-format on */

/* A window, where config.json says that it is used, is in all layers. */
static void derive(llm_hparams *h)
{
    if (!h->window_used)
        h->sliding_window = 0;
}

const llm_arch llm_arch_qwen3moe = {
    .name = "qwen3moe",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .gguf_rope = CLV_ROPE_HALVES,
    .defaults = {.experts_normalised = 1, .window_used = 1},
    .derive = derive,
    .published = published,
    .build = llm_plain_model,
};
