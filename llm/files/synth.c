/*
 * Models of a published shape with made-up weights, for work on speed and
 * plans. Weights are snippets of one pool of quantised noise: as varied as
 * speed needs, and made as fast as memory is written.
 */
#include "../models/arch.h"
#include "../random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#define POOL_ELEMENTS    (1u << 20)
#define SNIPPET_ELEMENTS 256u
#define WEIGHT_DEVIATION 0.02
/* Half the size of the 16-bit files these models are published in, with little
 * loss: what most would run. */
#define DEFAULT_DTYPE CLV_DTYPE_Q8_0

typedef struct shape {
    const char *name, *architecture;
    uint32_t n_layers, n_embd, n_ff, n_vocab, n_heads, n_kv_heads, head_dim;
    uint32_t n_ctx_train, sliding_window;
    float norm_eps, rope_base;
    bool tied;           /* token_embd is the output matrix too */
    float llama3_factor; /* rope scaling from 8192 positions; 0: none */
} shape;

static const shape shapes[] = {
    {"llama-1b", "llama", 16, 2048, 8192, 32000, 32, 8, 64, 4096, 0, 1e-5f,
     1e4f, false, 0},
    {"llama2-7b", "llama", 32, 4096, 11008, 32000, 32, 32, 128, 4096, 0, 1e-5f,
     1e4f, false, 0},
    {"llama2-70b", "llama", 80, 8192, 28672, 32000, 64, 8, 128, 4096, 0, 1e-5f,
     1e4f, false, 0},
    {"llama3-8b", "llama", 32, 4096, 14336, 128256, 32, 8, 128, 8192, 0, 1e-5f,
     5e5f, false, 0},
    {"llama3.2-3b", "llama", 28, 3072, 8192, 128256, 24, 8, 128, 131072, 0,
     1e-5f, 5e5f, true, 32},
    {"mistral-7b", "llama", 32, 4096, 14336, 32000, 32, 8, 128, 32768, 4096,
     1e-5f, 1e4f, false, 0},
    {"internlm2-1.8b", "llama", 24, 2048, 8192, 92544, 16, 8, 128, 32768, 0,
     1e-5f, 1e6f, false, 0},
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* Names with an architecture that is not there. */
static const char *const unavailable[][2] = {
    {"qwen1.5-1.8b", "qwen2"},
    {"qwen2-7b", "qwen2"},
    {"gemma-2b", "gemma"},
    {"gemma2-2b", "gemma2"},
    {"phi-2", "phi2"},
    {"mixtral-8x7b", "mixtral"},
    {"qwen2-57b-a14b", "qwen2moe"},
};
#define N_UNAVAILABLE (sizeof(unavailable) / sizeof(unavailable[0]))

static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16, CLV_DTYPE_BF16,
                                  CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

typedef struct synth_tensor {
    char name[48];
    uint32_t dtype, rank;
    int64_t dims[2];
    uint64_t offset, size; /* in the memory */
} synth_tensor;

typedef struct synth {
    llm_source source;
    uint8_t *memory; /* mapped, size bytes: all tensors */
    uint64_t size;
    synth_tensor *tensors;
    uint32_t n_tensors;
} synth;

/* Quantised noise that weights are cut from. */
typedef struct pool {
    uint8_t *data;         /* POOL_ELEMENTS */
    uint64_t snippet_size; /* bytes */
    llm_random rng;
} pool;

/* ------------------------------------------------------------------------ */
/* Names                                                                    */

/* Edits that turn a into b. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t row[64];
    const uint32_t n = (uint32_t)strnlen(b, 63);
    for (uint32_t j = 0; j <= n; j++)
        row[j] = j;
    for (uint32_t i = 0; a[i]; i++) {
        uint32_t diagonal = row[0];
        row[0] = i + 1;
        for (uint32_t j = 0; j < n; j++) {
            const uint32_t swap = diagonal + (a[i] != b[j]);
            const uint32_t add =
                1 + (row[j] < row[j + 1] ? row[j] : row[j + 1]);
            diagonal = row[j + 1];
            row[j + 1] = swap < add ? swap : add;
        }
    }
    return row[n];
}

static clv_status unknown_name(const char *name)
{
    char all[256] = "";
    size_t nearest = 0, at = 0;
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (distance(name, shapes[i].name) <
            distance(name, shapes[nearest].name))
            nearest = i;
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s",
                               i ? ", " : "", shapes[i].name);
    }
    for (size_t i = 0; i < N_UNAVAILABLE; i++)
        if (!strcmp(name, unavailable[i][0]))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "synth:%s needs architecture '%s', which is not "
                             "supported yet; there is: %s",
                             name, unavailable[i][1], all);
    return clv_error(CLV_ERR_NOT_FOUND,
                     "no made-up model is called '%s'; the nearest is %s, all "
                     "are: %s",
                     name, shapes[nearest].name, all);
}

static clv_status parse_dtype(const char *text, uint32_t *dtype)
{
    char all[64] = "";
    size_t at = 0;
    const uint32_t parsed = clv_dtype_parse(text);
    for (size_t i = 0; i < N_DTYPES; i++) {
        if (parsed == dtypes[i]) {
            *dtype = parsed;
            return CLV_OK;
        }
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s",
                               i ? ", " : "", clv_dtype_name(dtypes[i]));
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "made-up weights cannot be of type '%s'; types are: %s",
                     text, all);
}

/* Takes "NAME" or "NAME:QUANT" apart; without QUANT *dtype stays. */
static clv_status parse(const char *spec, const shape **out, uint32_t *dtype)
{
    char name[64];
    const char *colon = strchr(spec, ':');
    const size_t length = colon ? (size_t)(colon - spec) : strlen(spec);
    snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63),
             spec);
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (strcasecmp(name, shapes[i].name))
            continue;
        *out = &shapes[i];
        return colon ? parse_dtype(colon + 1, dtype) : CLV_OK;
    }
    return unknown_name(name);
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

