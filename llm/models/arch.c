#include "arch.h"

#include "../base/str.h"

#include <stdio.h>
#include <string.h>

extern const llm_arch llm_arch_llama, llm_arch_internlm2, llm_arch_qwen2,
    llm_arch_qwen2moe, llm_arch_qwen3, llm_arch_qwen3moe, llm_arch_gemma,
    llm_arch_gemma2, llm_arch_gemma3, llm_arch_phi2, llm_arch_phi3,
    llm_arch_phimoe;

static const llm_arch *const archs[] = {
    &llm_arch_llama,  &llm_arch_internlm2, &llm_arch_qwen2, &llm_arch_qwen2moe,
    &llm_arch_qwen3,  &llm_arch_qwen3moe,  &llm_arch_gemma, &llm_arch_gemma2,
    &llm_arch_gemma3, &llm_arch_phi2,      &llm_arch_phi3,  &llm_arch_phimoe,
};

enum { N_ARCHS = sizeof archs / sizeof archs[0] };

const llm_arch *llm_arch_at(uint32_t i)
{
    return i < N_ARCHS ? archs[i] : NULL;
}

bool llm_arch_ignores(const char *name)
{
    static const char *const ends[] = {
        "rotary_emb.inv_freq",       "attn_rot_embd.weight",
        "rope_freqs.weight",         "rope_factors_long.weight",
        "rope_factors_short.weight",
    };
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        if (n >= m && !strcmp(name + n - m, ends[i]))
            return true;
    }
    return false;
}

static clv_status unsupported(const char *name, const char *where,
                              const char *known)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: architecture '%s' is not supported; supported: %s",
                     where, name, known);
}

clv_status llm_arch_find(const char *name, const char *where,
                         const llm_arch **out)
{
    char known[512] = "";
    for (uint32_t i = 0; i < N_ARCHS; i++) {
        *out = archs[i];
        if (!strcmp(archs[i]->name, name))
            return CLV_OK;
        llm_list_add(known, sizeof known, archs[i]->name);
    }
    return unsupported(name, where, known);
}

clv_status llm_arch_find_class(const char *name, const char *where,
                               const llm_arch **out, const llm_class **class)
{
    char known[512] = "";
    for (uint32_t i = 0; i < N_ARCHS; i++) {
        *out = archs[i];
        for (*class = archs[i]->classes; (*class)->name; ++*class) {
            if (!strcmp((*class)->name, name))
                return CLV_OK;
            llm_list_add(known, sizeof known, (*class)->name);
        }
    }
    return unsupported(name, where, known);
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

static int64_t width(const llm_hparams *h, uint8_t which)
{
    switch (which) {
    case LLM_EMBD:
        return h->n_embd;
    case LLM_FF:
        return h->n_ff;
    case LLM_VOCAB:
        return h->n_vocab;
    case LLM_Q:
        return (int64_t)h->n_heads * h->head_dim;
    case LLM_KV:
        return (int64_t)h->n_kv_heads * h->head_dim;
    case LLM_QKV:
        return ((int64_t)h->n_heads + 2 * (int64_t)h->n_kv_heads) * h->head_dim;
    case LLM_HEAD:
        return h->head_dim;
    case LLM_EXPERTS:
        return h->n_experts;
    case LLM_FF_2:
        return 2 * (int64_t)h->n_ff;
    case LLM_FF_EXPERT:
        return h->n_ff_expert ? h->n_ff_expert : h->n_ff;
    case LLM_FF_SHARED:
        return h->n_ff_shared;
    }
    return 0;
}

/* Block 0 is what the model has once, block i + 1 is layer i. */
static bool belongs(const llm_hparams *h, const llm_tensor_row *row,
                    uint32_t block)
{
    const bool sparse =
        h->n_experts && block && !(h->layers[block - 1] & LLM_LAYER_DENSE);
    return (row->role >= LLM_LAYER_ROLES) == (block > 0) &&
           !(row->flags & (sparse ? LLM_DENSE : LLM_SPARSE));
}

/* Whether a row has a bias. */
static llm_presence bias_of(const llm_hparams *h, const llm_tensor_row *row)
{
    return row->flags & LLM_BIAS          ? LLM_ALWAYS
           : row->flags & LLM_ATTN_BIAS   ? (llm_presence)h->attn_bias
           : row->flags & LLM_MLP_BIAS    ? (llm_presence)h->mlp_bias
           : row->flags & LLM_OUTPUT_BIAS ? (llm_presence)h->output_bias
                                          : LLM_NEVER;
}

static void describe(const llm_hparams *h, llm_tensor *t)
{
    const llm_tensor_row *row = t->row;
    const char *suffix = t->bias ? "bias" : "weight";
    char gguf[32] = "", hf[32] = "";
    if (t->block) {
        t->layer = t->block - 1;
        snprintf(gguf, sizeof gguf, "blk.%u.", t->layer);
        snprintf(hf, sizeof hf, "model.layers.%u.", t->layer);
    }
    snprintf(t->gguf, sizeof t->gguf, "%s%s.%s", gguf, row->gguf, suffix);
    t->hf[0] = 0;
    if (row->hf)
        snprintf(t->hf, sizeof t->hf, "%s%s.%s", hf, row->hf, suffix);
    t->optional =
        (t->bias && bias_of(h, row) == LLM_PERHAPS) || row->flags & LLM_OLD;
    t->n_parts = 1;
    t->rank = 0;
    if (row->hf && strchr(row->hf, '#'))
        t->dims[t->rank++] = t->n_parts = h->n_experts;
    t->dims[t->rank++] = width(h, row->out);
    if (row->in != LLM_NONE && !t->bias)
        t->dims[t->rank++] = width(h, row->in);
}

bool llm_tensor_next(const llm_hparams *h, llm_tensor *t)
{
    const llm_tensor_row *rows = h->arch->tensors;
    t->bias = t->row && !t->bias && bias_of(h, t->row) != LLM_NEVER;
    if (!t->bias) {
        do {
            if (!rows[t->at].gguf) {
                t->at = 0;
                t->block++;
            }
            if (t->block > h->n_layers)
                return false;
            t->row = &rows[t->at++];
        } while (!belongs(h, t->row, t->block));
    }
    describe(h, t);
    return true;
}

void llm_tensor_part(const llm_tensor *tensor, uint32_t part,
                     char name[LLM_TENSOR_NAME])
{
    const char *number = strchr(tensor->hf, '#');
    if (number)
        snprintf(name, LLM_TENSOR_NAME, "%.*s%u%s", (int)(number - tensor->hf),
                 tensor->hf, part, number + 1);
    else
        memcpy(name, tensor->hf, sizeof tensor->hf);
}
