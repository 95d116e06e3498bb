#include "gguf.h"
#include "hparams.h"
#include "../tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gguf_source {
    llm_source base;
    llm_gguf *gguf;
} gguf_source;

static clv_status check_architecture(const llm_gguf *g)
{
    llm_str name;
    clv_status status = llm_gguf_get_str(g, "general.architecture", &name);
    if (status)
        return status;
    if (!llm_str_equal(name, llm_str_of("llama")))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: architecture '%s' is not supported; supported: "
                         "llama (Llama, Mistral, Mixtral and models of the "
                         "same form)",
                         llm_gguf_path(g), llm_str_show(name).text);
    return CLV_OK;
}

static clv_status load_counts(const llm_gguf *g, llm_hparams *h)
{
    const struct {
        const char *key;
        uint32_t *out;
    } needed[] = {
        {"llama.block_count", &h->n_layers},
        {"llama.context_length", &h->n_ctx_train},
        {"llama.embedding_length", &h->n_embd},
        {"llama.feed_forward_length", &h->n_ff},
        {"llama.attention.head_count", &h->n_heads},
    };
    clv_status status = CLV_OK;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && !status; i++)
        status = llm_gguf_get_u32(g, needed[i].key, needed[i].out);
    if (status)
        return status;
    h->n_kv_heads = h->n_heads;
    h->head_dim = h->n_heads ? h->n_embd / h->n_heads : 0;
    status = llm_gguf_opt(get_u32, g, "llama.attention.head_count_kv",
                          &h->n_kv_heads);
    if (!status)
        status = llm_gguf_opt(get_u32, g, "llama.attention.key_length",
                              &h->head_dim);
    uint32_t value_length = h->head_dim;
    if (!status)
        status = llm_gguf_opt(get_u32, g, "llama.attention.value_length",
                              &value_length);
    if (!status && value_length != h->head_dim)
        status = clv_error(CLV_ERR_UNSUPPORTED,
                           "%s: keys of %" PRIu32 " channels with values of "
                           "%" PRIu32 "; supported: equal ones",
                           llm_gguf_path(g), h->head_dim, value_length);
    if (!status)
        status = llm_gguf_opt(get_u32, g, "llama.attention.sliding_window",
                              &h->sliding_window);
    if (!status)
        status = llm_gguf_opt(get_u32, g, "llama.expert_count", &h->n_experts);
    if (!status)
        status = llm_gguf_opt(get_u32, g, "llama.expert_used_count",
                              &h->n_experts_used);
    return status;
}

/* By key, and without one by the rows of the embedding. */
static clv_status load_vocab(const llm_gguf *g, llm_hparams *h)
{
    const llm_gguf_tensor *embd = llm_gguf_find(g, "token_embd.weight");
    if (!embd)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: has no tensor 'token_embd.weight'; if it is a "
                         "vocabulary only, use the model's file",
                         llm_gguf_path(g));
    if (embd->rank != 2 || embd->dims[0] > LLM_MAX_VOCAB)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: tensor 'token_embd.weight' is not a matrix of "
                         "at most %d rows; convert the model anew",
                         llm_gguf_path(g), LLM_MAX_VOCAB);
    h->n_vocab = (uint32_t)embd->dims[0];
    return CLV_OK;
}

static clv_status load_scaling(const llm_gguf *g, llm_hparams *h)
{
    llm_str type = llm_str_of("linear");
    h->rope_factor = 1;
    clv_status status =
        llm_gguf_opt(get_f32, g, "llama.rope.scale_linear", &h->rope_factor);
    if (!status)
        status = llm_gguf_opt(get_f32, g, "llama.rope.scaling.factor",
                              &h->rope_factor);
    if (!status)
        status = llm_gguf_opt(get_u32, g,
                              "llama.rope.scaling.original_context_length",
                              &h->rope_original_ctx);
    if (!status)
        status = llm_gguf_opt(get_str, g, "llama.rope.scaling.type", &type);
    if (status || llm_str_equal(type, llm_str_of("none")))
        return status;
    if (!llm_str_equal(type, llm_str_of("linear")))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: rotary scaling '%s' is not supported; supported: "
                         "none, linear, and llama3's rope_freqs.weight",
                         llm_gguf_path(g), llm_str_show(type).text);
    if (h->rope_factor != 1 && h->rope_factor != 0)
        h->rope_scaling = LLM_ROPE_LINEAR;
    return CLV_OK;
}