static void set_hparams(llm_hparams *hp, const shape *s, uint32_t dtype)
{
    *hp = (llm_hparams){
        .n_layers = s->n_layers,
        .n_embd = s->n_embd,
        .n_ff = s->n_ff,
        .n_vocab = s->n_vocab,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .n_ctx_train = s->n_ctx_train,
        .sliding_window = s->sliding_window,
        .norm_eps = s->norm_eps,
        .rope_mode = CLV_ROPE_PAIRS,
        .rope_dim = s->head_dim,
        .rope_base = s->rope_base,
        .bos = -1,
        .eos = -1,
    };
    snprintf(hp->architecture, sizeof(hp->architecture), "%s", s->architecture);
    snprintf(hp->name, sizeof(hp->name), "synth:%s:%s", s->name,
             clv_dtype_name(dtype));
    if (s->llama3_factor > 0) {
        hp->rope_scaling = LLM_ROPE_LLAMA3;
        hp->rope_factor = s->llama3_factor;
        hp->rope_low_freq_factor = 1;
        hp->rope_high_freq_factor = 4;
        hp->rope_original_ctx = 8192;
    }
}

/* Adds [out, in], or with in 0 a vector [out]. */
static void add(synth *m, uint32_t dtype, int64_t out, int64_t in,
                const char *fmt, int layer)
{
    synth_tensor *t = &m->tensors[m->n_tensors++];
    snprintf(t->name, sizeof(t->name), fmt, layer);
    t->dtype = in ? dtype : CLV_DTYPE_F32;
    t->rank = in ? 2 : 1;
    t->dims[0] = out;
    t->dims[1] = in;
    clv_dtype_size(t->dtype, (uint64_t)(in ? out * in : out), &t->size);
    t->offset = m->size;
    m->size += (t->size + 63) / 64 * 64;
}

#define PER_LAYER 9
#define OUTSIDE   3

