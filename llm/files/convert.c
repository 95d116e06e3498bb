#include "convert_tokenizer.h"
#include "../models/llama_tensors.h"
#include "recode.h"
#include "../rope.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One conversion under way. */
typedef struct conversion {
    const char *dir;
    llm_source *source;
    llm_gguf_writer *writer;
    uint32_t dtype;  /* NONE: as the source has it */
    float *divisors; /* rope_freqs.weight [rope_dim / 2]; NULL: none */
    bool tied;
} conversion;

/* ------------------------------------------------------------------------ */
/* Settings                                                                 */

static void write_hparams(llm_gguf_writer *w, const llm_hparams *h)
{
    llm_gguf_writer_str(w, "general.architecture", llm_str_of(h->architecture));
    llm_gguf_writer_str(w, "general.name", llm_str_of(h->name));
    llm_gguf_writer_u32(w, "llama.context_length", h->n_ctx_train);
    llm_gguf_writer_u32(w, "llama.embedding_length", h->n_embd);
    llm_gguf_writer_u32(w, "llama.block_count", h->n_layers);
    llm_gguf_writer_u32(w, "llama.feed_forward_length", h->n_ff);
    llm_gguf_writer_u32(w, "llama.attention.head_count", h->n_heads);
    llm_gguf_writer_u32(w, "llama.attention.head_count_kv", h->n_kv_heads);
    llm_gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon",
                        h->norm_eps);
    llm_gguf_writer_u32(w, "llama.rope.dimension_count", h->rope_dim);
    llm_gguf_writer_f32(w, "llama.rope.freq_base", h->rope_base);
    llm_gguf_writer_u32(w, "llama.vocab_size", h->n_vocab);
    if (h->n_experts) {
        llm_gguf_writer_u32(w, "llama.expert_count", h->n_experts);
        llm_gguf_writer_u32(w, "llama.expert_used_count", h->n_experts_used);
    }
    if ((uint64_t)h->head_dim * h->n_heads != h->n_embd) {
        llm_gguf_writer_u32(w, "llama.attention.key_length", h->head_dim);
        llm_gguf_writer_u32(w, "llama.attention.value_length", h->head_dim);
    }
    if (h->sliding_window)
        llm_gguf_writer_u32(w, "llama.attention.sliding_window",
                            h->sliding_window);
    if (h->rope_scaling == LLM_ROPE_LINEAR) {
        llm_gguf_writer_str(w, "llama.rope.scaling.type", llm_str_of("linear"));
        llm_gguf_writer_f32(w, "llama.rope.scaling.factor", h->rope_factor);
    }
}

/* What a matrix of the source becomes; dtype NONE asks the first one. */
static uint32_t file_dtype(const conversion *c)
{
    llm_source_tensor t;
    if (c->dtype != CLV_DTYPE_NONE)
        return c->dtype;
    return c->source->find(c->source, "blk.0.attn_q.weight", &t) ? CLV_DTYPE_F16
                                                                 : t.dtype;
}

static void write_file_type(const conversion *c)
{
    uint32_t dtype = file_dtype(c);
    llm_gguf_writer_u32(c->writer, "general.file_type",
                        clv_format_of(dtype)->gguf_file_type);
    if (clv_format_is(dtype, CLV_FORMAT_BLOCK))
        llm_gguf_writer_u32(c->writer, "general.quantization_version", 2);
}

/* A vocabulary in a form that is not read must not be lost without a word. */
static clv_status check_no_tokenizer(const char *dir)
{
    char *path = llm_path_join(dir, "tokenizer.model");
    if (!path)
        return CLV_ERR_NO_MEMORY;
    bool there = access(path, F_OK) == 0;
    free(path);
    if (there)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: its tokenizer is in tokenizer.model only, wanted "
                         "is tokenizer.json; save the tokenizer in that form",
                         dir);
    return CLV_OK;
}

