#include "hf.h"

#include "hf_config.h"
#include "../files/safetensors.h"
#include "../base/str.h"
#include "../tokenizer/json.h"

#include <cleave/plugin_format.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor under its GGUF name: one tensor of the files as it is, or made of
 * one or several in memory. */
typedef struct entry {
    char name[LLM_TENSOR_NAME];
    const llm_safetensors_tensor **parts; /* [n_parts] */
    uint32_t n_parts;
    uint8_t *memory; /* NULL: the file's */
    llm_source_tensor tensor;
} entry;

typedef struct hf_source {
    llm_source base;
    char *dir;
    llm_safetensors *files;
    entry *entries;
    llm_name *names; /* of entries, sorted */
    uint64_t n_entries;
} hf_source;

/* The shape of a part in these files. */
static uint32_t part_shape(const llm_hparams *h, const llm_tensor *expected,
                           int64_t dims[3])
{
    const uint32_t outer = expected->n_parts > 1 || expected->rank > 2;
    const uint32_t rank = expected->rank - outer;
    memcpy(dims, expected->dims + outer, rank * sizeof *dims);
    if (expected->row->flags & LLM_GROUPED)
        dims[0] =
            ((int64_t)h->n_heads + 2 * (int64_t)h->n_kv_heads) * h->head_dim;
    if (!(expected->row->flags & LLM_ONE) || expected->row->in != LLM_NONE)
        return rank;
    dims[1] = dims[0]; /* a matrix of one row */
    dims[0] = 1;
    return 2;
}

static clv_status check_tensor(const hf_source *s,
                               const llm_safetensors_tensor *t,
                               const llm_tensor *expected)
{
    int64_t dims[3];
    const uint32_t rank = part_shape(&s->base.hparams, expected, dims);
    if (!clv_format_is(t->dtype, CLV_FORMAT_FLOAT))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: tensor '%s' has dtype %s, weights may be F32, "
                         "F16 or BF16",
                         s->dir, t->name, t->type);
    if (t->rank == rank && !memcmp(t->dims, dims, rank * sizeof *dims))
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "%s: tensor '%s' has shape %s, config.json asks for %s; "
                     "use the files of one model",
                     s->dir, t->name, llm_shape_show(t->dims, t->rank).text,
                     llm_shape_show(dims, rank).text);
}

/* Finds the parts. An optional tensor may have none. */
static clv_status find_parts(const hf_source *s, const llm_tensor *expected,
                             entry *e)
{
    for (uint32_t i = 0; i < expected->n_parts && expected->hf[0]; i++) {
        char name[LLM_TENSOR_NAME];
        llm_tensor_part(expected, i, name);
        const llm_safetensors_tensor *t = llm_safetensors_find(s->files, name);
        if (!t && expected->optional)
            return CLV_OK;
        if (!t)
            return clv_error(CLV_ERR_FORMAT,
                             "%s: has no tensor '%s'; download the model again",
                             s->dir, name);
        CLV_TRY(check_tensor(s, t, expected));
        if (i && t->dtype != e->parts[0]->dtype)
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: tensor '%s' is %s, the one before it %s; "
                             "experts are of one type",
                             s->dir, name, t->type, e->parts[0]->type);

        e->parts[e->n_parts++] = t;
    }
    return CLV_OK;
}

static clv_status take_memory(const hf_source *s, entry *e, uint64_t size)
{
    e->memory = malloc(size);
    e->tensor.data = e->memory;
    e->tensor.size = size;
    if (e->memory)
        return CLV_OK;
    return clv_error(CLV_ERR_NO_MEMORY,
                     "%s: no memory for %" PRIu64 " bytes of '%s'; convert the "
                     "model where there is, GGUF files are used in place",
                     s->dir, size, e->name);
}

/* Kernels need the experts one after the other; in these files they may be
 * anywhere. */
static clv_status join_parts(const hf_source *s, entry *e)
{
    const uint64_t size = e->parts[0]->size;
    CLV_TRY(take_memory(s, e, size * e->n_parts));
    for (uint32_t i = 0; i < e->n_parts; i++)
        memcpy(e->memory + i * size, e->parts[i]->data, size);
    return CLV_OK;
}

