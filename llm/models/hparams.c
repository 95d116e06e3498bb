#include "hparams.h"

#include "rope.h"

#include <inttypes.h>

static clv_status check_range(const char *where, const char *what,
                              uint32_t value, uint32_t least, uint32_t most)
{
    if (value >= least && value <= most)
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "%s: %s is %" PRIu32 ", must be %" PRIu32 "..%" PRIu32
                     "; convert the model anew",
                     where, what, value, least, most);
}

static clv_status check_counts(const llm_hparams *h, const char *where)
{
    const struct {
        const char *what;
        uint32_t value, least, most;
    } ranges[] = {
        {"the number of layers", h->n_layers, 1, LLM_MAX_LAYERS},
        {"the embedding width", h->n_embd, 1, LLM_MAX_WIDTH},
        {"the feed-forward width", h->n_ff, 1, LLM_MAX_WIDTH},
        {"the vocabulary size", h->n_vocab, 1, LLM_MAX_VOCAB},
        {"the number of heads", h->n_heads, 1, LLM_MAX_HEADS},
        {"the number of key-value heads", h->n_kv_heads, 1, LLM_MAX_HEADS},
        {"the head dimension", h->head_dim, 2, LLM_MAX_HEAD_DIM},
        {"the context length", h->n_ctx_train, 1, LLM_MAX_CTX},
        {"the sliding window", h->sliding_window, 0, LLM_MAX_CTX},
        {"the number of experts", h->n_experts, 0, LLM_MAX_EXPERTS},
        {"the number of experts used for a token", h->n_experts_used,
         h->n_experts > 0, h->n_experts},
        {"the number of rotated channels", h->rope_dim, 2, h->head_dim},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        clv_status status = check_range(where, ranges[i].what, ranges[i].value,
                                        ranges[i].least, ranges[i].most);
        if (status)
            return status;
    }
    if (h->n_heads % h->n_kv_heads)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: %" PRIu32 " heads are not a multiple of %" PRIu32
                         " key-value heads; convert the model anew",
                         where, h->n_heads, h->n_kv_heads);
    if (h->head_dim % 2 || h->rope_dim % 2)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: head dimension %" PRIu32 " and rotated channels "
                         "%" PRIu32 " must be even; convert the model anew",
                         where, h->head_dim, h->rope_dim);
    return CLV_OK;
}

clv_status llm_hparams_check(const llm_hparams *h, const char *where)
{
    clv_status status = check_counts(h, where);
    if (!status && !(h->norm_eps >= 0 && h->norm_eps <= 1))
        status = clv_error(CLV_ERR_FORMAT,
                           "%s: the norm's epsilon is %g, must be 0..1; "
                           "convert the model anew",
                           where, h->norm_eps);
    if (status)
        return status;
    status = llm_rope_check(h);
    return status ? clv_error_prefix(status, "%s", where) : CLV_OK;
}