static clv_status load_rope(const llm_gguf *g, llm_hparams *h)
{
    h->rope_mode = CLV_ROPE_PAIRS;
    h->rope_dim = h->head_dim;
    h->rope_base = 10000;
    clv_status status =
        llm_gguf_opt(get_u32, g, "llama.rope.dimension_count", &h->rope_dim);
    if (!status)
        status =
            llm_gguf_opt(get_f32, g, "llama.rope.freq_base", &h->rope_base);
    return status ? status : load_scaling(g, h);
}

static clv_status load_tokens(const llm_gguf *g, llm_hparams *h)
{
    h->bos = h->eos = -1;
    clv_status status =
        llm_gguf_opt(get_i32, g, "tokenizer.ggml.bos_token_id", &h->bos);
    if (!status)
        status =
            llm_gguf_opt(get_i32, g, "tokenizer.ggml.eos_token_id", &h->eos);
    return status;
}

static clv_status load_hparams(const llm_gguf *g, llm_hparams *h)
{
    llm_str name = {"", 0};
    strcpy(h->architecture, "llama");
    clv_status status = load_counts(g, h);
    if (!status)
        status = load_vocab(g, h);
    if (!status)
        status = llm_gguf_get_f32(g, "llama.attention.layer_norm_rms_epsilon",
                                  &h->norm_eps);
    if (!status)
        status = load_rope(g, h);
    if (!status)
        status = load_tokens(g, h);
    if (!status)
        status = llm_gguf_opt(get_str, g, "general.name", &name);
    snprintf(h->name, sizeof h->name, "%s", llm_str_show(name).text);
    return status ? status : llm_hparams_check(h, llm_gguf_path(g));
}

/* Here, and not when a tensor is asked for, so that the answer comes at once
 * and with what to do. */
static clv_status check_types(const llm_gguf *g)
{
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        if (t->dtype == CLV_DTYPE_NONE)
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: tensor '%s' has type %s, supported: %s; use "
                             "a file of the model in one of these",
                             llm_gguf_path(g), llm_str_show(t->name).text,
                             llm_gguf_type_name(t->type),
                             llm_gguf_supported_types().text);
    }
    return CLV_OK;
}

static clv_status find(llm_source *base, const char *name,
                       llm_source_tensor *out)
{
    gguf_source *s = (gguf_source *)base;
    const llm_gguf_tensor *t = llm_gguf_find(s->gguf, name);
    if (!t)
        return CLV_ERR_NOT_FOUND;
    *out = (llm_source_tensor){
        .dtype = t->dtype,
        .rank = t->rank,
        .data = t->data,
        .size = t->size,
    };
    memcpy(out->dims, t->dims, sizeof out->dims);
    return CLV_OK;
}

/* None is no error. */
/* How files say that they come without a vocabulary. */
static bool has_no_vocab(const llm_gguf *g)
{
    llm_str model = {0};
    const char *key = "tokenizer.ggml.model";
    return llm_gguf_has(g, key) && !llm_gguf_get_str(g, key, &model) &&
           (llm_str_equal(model, llm_str_of("no_vocab")) ||
            llm_str_equal(model, llm_str_of("none")));
}

static clv_status tokenizer(llm_source *base, clv_tokenizer **out)
{
    gguf_source *s = (gguf_source *)base;
    *out = NULL;
    if (has_no_vocab(s->gguf))
        return CLV_OK;
    clv_status status = llm_tokenizer_from_gguf(s->gguf, out);
    return status == CLV_ERR_NOT_FOUND ? CLV_OK : status;
}

static void destroy(llm_source *base)
{
    gguf_source *s = (gguf_source *)base;
    llm_gguf_close(s->gguf);
    free(s);
}

clv_status llm_source_open_gguf(const char *path, llm_source **out)
{
    gguf_source *s = calloc(1, sizeof *s);
    if (!s)
        return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory to open it", path);
    s->base.find = find;
    s->base.tokenizer = tokenizer;
    s->base.destroy = destroy;
    clv_status status = llm_gguf_open(path, &s->gguf);
    if (!status)
        status = check_architecture(s->gguf);
    if (!status)
        status = check_types(s->gguf);
    if (!status)
        status = load_hparams(s->gguf, &s->base.hparams);
    if (status) {
        destroy(&s->base);
        return status;
    }
    *out = &s->base;
    return CLV_OK;
}