/* The rows of q, k or v of every group. */
static clv_status gather_groups(const hf_source *s, const llm_tensor *expected,
                                entry *e)
{
    const llm_hparams *h = &s->base.hparams;
    const llm_safetensors_tensor *t = e->parts[0];
    const uint32_t of_q = h->n_heads / h->n_kv_heads;
    const uint8_t role = expected->row->role;
    const uint32_t first = role == LLM_ATTN_Q   ? 0
                           : role == LLM_ATTN_K ? of_q
                                                : of_q + 1;
    const uint32_t heads = role == LLM_ATTN_Q ? of_q : 1;
    const uint64_t head = t->size / ((of_q + 2) * (uint64_t)h->n_kv_heads);
    CLV_TRY(take_memory(s, e, head * heads * h->n_kv_heads));
    for (uint32_t i = 0; i < h->n_kv_heads; i++)
        memcpy(e->memory + i * heads * head,
               t->data + (i * (uint64_t)(of_q + 2) + first) * head,
               heads * head);
    return CLV_OK;
}

static clv_status add_one(const hf_source *s, entry *e)
{
    const llm_safetensors_tensor *t = e->parts[0];
    CLV_TRY(take_memory(s, e, t->count * sizeof(float)));
    float *values = (float *)(void *)e->memory;
    e->tensor.dtype = CLV_DTYPE_F32;
    CLV_TRY(clv_dtype_to_f32(t->dtype, t->data, values, t->count));
    for (uint64_t i = 0; i < t->count; i++)
        values[i] += 1;
    return CLV_OK;
}

/* As GGUF files have it. */
static clv_status make_tensor(const hf_source *s, const llm_tensor *expected,
                              entry *e)
{
    const uint16_t flags = expected->row->flags;
    e->tensor = (llm_source_tensor){
        .dtype = e->parts[0]->dtype,
        .rank = expected->rank,
        .data = e->parts[0]->data,
        .size = e->parts[0]->size,
    };
    memcpy(e->tensor.dims, expected->dims, sizeof expected->dims);
    return flags & LLM_GROUPED  ? gather_groups(s, expected, e)
           : flags & LLM_PLUS_1 ? add_one(s, e)
           : e->n_parts > 1     ? join_parts(s, e)
                                : CLV_OK;
}

/* Adds one tensor that the model can have, if it is in the files. */
static clv_status add_tensor(hf_source *s, const llm_tensor *expected,
                             bool tied)
{
    if (tied && expected->row->flags & LLM_TIED && !expected->bias)
        return CLV_OK;
    entry *e = &s->entries[s->n_entries];
    e->parts = calloc(expected->n_parts, sizeof *e->parts);
    if (!e->parts)
        return llm_no_memory(s->dir);
    memcpy(e->name, expected->gguf, sizeof e->name);
    clv_status status = find_parts(s, expected, e);
    if (!status && e->n_parts)
        status = make_tensor(s, expected, e);
    if (status || e->n_parts)
        s->n_entries++; /* freed with the source, also if incomplete */
    else
        free(e->parts);
    return status;
}

/* The divisors of frequencies, which GGUF files have as tensors. */
static void add_factors(hf_source *s, const char *name, float *factors)
{
    const uint32_t n = s->base.hparams.rope_dim / 2;
    if (!factors)
        return;
    entry *e = &s->entries[s->n_entries++];
    *e = (entry){.memory = (uint8_t *)factors,
                 .tensor = {.dtype = CLV_DTYPE_F32,
                            .rank = 1,
                            .dims = {n},
                            .data = factors,
                            .size = n * sizeof *factors}};
    snprintf(e->name, sizeof e->name, "%s", name);
}

/* Tensors that are not needed: older files store the rotary frequencies, some
 * store the output matrix although it is tied. */
static bool superfluous(const llm_arch *arch, const char *name, bool tied)
{
    char output[LLM_TENSOR_NAME];
    for (const llm_tensor_row *row = arch->tensors; row->gguf; row++) {
        snprintf(output, sizeof output, "%s.weight", row->hf ? row->hf : "");
        if (tied && row->flags & LLM_TIED && !strcmp(name, output))
            return true;
    }
    return llm_arch_ignores(name);
}

