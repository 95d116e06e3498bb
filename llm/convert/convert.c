#include "tokenizer.h"

#include "../quantize/recode.h"
#include "../models/rope.h"
#include "../sources/hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A conversion in progress. */
typedef struct conversion {
    const char *dir;
    llm_source *source;
    llm_gguf_writer *writer;
    const llm_mix *mix; /* NULL: as the source has it */
    llm_mix_model model;
    float *divisors; /* rope_freqs.weight [rope_dim / 2]; NULL: none */
} conversion;

/* ------------------------------------------------------------------------ */
/* Settings                                                                 */

static void write_setting(llm_gguf_writer *w, const llm_hparams *h,
                          const llm_setting *s)
{
    llm_hparams copy = *h;
    const void *field = llm_setting_field(s, &copy);
    if (!s->gguf)
        return;
    const llm_gguf_key key = llm_gguf_key_of(h->arch, s->gguf);
    if (s->flags & LLM_SETTING_FLOAT)
        llm_gguf_writer_f32(w, key.text, *(const float *)field);
    else if (s->flags & LLM_SETTING_BOOL && h->n_experts)
        llm_gguf_writer_bool(w, key.text, *(const uint32_t *)field);
    else if (*(const uint32_t *)field)
        llm_gguf_writer_u32(w, key.text, *(const uint32_t *)field);
}

/* A scaling by the name of its type in GGUF files. */
static void write_rope(llm_gguf_writer *w, const llm_hparams *h)
{
    static const char *const types[] = {[LLM_ROPE_LINEAR] = "linear",
                                        [LLM_ROPE_YARN] = "yarn",
                                        [LLM_ROPE_LONG] = "longrope"};
    const uint32_t scaling = h->rope_scaling;
    float attn = h->rope_attn_factor;
    if (scaling >= sizeof types / sizeof *types || !types[scaling])
        return;
    llm_gguf_writer_str(w, llm_gguf_key_of(h->arch, "rope.scaling.type").text,
                        llm_str_of(types[scaling]));
    if (scaling != LLM_ROPE_LONG)
        llm_gguf_writer_f32(
            w, llm_gguf_key_of(h->arch, "rope.scaling.factor").text,
            h->rope_factor);
    if (scaling == LLM_ROPE_LINEAR)
        return;
    if (scaling == LLM_ROPE_YARN) {
        attn /= llm_rope_yarn_factor(h, 1);
        llm_gguf_writer_f32(
            w, llm_gguf_key_of(h->arch, "rope.scaling.beta_fast").text,
            h->rope_beta_fast);
        llm_gguf_writer_f32(
            w, llm_gguf_key_of(h->arch, "rope.scaling.beta_slow").text,
            h->rope_beta_slow);
    }
    llm_gguf_writer_u32(
        w,
        llm_gguf_key_of(h->arch, "rope.scaling.original_context_length").text,
        h->rope_original_ctx);
    llm_gguf_writer_f32(
        w, llm_gguf_key_of(h->arch, "rope.scaling.attn_factor").text, attn);
}

/* Which layers have a window, where not all have the same. */
static void write_layers(llm_gguf_writer *w, const llm_hparams *h)
{
    uint8_t windows[LLM_MAX_LAYERS];
    bool differ = false;
    for (uint32_t i = 0; i < h->n_layers; i++) {
        windows[i] = !(h->layers[i] & LLM_LAYER_FULL);
        differ |= !windows[i];
    }
    if (h->sliding_window && (differ || h->window_period))
        llm_gguf_writer_bools(
            w,
            llm_gguf_key_of(h->arch, "attention.sliding_window_pattern").text,
            windows, h->n_layers);
}

/* What no key of GGUF files can say. */
static clv_status check_expressible(const char *dir, const llm_hparams *h)
{
    const char *what = h->rope_scaling == LLM_ROPE_YARN && h->rope_unrounded
                           ? "yarn scaling without 'truncate'"
                           : NULL;
    for (uint32_t i = 0; i < h->n_layers && h->n_experts; i++)
        if (h->layers[i] & LLM_LAYER_DENSE)
            what = "layers without experts among others with experts";
    if (!what)
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: GGUF files cannot hold a model with %s; use the "
                     "directory as it is",
                     dir, what);
}