static clv_status write_tokenizer(const conversion *c)
{
    const llm_hparams *h = &c->source->hparams;
    clv_tokenizer *tok = NULL;
    clv_status status = c->source->tokenizer(c->source, &tok);
    if (status)
        return status;
    if (tok) {
        status = llm_convert_tokenizer(tok, c->dir, h->n_vocab, c->writer);
        clv_tokenizer_destroy(tok);
        return status;
    }
    status = check_no_tokenizer(c->dir);
    if (status)
        return status;
    llm_gguf_writer_str(c->writer, "tokenizer.ggml.model",
                        llm_str_of("no_vocab"));
    if (h->bos >= 0)
        llm_gguf_writer_u32(c->writer, "tokenizer.ggml.bos_token_id",
                            (uint32_t)h->bos);
    if (h->eos >= 0)
        llm_gguf_writer_u32(c->writer, "tokenizer.ggml.eos_token_id",
                            (uint32_t)h->eos);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

/* GGUF says llama3's scaling as a divisor of each frequency. */
static clv_status make_divisors(conversion *c)
{
    llm_hparams h = c->source->hparams;
    uint32_t n = h.rope_dim / 2;
    if (h.rope_scaling != LLM_ROPE_LLAMA3)
        return CLV_OK;
    float *scaled = calloc(n, sizeof *scaled);
    c->divisors = calloc(n, sizeof *c->divisors);
    clv_status status = CLV_OK;
    if (!scaled || !c->divisors)
        status = clv_error(CLV_ERR_NO_MEMORY, "%s: no memory", c->dir);
    if (!status)
        status = llm_rope_frequencies(&h, NULL, scaled);
    h.rope_scaling = LLM_ROPE_NONE;
    if (!status)
        status = llm_rope_frequencies(&h, NULL, c->divisors);
    for (uint32_t j = 0; j < n && !status; j++)
        c->divisors[j] /= scaled[j];
    free(scaled);
    return status;
}

static llm_recode_tensor divisor_tensor(const conversion *c)
{
    return (llm_recode_tensor){
        .name = llm_str_of("rope_freqs.weight"),
        .from = CLV_DTYPE_F32,
        .to = CLV_DTYPE_F32,
        .data = c->divisors,
        .rows = 1,
        .columns = c->source->hparams.rope_dim / 2,
    };
}

/* False if the source has no such tensor. */
static bool find_tensor(const conversion *c, const llm_llama_tensor *expected,
                        llm_recode_tensor *out)
{
    llm_source_tensor t;
    if (c->source->find(c->source, expected->gguf, &t))
        return false;
    llm_str name = llm_str_of(expected->gguf);
    uint32_t dtype = c->dtype == CLV_DTYPE_NONE ? t.dtype : c->dtype;
    const bool vector = t.rank == 1;
    uint64_t rows = (uint64_t)t.dims[0];
    for (uint32_t i = 1; i + 1 < t.rank; i++)
        rows *= (uint64_t)t.dims[i];
    *out = (llm_recode_tensor){
        .name = name,
        .from = t.dtype,
        .to =
            llm_recode_target(name, t.rank, t.dims[t.rank - 1], dtype, c->tied),
        .data = t.data,
        .rows = rows,
        .columns = vector ? 1 : (uint64_t)t.dims[t.rank - 1],
        .interleave = expected->rotary ? c->source->hparams.head_dim : 0,
    };
    return true;
}

/* Calls for every tensor, in the order of the file. */
static clv_status each_tensor(const conversion *c, llm_recode *recode,
                              uint64_t *total)
{
    const llm_hparams *h = &c->source->hparams;
    clv_status status = CLV_OK;
    if (c->divisors) {
        llm_recode_tensor t = divisor_tensor(c);
        if (recode)
            status = llm_recode_write(recode, &t);
        else
            llm_gguf_writer_tensor(c->writer, t.name, t.to, 1,
                                   (int64_t[]){(int64_t)t.columns});
        *total += t.columns;
    }
    for (uint64_t i = 0; i < llm_llama_tensor_count(h) && !status; i++) {
        llm_llama_tensor expected;
        llm_recode_tensor t;
        llm_llama_tensor_at(h, i, &expected);
        if (!find_tensor(c, &expected, &t))
            continue;
        if (recode)
            status = llm_recode_write(recode, &t);
        else
            llm_gguf_writer_tensor(c->writer, t.name, t.to, expected.rank,
                                   expected.dims);
        *total += t.rows * t.columns;
    }
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status convert(conversion *c, const char *out,
                          clv_progress_fn progress, void *progress_ctx)
{
    llm_recode recode = {0};
    llm_source_tensor t;
    uint64_t total = 0, done = 0;
    c->tied = c->source->find(c->source, "output.weight", &t) != CLV_OK;
    write_hparams(c->writer, &c->source->hparams);
    write_file_type(c);
    clv_status status = write_tokenizer(c);
    if (!status)
        status = make_divisors(c);
    if (!status)
        status = each_tensor(c, NULL, &total);
    if (!status)
        status = llm_recode_init(&recode, c->writer, "converting", total,
                                 progress, progress_ctx);
    if (!status)
        status = llm_gguf_writer_open(c->writer, out);
    if (!status)
        status = each_tensor(c, &recode, &done);
    if (!status)
        status = llm_gguf_writer_commit(c->writer);
    llm_recode_finish(&recode);
    return status;
}

clv_status clv_convert(const char *dir, const char *out, uint32_t dtype,
                       clv_progress_fn progress, void *progress_ctx)
{
    conversion c = {.dir = dir, .dtype = dtype};
    clv_status status = CLV_OK;
    if (!dir || !out)
        return clv_error(CLV_ERR_INVALID, "clv_convert: a path is NULL");
    if (dtype != CLV_DTYPE_NONE)
        status = llm_recode_check(dtype);
    if (!status)
        status = llm_source_open_hf(dir, &c.source);
    if (!status)
        status = llm_gguf_writer_create(&c.writer);
    if (!status)
        status = convert(&c, out, progress, progress_ctx);
    llm_gguf_writer_destroy(c.writer);
    llm_source_destroy(c.source);
    free(c.divisors);
    return status;
}