/* With a tensor that is not used the model would be computed wrongly. */
static clv_status check_all_used(const hf_source *s, bool tied)
{
    const uint64_t n = llm_safetensors_count(s->files);
    const llm_safetensors_tensor *all = llm_safetensors_at(s->files, 0);
    const char *unused = NULL;
    bool *used = calloc(n + 1, sizeof *used);
    if (!used)
        return llm_no_memory(s->dir);
    for (uint64_t i = 0; i < s->n_entries; i++)
        for (uint32_t j = 0; j < s->entries[i].n_parts; j++)
            used[s->entries[i].parts[j] - all] = true;
    for (uint64_t i = 0; i < n && !unused; i++)
        if (!used[i] && !superfluous(s->base.hparams.arch, all[i].name, tied))
            unused = all[i].name;
    free(used);
    if (!unused)
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: tensor '%s' is no part of a model of architecture "
                     "'%s' with %" PRIu32 " layers; use a plain, unquantised, "
                     "merged model",
                     s->dir, llm_str_show(llm_str_of(unused)).text,
                     s->base.hparams.arch->name, s->base.hparams.n_layers);
}

static clv_status load_tensors(hf_source *s, llm_hf_config *config)
{
    const llm_hparams *h = &s->base.hparams;
    uint64_t n = 2, twice;
    for (llm_tensor t = {0}; llm_tensor_next(h, &t);)
        n++;
    s->entries = calloc(n, sizeof *s->entries);
    s->names = calloc(n, sizeof *s->names);
    if (!s->entries || !s->names)
        return llm_no_memory(s->dir);
    add_factors(s, "rope_factors_short.weight", config->factors[0]);
    add_factors(s, "rope_factors_long.weight", config->factors[1]);
    config->factors[0] = config->factors[1] = NULL;
    for (llm_tensor t = {0}; llm_tensor_next(h, &t);)
        CLV_TRY(add_tensor(s, &t, config->tied));
    for (uint64_t i = 0; i < s->n_entries; i++)
        s->names[i] = (llm_name){llm_str_of(s->entries[i].name), i};
    llm_names_sort(s->names, s->n_entries, &twice);
    return check_all_used(s, config->tied);
}

static clv_status find(llm_source *base, const char *name,
                       llm_source_tensor *out)
{
    hf_source *s = (hf_source *)base;
    const llm_name *found =
        llm_names_find(s->names, s->n_entries, llm_str_of(name));
    if (!found)
        return CLV_ERR_NOT_FOUND;
    *out = s->entries[found->index].tensor;
    return CLV_OK;
}

/* None is no error. */
static clv_status tokenizer(llm_source *base, clv_tokenizer **out)
{
    hf_source *s = (hf_source *)base;
    clv_status status = llm_tokenizer_from_dir(s->dir, out);
    return status == CLV_ERR_NOT_FOUND ? CLV_OK : status;
}

static clv_status each_map(const llm_source *base, llm_map_fn visit)
{
    return llm_safetensors_each_map(((const hf_source *)base)->files, visit);
}

static void destroy(llm_source *base)
{
    hf_source *s = (hf_source *)base;
    llm_safetensors_close(s->files);
    for (uint64_t i = 0; i < s->n_entries; i++) {
        free(s->entries[i].parts);
        free(s->entries[i].memory);
    }
    free(s->entries);
    free(s->names);
    free(s->dir);
    free(s);
}

/* The directory's own name. */
static void set_name(llm_hparams *h, const char *dir)
{
    size_t end = strlen(dir);
    while (end > 1 && dir[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && dir[begin - 1] != '/')
        begin--;
    llm_str name = {dir + begin, end - begin};
    snprintf(h->name, sizeof h->name, "%s", llm_str_show(name).text);
}

clv_status llm_source_open_hf(const char *dir, llm_source **out)
{
    llm_hf_config config = {0};
    clv_status status = llm_hf_config_load(dir, &config);
    if (status)
        return status;
    hf_source *s = calloc(1, sizeof *s);
    if (!s) {
        llm_hf_config_finish(&config);
        return llm_no_memory(dir);
    }
    s->base = (llm_source){.hparams = config.hparams,
                           .find = find,
                           .tokenizer = tokenizer,
                           .each_map = each_map,
                           .destroy = destroy};
    set_name(&s->base.hparams, dir);
    s->dir = strdup(dir);
    if (!s->dir) {
        status = llm_no_memory(dir);
        goto failed;
    }
    status = llm_safetensors_open_dir(dir, &s->files);
    if (status)
        goto failed;
    status = load_tensors(s, &config);
    if (status)
        goto failed;
    *out = &s->base;
    return CLV_OK;

failed:
    llm_hf_config_finish(&config);
    destroy(&s->base);
    return status;
}