static void write_hparams(llm_gguf_writer *w, const llm_hparams *h)
{
    const llm_arch *arch = h->arch;
    const llm_setting *s;
    llm_gguf_writer_str(w, "general.architecture", llm_str_of(arch->name));
    llm_gguf_writer_str(w, "general.name", llm_str_of(h->name));
    llm_gguf_writer_u32(w, llm_gguf_key_of(arch, "vocab_size").text,
                        h->n_vocab);
    for (uint32_t i = 0; (s = llm_setting_at(arch, i)); i++)
        write_setting(w, h, s);
    if (h->query_scalar)
        llm_gguf_writer_f32(w, llm_gguf_key_of(arch, "attention.scale").text,
                            1 / sqrtf(h->query_scalar));
    write_layers(w, h);
    write_rope(w, h);
}

/* The mix of the file; if none is asked for, that of its first matrix. */
static const llm_mix *file_mix(const conversion *c)
{
    const llm_hparams *h = &c->source->hparams;
    llm_source_tensor found;
    if (c->mix)
        return c->mix;
    for (llm_tensor t = {0}; llm_tensor_next(h, &t);)
        if (t.row->role >= LLM_LAYER_ROLES && t.rank > 1 &&
            !c->source->find(c->source, t.gguf, &found))
            return llm_mix_of(found.dtype);
    return llm_mix_of(CLV_DTYPE_F16);
}

static void write_file_type(const conversion *c)
{
    const llm_mix *mix = file_mix(c);
    llm_gguf_writer_u32(c->writer, "general.file_type", mix->file_type);
    if (clv_format_is(mix->base.dtype, CLV_FORMAT_BLOCK))
        llm_gguf_writer_u32(c->writer, "general.quantization_version", 2);
}

