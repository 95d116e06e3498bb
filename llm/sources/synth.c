#include "synth.h"

#include "../base/str.h"
#include "synth_fill.h"

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

static llm_hparams make_hparams(const llm_synth_spec *spec)
{
    llm_hparams h = spec->model->hparams;
    const llm_setting *s;
    h.window_used = h.sliding_window > 0;
    llm_hparams_start(&h, spec->arch);
    for (uint32_t i = 0; (s = llm_setting_at(spec->arch, i)); i++) {
        uint32_t *field = llm_setting_field(s, &h);
        if (s->absent && !*field)
            *field = s->absent(&h);
    }
    llm_hparams_derive(&h);
    snprintf(h.name, sizeof h.name, "synth:%s:%s%s", spec->model->name,
             spec->format, spec->zero ? ":zero" : "");
    return h;
}

static uint64_t place(synth *m, uint64_t size)
{
    const uint64_t offset = m->size;
    m->size += (size + 63) / 64 * 64;
    return offset;
}

/* Whether a model has a tensor that it may lack. */
static bool is_there(const llm_synth_spec *spec, const llm_tensor *t)
{
    return !t->optional && !(t->row->flags & LLM_TIED && spec->model->tied);
}

static llm_target type_of(const llm_synth_spec *spec, const llm_hparams *h,
                          const llm_tensor *t)
{
    const int64_t columns = t->dims[t->rank - 1];
    const llm_mix_model model = {
        .n_layers = h->n_layers,
        .n_heads = h->n_heads,
        .n_kv_heads = h->n_kv_heads,
        .n_experts = h->n_experts,
        .tied = spec->model->tied,
    };
    if (spec->mix)
        return llm_mix_target(spec->mix, &model, llm_str_of(t->gguf), t->rank,
                              columns);
    if (t->rank == 1 || t->row->role == LLM_FFN_ROUTER)
        return (llm_target){.dtype = CLV_DTYPE_F32};
    /* An embedding that is the output matrix too has that one's type. */
    const bool table = t->row->role == LLM_TOKEN_EMBD && !spec->model->tied;
    return llm_target_fit(table ? spec->table : spec->matrix, t->rank, columns);
}

static clv_status add(synth *m, llm_target type, const llm_tensor *t)
{
    llm_synth_tensor *out = &m->tensors[m->n_tensors++];
    uint64_t n = 1;
    *out = (llm_synth_tensor){
        .type = type, .rank = t->rank, .value = t->bias ? 0.01f : 1};
    memcpy(out->name, t->gguf, sizeof out->name);
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (uint64_t)(out->dims[i] = t->dims[i]);
    CLV_TRY(clv_dtype_size(type.dtype, n, &out->size));
    out->offset = place(m, out->size);
    const uint64_t n_rows = (uint64_t)t->dims[0];
    if (type.quant) {
        out->n_scales = type.quant == CLV_QUANT_PER_TENSOR  ? 1
                        : type.quant == CLV_QUANT_PER_GROUP ? n / type.group
                                                            : n_rows;
        out->scales = place(m, out->n_scales * sizeof(float));
    }
    return CLV_OK;
}

/* As llm.npu prunes them: of 85% of the layers they are cut off. */
enum { OUTLIER_LAYERS = 7 };

/* A row has so many outliers at most: the paper saw 5 to 15 of some thousand.
 */
enum { OUTLIERS_OF = 128, OUTLIERS_LEAST = 4 };

/* Rounds what a matrix is multiplied with, four standard deviations of what a
 * norm gives, and adds the weights of outliers. */
static clv_status add_outliers(synth *m, const llm_tensor *t)
{
    llm_synth_tensor *of = &m->tensors[m->n_tensors - 1];
    const uint32_t most = (uint32_t)t->dims[1] / OUTLIERS_OF;
    if (!of->type.quant)
        return CLV_OK;
    of->input_scale = 4.0f / 127;
    if (t->row->role < LLM_LAYER_ROLES || t->layer % OUTLIER_LAYERS)
        return CLV_OK;
    llm_tensor rows = *t;
    rows.dims[0] = t->dims[1];
    rows.dims[1] = t->dims[0];
    snprintf(rows.gguf, sizeof rows.gguf, "%.*s.outliers",
             (int)sizeof rows.gguf - 16, t->gguf);
    of->outlier_bound = most > OUTLIERS_LEAST ? most : OUTLIERS_LEAST;
    of->outliers = m->n_tensors + 1;
    return add(m, (llm_target){.dtype = CLV_DTYPE_F16}, &rows);
}

static clv_status list_tensors(synth *m, const llm_synth_spec *spec)
{
    const llm_hparams *h = &m->source.hparams;
    uint32_t n = 0;
    for (llm_tensor t = {0}; llm_tensor_next(h, &t);)
        n++;
    m->tensors = calloc(2 * (uint64_t)n, sizeof *m->tensors);
    if (!m->tensors)
        return llm_no_memory("tensors");
    for (llm_tensor t = {0}; llm_tensor_next(h, &t);) {
        if (!is_there(spec, &t))
            continue;
        CLV_TRY(add(m, type_of(spec, h, &t), &t));
        if (spec->outliers)
            CLV_TRY(add_outliers(m, &t));
    }
    return CLV_OK;
}

/* Pages that are never written use no memory and read as zeros. */
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
            .group = t->type.group,
            .scales = m->memory + t->scales,
            .n_scales = t->n_scales,
            .input_scale = t->input_scale,
        };
        if (t->outliers) {
            out->outliers = m->memory + m->tensors[t->outliers - 1].offset;
            out->outlier_row = (uint64_t)t->dims[0];
            out->outlier_bound = t->outlier_bound;
        }
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

clv_status llm_source_open_synth(const char *text, clv_progress_fn progress,
                                 void *progress_ctx, llm_source **out)
{
    llm_synth_spec spec;
    CLV_TRY(llm_synth_parse(text, &spec));
    synth *m = calloc(1, sizeof *m);
    if (!m)
        return llm_no_memory("a model");
    m->source.find = find;
    m->source.tokenizer = no_tokenizer;
    m->source.destroy = destroy;
    m->source.hparams = make_hparams(&spec);
    clv_status status = list_tensors(m, &spec);
    if (status)
        goto failed;
    status = map_memory(m, spec.zero);
    if (status)
        goto failed;
    if (!spec.zero)
        status = llm_synth_fill(m->memory, m->tensors, m->n_tensors, progress,
                                progress_ctx);
    if (status)
        goto failed;
    *out = &m->source;
    return CLV_OK;

failed:
    destroy(&m->source);
    return status;
}
