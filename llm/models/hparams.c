#include "hparams.h"

#include "arch.h"
#include "rope.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

static uint32_t absent_kv_heads(const llm_hparams *h)
{
    return h->n_kv_heads ? h->n_kv_heads : h->n_heads;
}

static uint32_t absent_head_dim(const llm_hparams *h)
{
    return h->head_dim ? h->head_dim : h->n_heads ? h->n_embd / h->n_heads : 0;
}

static uint32_t head_dim(const llm_hparams *h)
{
    return h->head_dim;
}

/* Defaults may depend on the rows before them. */
/* clang-format off */
#define FIELD(name) offsetof(llm_hparams, name)
#define NEEDED (LLM_SETTING_GGUF | LLM_SETTING_HF)
static const llm_setting shared[] = {
    {NULL, "quantization_config", 0, LLM_SETTING_REFUSED, 0, 0,
     "quantised safetensors (quantization_config) are not supported; use the "
     "F16, BF16 or F32 model, or a GGUF file", NULL},
    {"block_count", "num_hidden_layers", FIELD(n_layers), NEEDED,
     1, LLM_MAX_LAYERS, "the number of layers", NULL},
    {"context_length", "max_position_embeddings", FIELD(n_ctx_train),
     LLM_SETTING_GGUF, 1, LLM_MAX_CTX, "the context length", NULL},
    {"embedding_length", "hidden_size", FIELD(n_embd), NEEDED,
     1, LLM_MAX_WIDTH, "the embedding width", NULL},
    {"feed_forward_length", "intermediate_size", FIELD(n_ff), NEEDED,
     1, LLM_MAX_WIDTH, "the feed-forward width", NULL},
    {NULL, "vocab_size", FIELD(n_vocab), LLM_SETTING_HF,
     1, LLM_MAX_VOCAB, "the vocabulary size", NULL},
    {"attention.head_count", "num_attention_heads", FIELD(n_heads), NEEDED,
     1, LLM_MAX_HEADS, "the number of heads", NULL},
    {"attention.head_count_kv", "num_key_value_heads", FIELD(n_kv_heads),
     LLM_SETTING_NULL_0,
     1, LLM_MAX_HEADS, "the number of key-value heads", absent_kv_heads},
    {"attention.key_length", "head_dim", FIELD(head_dim), 0,
     2, LLM_MAX_HEAD_DIM, "the head dimension", absent_head_dim},
    {"attention.value_length", NULL, FIELD(value_dim), 0,
     2, LLM_MAX_HEAD_DIM, "the head dimension of values", head_dim},
    {"attention.sliding_window", "sliding_window", FIELD(sliding_window),
     LLM_SETTING_WINDOW | LLM_SETTING_NULL_0,
     0, LLM_MAX_CTX, "the sliding window", NULL},
    {"expert_count", "num_local_experts|num_experts", FIELD(n_experts),
     LLM_SETTING_EXPERTS, 0, LLM_MAX_EXPERTS, "the number of experts", NULL},
    {"expert_used_count", "num_experts_per_tok", FIELD(n_experts_used),
     LLM_SETTING_EXPERTS, 0, LLM_MAX_EXPERTS,
     "the number of experts used for a token", NULL},
    {"rope.dimension_count", NULL, FIELD(rope_dim), 0,
     2, LLM_MAX_HEAD_DIM, "the number of rotated channels", head_dim},
    {"rope.freq_base", "rope_theta", FIELD(rope_base), LLM_SETTING_FLOAT,
     0, 0, NULL, NULL},
};
/* clang-format on */

enum { N_SHARED = sizeof shared / sizeof shared[0] };

const llm_setting *llm_setting_at(const llm_arch *arch, uint32_t i)
{
    if (i < N_SHARED)
        return &shared[i];
    const llm_setting *own = &arch->settings[i - N_SHARED];
    return own->gguf || own->hf ? own : NULL;
}