static clv_status write_tokenizer(const conversion *c)
{
    const llm_hparams *h = &c->source->hparams;
    clv_tokenizer *tok = NULL;
    CLV_TRY(c->source->tokenizer(c->source, &tok));
    if (tok) {
        clv_status status =
            llm_convert_tokenizer(tok, c->dir, h->n_vocab, c->writer);
        clv_tokenizer_destroy(tok);
        return status;
    }
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

/* GGUF has llama3's scaling as a divisor of each frequency. */
static clv_status make_divisors(conversion *c)
{
    llm_hparams h = c->source->hparams;
    const uint32_t n = h.rope_dim / 2;
    if (h.rope_scaling != LLM_ROPE_LLAMA3)
        return CLV_OK;
    float *scaled = calloc(n, sizeof *scaled);
    c->divisors = calloc(n, sizeof *c->divisors);
    clv_status status = scaled && c->divisors
                            ? llm_rope_frequencies(&h, NULL, scaled)
                            : llm_no_memory(c->dir);
    if (status)
        goto done;
    h.rope_scaling = LLM_ROPE_NONE;
    status = llm_rope_frequencies(&h, NULL, c->divisors);
    for (uint32_t j = 0; j < n; j++)
        c->divisors[j] /= scaled[j];
done:
    free(scaled);
    return status;
}

/* False if the source has no such tensor. */
static bool find_tensor(const conversion *c, const llm_tensor *expected,
                        llm_recode_tensor *out)
{
    const llm_hparams *h = &c->source->hparams;
    const llm_str name = llm_str_of(expected->gguf);
    const bool interleaved = expected->row->flags & LLM_ROTARY &&
                             h->arch->gguf_rope == CLV_ROPE_PAIRS;
    llm_source_tensor t;
    if (c->source->find(c->source, expected->gguf, &t))
        return false;
    const llm_mix *mix = c->mix ? c->mix : llm_mix_of(t.dtype);
    uint64_t rows = (uint64_t)t.dims[0];
    for (uint32_t i = 1; i + 1 < t.rank; i++)
        rows *= (uint64_t)t.dims[i];
    *out = (llm_recode_tensor){
        .name = name,
        .from = t.dtype,
        .to = llm_mix_target(mix, &c->model, name, t.rank, t.dims[t.rank - 1]),
        .data = t.data,
        .rows = rows,
        .columns = t.rank == 1 ? 1 : (uint64_t)t.dims[t.rank - 1],
        .interleave = interleaved ? h->head_dim : 0,
    };
    return true;
}

/* Adds a tensor to the list in the file, or with recode writes it. */
static clv_status put(const conversion *c, const llm_recode_tensor *t,
                      uint32_t rank, const int64_t *dims, llm_recode *recode)
{
    if (recode)
        return llm_recode_write(recode, t, NULL);
    llm_gguf_writer_tensor(c->writer, t->name, t->to.dtype, rank, dims);
    return CLV_OK;
}

/* A list of divisors of frequencies, if the model has one of that name. */
static clv_status put_factors(const conversion *c, const char *name,
                              llm_recode *recode, uint64_t *total)
{
    llm_source_tensor found;
    if (c->source->find(c->source, name, &found))
        return CLV_OK;
    const llm_recode_tensor t = {.name = llm_str_of(name),
                                 .from = CLV_DTYPE_F32,
                                 .to = {.dtype = CLV_DTYPE_F32},
                                 .data = found.data,
                                 .rows = 1,
                                 .columns = (uint64_t)found.dims[0]};
    *total += t.columns;
    return put(c, &t, 1, found.dims, recode);
}

/* Puts every tensor, in the order of the file. */
static clv_status put_all(const conversion *c, llm_recode *recode,
                          uint64_t *total)
{
    const llm_hparams *h = &c->source->hparams;
    llm_recode_tensor t = {
        .name = llm_str_of("rope_freqs.weight"),
        .from = CLV_DTYPE_F32,
        .to = {.dtype = CLV_DTYPE_F32},
        .data = c->divisors,
        .rows = 1,
        .columns = h->rope_dim / 2,
    };
    if (c->divisors) {
        CLV_TRY(put(c, &t, 1, &(int64_t){(int64_t)t.columns}, recode));
        *total += t.columns;
    }
    CLV_TRY(put_factors(c, "rope_factors_long.weight", recode, total));
    CLV_TRY(put_factors(c, "rope_factors_short.weight", recode, total));
    for (llm_tensor expected = {0}; llm_tensor_next(h, &expected);) {
        if (!find_tensor(c, &expected, &t))
            continue;
        CLV_TRY(put(c, &t, expected.rank, expected.dims, recode));
        *total += t.rows * t.columns;
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status write_file(conversion *c, llm_recode *recode, const char *out,
                             const clv_convert_params *params)
{
    const llm_gguf_split split = {params->max_size, params->max_tensors,
                                  params->on_file, params->on_file_ctx};
    uint64_t done = 0;
    CLV_TRY(llm_gguf_writer_open(c->writer, out, &split));
    CLV_TRY(llm_source_check(c->source, put_all(c, recode, &done)));
    return llm_gguf_writer_commit(c->writer);
}

static clv_status convert(conversion *c, const char *out,
                          const clv_convert_params *params)
{
    llm_recode recode = {0};
    llm_source_tensor t;
    uint64_t total = 0;
    CLV_TRY(llm_source_open_hf(c->dir, &c->source));
    CLV_TRY(llm_gguf_writer_create(&c->writer));
    CLV_TRY(check_expressible(c->dir, &c->source->hparams));
    const llm_hparams *h = &c->source->hparams;
    c->model = (llm_mix_model){
        .n_layers = h->n_layers,
        .n_heads = h->n_heads,
        .n_kv_heads = h->n_kv_heads,
        .n_experts = h->n_experts,
        .tied = c->source->find(c->source, "output.weight", &t) != CLV_OK,
    };
    write_hparams(c->writer, &c->source->hparams);
    write_file_type(c);
    CLV_TRY(write_tokenizer(c));
    CLV_TRY(make_divisors(c));
    CLV_TRY(put_all(c, NULL, &total));
    CLV_TRY(llm_recode_init(&recode, c->writer, "converting", total, 0,
                            params->progress, params->progress_ctx));
    clv_status status = write_file(c, &recode, out, params);
    llm_recode_finish(&recode);
    return status;
}

static clv_status find_mix(const char *type, const llm_mix **out)
{
    CLV_TRY(llm_mix_find(type, out));
    if ((*out)->base.quant)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s is made of GGUF files; convert to f16, then "
                         "quantize that",
                         (*out)->name);
    return CLV_OK;
}

clv_status clv_convert(const char *dir, const char *out,
                       const clv_convert_params *params)
{
    static const clv_convert_params none = {0};
    conversion c = {.dir = dir};
    if (!dir || !out)
        return clv_error(CLV_ERR_INVALID, "clv_convert: a path is NULL");
    params = params ? params : &none;
    if (params->type)
        CLV_TRY(find_mix(params->type, &c.mix));
    clv_status status = convert(&c, out, params);
    llm_gguf_writer_destroy(c.writer);
    llm_source_destroy(c.source);
    free(c.divisors);
    return status;
}
