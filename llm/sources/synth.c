/*
 * Models of a published shape with made-up weights, for work on speed and
 * plans.
 */
#include "synth.h"

#include "../models/arch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct synth {
    llm_source source;
    uint8_t *memory; /* mapped, size bytes: all tensors */
    uint64_t size;
    llm_synth_tensor *tensors;
    uint32_t n_tensors;
} synth;

static void set_hparams(llm_hparams *hp, const llm_synth_shape *s,
                        const llm_synth_format *format, bool zero)
{
    *hp = (llm_hparams){
        .n_layers = s->n_layers,
        .n_embd = s->n_embd,
        .n_ff = s->n_ff,
        .n_vocab = s->n_vocab,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .n_experts = s->n_experts,
        .n_experts_used = s->n_experts_used,
        .head_dim = s->head_dim,
        .n_ctx_train = s->n_ctx_train,
        .sliding_window = s->sliding_window,
        .norm_eps = s->norm_eps,
        .rope_mode = s->qkv_bias ? CLV_ROPE_HALVES : CLV_ROPE_PAIRS,
        .rope_dim = s->head_dim,
        .rope_base = s->rope_base,
        .bos = -1,
        .eos = -1,
    };
    snprintf(hp->architecture, sizeof(hp->architecture), "%s", s->architecture);
    snprintf(hp->name, sizeof(hp->name), "synth:%s:%s%s", s->name, format->name,
             zero ? ":zero" : "");
    if (s->llama3_factor > 0) {
        hp->rope_scaling = LLM_ROPE_LLAMA3;
        hp->rope_factor = s->llama3_factor;
        hp->rope_low_freq_factor = 1;
        hp->rope_high_freq_factor = 4;
        hp->rope_original_ctx = 8192;
    }
}

static uint64_t place(synth *m, uint64_t size)
{
    const uint64_t offset = m->size;
    m->size += (size + 63) / 64 * 64;
    return offset;
}

static llm_synth_tensor *add(synth *m, const char *fmt, int layer)
{
    llm_synth_tensor *t = &m->tensors[m->n_tensors++];
    snprintf(t->name, sizeof(t->name), fmt, layer);
    return t;
}

/* A vector [n] of one value. */
static void add_vector(synth *m, int64_t n, float value, const char *fmt,
                       int layer)
{
    llm_synth_tensor *t = add(m, fmt, layer);
    t->type.dtype = CLV_DTYPE_F32;
    t->rank = 1;
    t->dims[0] = n;
    t->value = value;
    t->size = (uint64_t)n * sizeof(float);
    t->offset = place(m, t->size);
}

/* A matrix [out, in]. */
static void add_matrix(synth *m, llm_synth_type type, int64_t out, int64_t in,
                       const char *fmt, int layer)
{
    llm_synth_tensor *t = add(m, fmt, layer);
    t->type = type;
    t->rank = 2;
    t->dims[0] = out;
    t->dims[1] = in;
    clv_dtype_size(type.dtype, (uint64_t)(out * in), &t->size);
    t->offset = place(m, t->size);
    if (type.quant) {
        t->n_scales = type.quant == CLV_QUANT_PER_CHANNEL ? (uint64_t)out : 1;
        t->scales = place(m, t->n_scales * sizeof(float));
    }
}

/* Matrices [n, out, in]. */
static void add_experts(synth *m, llm_synth_type type, int64_t n, int64_t out,
                        int64_t in, const char *fmt, int layer)
{
    llm_synth_tensor *t = add(m, fmt, layer);
    t->type = type;
    t->rank = 3;
    t->dims[0] = n;
    t->dims[1] = out;
    t->dims[2] = in;
    clv_dtype_size(type.dtype, (uint64_t)(n * out * in), &t->size);
    t->offset = place(m, t->size);
}

static void add_feed_forward(synth *m, const llm_synth_shape *s,
                             llm_synth_type type, int i)
{
    const int64_t embd = s->n_embd, ff = s->n_ff, n = s->n_experts;
    const llm_synth_type exact = {CLV_DTYPE_F32, 0};
    if (!n) {
        add_matrix(m, type, ff, embd, "blk.%d.ffn_gate.weight", i);
        add_matrix(m, type, ff, embd, "blk.%d.ffn_up.weight", i);
        add_matrix(m, type, embd, ff, "blk.%d.ffn_down.weight", i);
        return;
    }
    add_matrix(m, exact, n, embd, "blk.%d.ffn_gate_inp.weight", i);
    add_experts(m, type, n, ff, embd, "blk.%d.ffn_gate_exps.weight", i);
    add_experts(m, type, n, ff, embd, "blk.%d.ffn_up_exps.weight", i);
    add_experts(m, type, n, embd, ff, "blk.%d.ffn_down_exps.weight", i);
}