static clv_status list_tensors(synth *m, const shape *s, uint32_t dtype)
{
    const int64_t embd = s->n_embd, ff = s->n_ff;
    const int64_t q = (int64_t)s->n_heads * s->head_dim;
    const int64_t kv = (int64_t)s->n_kv_heads * s->head_dim;
    m->tensors =
        calloc(OUTSIDE + PER_LAYER * (size_t)s->n_layers, sizeof(*m->tensors));
    if (!m->tensors)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for a tensor list");
    add(m, dtype, s->n_vocab, embd, "token_embd.weight", 0);
    for (int i = 0; i < (int)s->n_layers; i++) {
        add(m, dtype, embd, 0, "blk.%d.attn_norm.weight", i);
        add(m, dtype, q, embd, "blk.%d.attn_q.weight", i);
        add(m, dtype, kv, embd, "blk.%d.attn_k.weight", i);
        add(m, dtype, kv, embd, "blk.%d.attn_v.weight", i);
        add(m, dtype, embd, q, "blk.%d.attn_output.weight", i);
        add(m, dtype, embd, 0, "blk.%d.ffn_norm.weight", i);
        add(m, dtype, ff, embd, "blk.%d.ffn_gate.weight", i);
        add(m, dtype, ff, embd, "blk.%d.ffn_up.weight", i);
        add(m, dtype, embd, ff, "blk.%d.ffn_down.weight", i);
    }
    add(m, dtype, embd, 0, "output_norm.weight", 0);
    if (!s->tied)
        add(m, dtype, s->n_vocab, embd, "output.weight", 0);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Weights                                                                  */

static clv_status pool_init(pool *p, uint32_t dtype)
{
    uint64_t size;
    clv_status status = clv_dtype_size(dtype, POOL_ELEMENTS, &size);
    if (!status)
        status = clv_dtype_size(dtype, SNIPPET_ELEMENTS, &p->snippet_size);
    if (status)
        return status;
    float *noise = malloc(POOL_ELEMENTS * sizeof(*noise));
    p->data = malloc(size);
    if (!noise || !p->data) {
        free(noise);
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for noise");
    }
    llm_random_seed(&p->rng, 1);
    for (uint32_t i = 0; i < POOL_ELEMENTS; i += 2) {
        const double u = 1 - llm_random_uniform(&p->rng);
        const double angle = 2 * M_PI * llm_random_uniform(&p->rng);
        const double radius = WEIGHT_DEVIATION * sqrt(-2 * log(u));
        noise[i] = (float)(radius * cos(angle));
        noise[i + 1] = (float)(radius * sin(angle));
    }
    status = clv_dtype_from_f32(dtype, noise, p->data, POOL_ELEMENTS);
    free(noise);
    return status;
}

static void fill_matrix(pool *p, uint8_t *data, uint64_t size)
{
    const uint32_t n_snippets = POOL_ELEMENTS / SNIPPET_ELEMENTS;
    for (uint64_t at = 0; at < size;) {
        const uint64_t from = llm_random_next(&p->rng) % n_snippets;
        const uint64_t left = size - at;
        const uint64_t n = left < p->snippet_size ? left : p->snippet_size;
        memcpy(data + at, p->data + from * p->snippet_size, n);
        at += n;
    }
}

static clv_status fill(synth *m, pool *p, clv_progress_fn progress,
                       void *progress_ctx)
{
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const synth_tensor *t = &m->tensors[i];
        uint8_t *data = m->memory + t->offset;
        if (t->rank == 1)
            for (int64_t j = 0; j < t->dims[0]; j++)
                ((float *)data)[j] = 1;
        else
            fill_matrix(p, data, t->size);
        if (progress && progress(progress_ctx, "making up weights",
                                 (i + 1.0) / m->n_tensors))
            return clv_error(CLV_ERR_CANCELLED,
                             "cancelled after %u of %u tensors", i + 1,
                             m->n_tensors);
    }
    return CLV_OK;
}

static clv_status map_memory(synth *m)
{
    void *memory = mmap(NULL, m->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "%s needs %.1f GiB of memory: %s; take a smaller "
                         "model or type",
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
        const synth_tensor *t = &m->tensors[i];
        if (strcmp(t->name, name))
            continue;
        *out = (llm_source_tensor){
            .dtype = t->dtype,
            .rank = t->rank,
            .dims = {t->dims[0], t->dims[1]},
            .data = m->memory + t->offset,
            .size = t->size,
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
    const shape *s = NULL;
    uint32_t dtype = DEFAULT_DTYPE;
    pool p = {0};
    clv_status status = parse(spec, &s, &dtype);
    if (status)
        return status;
    synth *m = calloc(1, sizeof(*m));
    if (!m)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for a model");
    m->source.find = find;
    m->source.tokenizer = no_tokenizer;
    m->source.destroy = destroy;
    set_hparams(&m->source.hparams, s, dtype);
    status = list_tensors(m, s, dtype);
    if (!status)
        status = map_memory(m);
    if (!status)
        status = pool_init(&p, dtype);
    if (!status)
        status = fill(m, &p, progress, progress_ctx);
    free(p.data);
    if (status) {
        destroy(&m->source);
        return status;
    }
    *out = &m->source;
    return CLV_OK;
}
