/* Qwen1.5-MoE and Qwen2-MoE: experts whose scores need not add up to one, and
 * one that every token uses, by a gate of its own. */
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
    {LLM_ATTN_OUTPUT, LLM_EMBD, LLM_Q, 0,
     "attn_output", "self_attn.o_proj"},
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
    {LLM_SHARED_ROUTER, LLM_EMBD, LLM_NONE, LLM_SPARSE | LLM_ONE,
     "ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {LLM_SHARED_GATE, LLM_FF_SHARED, LLM_EMBD, LLM_SPARSE | LLM_ONE,
     "ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {LLM_SHARED_DOWN, LLM_EMBD, LLM_FF_SHARED, LLM_SPARSE | LLM_ONE,
     "ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {LLM_SHARED_UP, LLM_FF_SHARED, LLM_EMBD, LLM_SPARSE | LLM_ONE,
     "ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {0},
};
/* clang-format on */

static const llm_setting settings[] = {
    LLM_SETTING_RMS_EPS,
    LLM_SETTING_IS(NULL, "use_sliding_window", window_used),
    LLM_SETTING_COUNT(NULL, "max_window_layers", window_first, UINT32_MAX,
                      "the first layer with a window"),
    LLM_SETTING_IS("expert_weights_norm", "norm_topk_prob", experts_normalised),
    LLM_SETTING_COUNT(NULL, "decoder_sparse_step", sparse_step, LLM_MAX_LAYERS,
                      "the step of layers with experts"),
    LLM_SETTING_COUNT("expert_feed_forward_length", "moe_intermediate_size",
                      n_ff_expert, LLM_MAX_WIDTH,
                      "the feed-forward width of an expert"),
    LLM_SETTING_COUNT("expert_shared_feed_forward_length",
                      "shared_expert_intermediate_size", n_ff_shared,
                      LLM_MAX_WIDTH,
                      "the feed-forward width of the shared expert"),
    LLM_SETTING_HAS("qkv_bias", attn_bias),
    {0},
};

static const llm_class classes[] = {
    {.name = "Qwen2MoeForCausalLM",
     .settings = LLM_SETTING_WINDOW | LLM_SETTING_LAYERS | LLM_SETTING_EXPERTS,
     .defaults = {.n_kv_heads = 16,
                  .n_ctx_train = 32768,
                  .sliding_window = 4096,
                  .window_first = 28,
                  .n_experts = 60,
                  .n_experts_used = 4,
                  .n_ff_expert = 1408,
                  .n_ff_shared = 5632,
                  .attn_bias = LLM_ALWAYS}},
    {0},
};

/* clang-format off */
static const llm_published published[] = {
    {"qwen1.5-moe-a2.7b", false,
     {24, 2048, 5632, 151936, 16, 16, 8192, 1e-6f, 1e6f, .n_experts = 60,
      .n_experts_used = 4, .n_ff_expert = 1408, .n_ff_shared = 5632,
      .attn_bias = LLM_ALWAYS}},
    {"qwen2-57b-a14b", false,
     {28, 3584, 18944, 151936, 28, 4, 131072, 1e-6f, 1e6f, .n_experts = 64,
      .n_experts_used = 8, .n_ff_expert = 2560, .n_ff_shared = 20480,
      .attn_bias = LLM_ALWAYS}},
    {0},
};
/* clang-format on */

/* Every second of the first layers has the window that config.json may ask for.
 */
static void derive(llm_hparams *h)
{
    for (uint32_t i = 0; i < h->n_layers; i++)
        if (i % 2 || i >= h->window_first)
            h->layers[i] |= LLM_LAYER_FULL;
    if (!h->window_used)
        h->sliding_window = 0;
}

const llm_arch llm_arch_qwen2moe = {
    .name = "qwen2moe",
    .tensors = tensors,
    .settings = settings,
    .classes = classes,
    .activations = llm_names_of_silu,
    .activation = CLV_ACT_SILU,
    .gguf_rope = CLV_ROPE_HALVES,
    .defaults = {.window_used = 1, .window_first = UINT32_MAX},
    .derive = derive,
    .published = published,
    .build = llm_plain_model,
};