#define PER_LAYER 13
#define OUTSIDE 3
#define BIAS 0.01f

static void add_layer(synth *m, const llm_synth_shape *s, llm_synth_type type,
                      int i)
{
    const int64_t embd = s->n_embd;
    const int64_t q = (int64_t)s->n_heads * s->head_dim;
    const int64_t kv = (int64_t)s->n_kv_heads * s->head_dim;
    add_vector(m, embd, 1, "blk.%d.attn_norm.weight", i);
    add_matrix(m, type, q, embd, "blk.%d.attn_q.weight", i);
    add_matrix(m, type, kv, embd, "blk.%d.attn_k.weight", i);
    add_matrix(m, type, kv, embd, "blk.%d.attn_v.weight", i);
    if (s->qkv_bias) {
        add_vector(m, q, BIAS, "blk.%d.attn_q.bias", i);
        add_vector(m, kv, BIAS, "blk.%d.attn_k.bias", i);
        add_vector(m, kv, BIAS, "blk.%d.attn_v.bias", i);
    }
    add_matrix(m, type, embd, q, "blk.%d.attn_output.weight", i);
    add_vector(m, embd, 1, "blk.%d.ffn_norm.weight", i);
    add_feed_forward(m, s, type, i);
}

static clv_status list_tensors(synth *m, const llm_synth_shape *s,
                               const llm_synth_format *format)
{
    m->tensors =
        calloc(OUTSIDE + PER_LAYER * (size_t)s->n_layers, sizeof(*m->tensors));
    if (!m->tensors)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for a tensor list");
    /* As an output matrix it is one like the others. */
    add_matrix(m, s->tied ? format->matrix : format->table, s->n_vocab,
               s->n_embd, "token_embd.weight", 0);
    for (int i = 0; i < (int)s->n_layers; i++)
        add_layer(m, s, format->matrix, i);
    add_vector(m, s->n_embd, 1, "output_norm.weight", 0);
    if (!s->tied)
        add_matrix(m, format->matrix, s->n_vocab, s->n_embd, "output.weight",
                   0);
    return CLV_OK;
}

/* Memory that is never written takes none: zeros. */
static clv_status map_memory(synth *m, bool zero)
{
    void *memory =
        mmap(NULL, m->size, PROT_READ | (zero ? 0 : PROT_WRITE),
             MAP_PRIVATE | MAP_ANONYMOUS | (zero ? MAP_NORESERVE : 0), -1, 0);
    if (memory == MAP_FAILED)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "%s needs %.1f GiB of memory: %s; take a smaller "
                         "model or type, or ':zero' for devices that do not "
                         "compute",
                         m->source.hparams.name, (double)m->size / (1 << 30),
                         strerror(errno));
    madvise(memory, m->size, MADV_HUGEPAGE); /* only for speed */
    m->memory = memory;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Source                                                                   */

static clv_status find(llm_source *source, const char *name,
                       llm_source_tensor *out)
{
    const synth *m = (synth *)source;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const llm_synth_tensor *t = &m->tensors[i];
        if (strcmp(t->name, name))
            continue;
        *out = (llm_source_tensor){
            .dtype = t->type.dtype,
            .rank = t->rank,
            .dims = {t->dims[0], t->dims[1], t->dims[2]},
            .data = m->memory + t->offset,
            .size = t->size,
            .quant = t->type.quant,
            .scales = m->memory + t->scales,
            .n_scales = t->n_scales,
        };
        return CLV_OK;
    }
    return CLV_ERR_NOT_FOUND;
}

static clv_status no_tokenizer(llm_source *source, clv_tokenizer **out)
{
    (void)source;
    *out = NULL;
    return CLV_OK;
}

static void destroy(llm_source *source)
{
    synth *m = (synth *)source;
    if (m->memory)
        munmap(m->memory, m->size);
    free(m->tensors);
    free(m);
}

clv_status llm_source_open_synth(const char *spec, clv_progress_fn progress,
                                 void *progress_ctx, llm_source **out)
{
    const llm_synth_shape *s = NULL;
    const llm_synth_format *format = NULL;
    bool zero = false;
    clv_status status = llm_synth_parse(spec, &s, &format, &zero);
    if (status)
        return status;
    synth *m = calloc(1, sizeof(*m));
    if (!m)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for a model");
    m->source.find = find;
    m->source.tokenizer = no_tokenizer;
    m->source.destroy = destroy;
    set_hparams(&m->source.hparams, s, format, zero);
    status = list_tensors(m, s, format);
    if (!status)
        status = map_memory(m, zero);
    if (!status && !zero)
        status = llm_synth_fill(m->memory, m->tensors, m->n_tensors, progress,
                                progress_ctx);
    if (status) {
        destroy(&m->source);
        return status;
    }
    *out = &m->source;
    return CLV_OK;
}