void *llm_setting_field(const llm_setting *setting, llm_hparams *h)
{
    return (char *)h + setting->offset;
}

llm_gguf_key llm_gguf_key_of(const llm_arch *arch, const char *setting)
{
    llm_gguf_key key;
    snprintf(key.text, sizeof key.text, "%s.%s", arch->name, setting);
    return key;
}

void llm_hparams_start(llm_hparams *h, const llm_arch *arch)
{
    h->arch = arch;
    h->norm_eps = h->norm_eps > 0 ? h->norm_eps : 1e-6f;
    h->rope_base = h->rope_base > 0 ? h->rope_base : 10000;
    h->bos = h->eos = -1;
}

/* Layers of experts are the last ones of groups of sparse_step. */
void llm_hparams_derive(llm_hparams *h)
{
    for (uint32_t i = 0; i < h->n_layers && i < LLM_MAX_LAYERS; i++) {
        if (h->window_period && (i + 1) % h->window_period == 0)
            h->layers[i] |= LLM_LAYER_FULL;
        if (h->sparse_step && (i + 1) % h->sparse_step)
            h->layers[i] |= LLM_LAYER_DENSE;
    }
    if (h->rope_share > 0)
        h->rope_dim = (uint32_t)((double)h->head_dim * (double)h->rope_share);
    if (h->arch->derive)
        h->arch->derive(h);
}

/* ------------------------------------------------------------------------ */

static clv_status check_range(const char *where, const char *what,
                              uint32_t value, uint32_t least, uint32_t most)
{
    if (value >= least && value <= most)
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "%s: %s is %" PRIu32 ", must be %" PRIu32 "..%" PRIu32
                     "; convert the model again",
                     where, what, value, least, most);
}

clv_status llm_hparams_check(const llm_hparams *h, const char *where)
{
    llm_hparams copy = *h;
    const llm_setting *s;
    for (uint32_t i = 0; (s = llm_setting_at(h->arch, i)); i++)
        if (s->what && !(s->flags & LLM_SETTING_REFUSED))
            CLV_TRY(check_range(where, s->what,
                                *(uint32_t *)llm_setting_field(s, &copy),
                                s->least, s->most));
    CLV_TRY(check_range(where, "the number of experts used for a token",
                        h->n_experts_used, h->n_experts > 0, h->n_experts));
    CLV_TRY(check_range(where, "the number of rotated channels", h->rope_dim, 2,
                        h->head_dim));
    if (h->arch->sparse_mixer && h->n_experts && h->n_experts_used != 2)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: %" PRIu32 " experts for a token by SparseMixer; "
                         "supported: 2",
                         where, h->n_experts_used);
    if (!(h->query_scalar >= 0) || !(h->attn_softcap >= 0) ||
        !(h->final_softcap >= 0) || !(h->router_jitter >= 0))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: a soft cap, the scale of attention or the "
                         "router's jitter is negative; convert the model "
                         "again",
                         where);
    if (h->value_dim != h->head_dim)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: keys of %" PRIu32 " channels with values of "
                         "%" PRIu32 "; supported: equal ones",
                         where, h->head_dim, h->value_dim);
    if (h->n_heads % h->n_kv_heads)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: %" PRIu32 " heads are not a multiple of %" PRIu32
                         " key-value heads; convert the model again",
                         where, h->n_heads, h->n_kv_heads);
    if (h->head_dim % 2 || h->rope_dim % 2)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: head dimension %" PRIu32 " and rotated channels "
                         "%" PRIu32 " must be even; convert the model again",
                         where, h->head_dim, h->rope_dim);
    if (!(h->norm_eps >= 0 && h->norm_eps <= 1))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: the norm's epsilon is %g, must be 0..1; "
                         "convert the model again",
                         where, h->norm_eps);
    clv_status status = llm_rope_check(h);
    return status ? clv_error_prefix(status, "%s", where) : CLV_OK;
}
