#include "gguf_write.h"

#include "../base/array.h"
#include "gguf_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 3,
    ALIGNMENT = 32,
    MAX_PARTS = 9999,    /* as many are read */
    SPLIT_SETTINGS = 96, /* bytes at most, in each of several files */
};

typedef struct file_head {
    char magic[4];
    uint32_t version;
    uint64_t n_tensors, n_kv;
} file_head;

typedef struct entry {
    uint64_t info; /* end of its encoded name, shape and type */
    uint64_t size; /* of the data */
} entry;

/* A file. */
typedef struct part {
    uint64_t begin, end; /* tensors */
    char *path;
    clv_file_writer *file;
} part;

struct llm_gguf_writer {
    clv_status status;   /* first failure of a setting or tensor */
    llm_bytes kv, infos; /* encoded; infos without the offsets */
    uint64_t n_kv;
    struct {
        entry *items;
        uint64_t n, capacity;
    } tensors;
    struct {
        part *items;
        uint64_t n, capacity;
    } parts;
    part *part;                /* being written */
    uint64_t current, written; /* tensor being written, its bytes so far */
};

clv_status llm_gguf_writer_create(llm_gguf_writer **out)
{
    llm_gguf_writer *w = calloc(1, sizeof *w);
    if (!w)
        return llm_no_memory("a GGUF writer");
    *out = w;
    return CLV_OK;
}

void llm_gguf_writer_destroy(llm_gguf_writer *w)
{
    if (!w)
        return;
    for (uint64_t i = 0; i < w->parts.n; i++) {
        clv_file_writer_discard(w->parts.items[i].file);
        free(w->parts.items[i].path);
    }
    free(w->kv.items);
    free(w->infos.items);
    free(w->tensors.items);
    free(w->parts.items);
    free(w);
}

/* ------------------------------------------------------------------------ */
/* Settings                                                                 */

static void put(llm_gguf_writer *w, llm_bytes *to, const void *data,
                uint64_t size)
{
    if (!w->status)
        w->status = llm_bytes_append(to, data, size);
}

static void put_u32(llm_gguf_writer *w, llm_bytes *to, uint32_t value)
{
    put(w, to, &value, sizeof value);
}

static void put_u64(llm_gguf_writer *w, llm_bytes *to, uint64_t value)
{
    put(w, to, &value, sizeof value);
}

static void put_str(llm_gguf_writer *w, llm_bytes *to, llm_str s)
{
    put_u64(w, to, s.size);
    put(w, to, s.data, s.size);
}

static void put_key(llm_gguf_writer *w, llm_str key, uint32_t type)
{
    put_str(w, &w->kv, key);
    put_u32(w, &w->kv, type);
    w->n_kv++;
}

static void put_scalar(llm_gguf_writer *w, const char *key, uint32_t type,
                       const void *value)
{
    put_key(w, llm_str_of(key), type);
    put(w, &w->kv, value, llm_gguf_scalar_size(type));
}

static void put_array(llm_gguf_writer *w, const char *key, uint32_t type,
                      uint64_t n)
{
    put_key(w, llm_str_of(key), LLM_GGUF_ARRAY);
    put_u32(w, &w->kv, type);
    put_u64(w, &w->kv, n);
}

void llm_gguf_writer_u32(llm_gguf_writer *w, const char *key, uint32_t value)
{
    put_scalar(w, key, LLM_GGUF_U32, &value);
}

void llm_gguf_writer_f32(llm_gguf_writer *w, const char *key, float value)
{
    put_scalar(w, key, LLM_GGUF_F32, &value);
}

void llm_gguf_writer_bool(llm_gguf_writer *w, const char *key, bool value)
{
    put_scalar(w, key, LLM_GGUF_BOOL, &(uint8_t){value});
}

void llm_gguf_writer_str(llm_gguf_writer *w, const char *key, llm_str value)
{
    put_key(w, llm_str_of(key), LLM_GGUF_STRING);
    put_str(w, &w->kv, value);
}

void llm_gguf_writer_i32s(llm_gguf_writer *w, const char *key,
                          const int32_t *values, uint64_t n)
{
    put_array(w, key, LLM_GGUF_I32, n);
    put(w, &w->kv, values, n * sizeof *values);
}

void llm_gguf_writer_f32s(llm_gguf_writer *w, const char *key,
                          const float *values, uint64_t n)
{
    put_array(w, key, LLM_GGUF_F32, n);
    put(w, &w->kv, values, n * sizeof *values);
}

void llm_gguf_writer_bools(llm_gguf_writer *w, const char *key,
                           const uint8_t *values, uint64_t n)
{
    put_array(w, key, LLM_GGUF_BOOL, n);
    put(w, &w->kv, values, n);
}

void llm_gguf_writer_strings(llm_gguf_writer *w, const char *key,
                             const llm_str *values, uint64_t n)
{
    put_array(w, key, LLM_GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_str(w, &w->kv, values[i]);
}

void llm_gguf_writer_kv(llm_gguf_writer *w, const llm_gguf_kv *kv)
{
    put_key(w, kv->key, kv->type);
    put(w, &w->kv, kv->data, kv->size);
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

static bool shape_size(const clv_format *f, uint32_t rank, const int64_t *dims,
                       uint64_t *out)
{
    if (!f || !f->gguf_name || rank < 1 || rank > 4 ||
        dims[rank - 1] % f->elements)
        return false;
    uint64_t size = f->bytes;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t n = i + 1 < rank ? dims[i] : dims[i] / f->elements;
        if (n < 1 || __builtin_mul_overflow(size, (uint64_t)n, &size))
            return false;
    }
    *out = size;
    return true;
}

static uint64_t padded(uint64_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void llm_gguf_writer_tensor(llm_gguf_writer *w, llm_str name, uint32_t dtype,
                            uint32_t rank, const int64_t *dims)
{
    uint64_t size;
    const clv_format *format = clv_format_of(dtype);
    if (w->status)
        return;
    if (!shape_size(format, rank, dims, &size)) {
        w->status = clv_error(CLV_ERR_INVALID,
                              "tensor '%s' has a shape or type that GGUF "
                              "cannot hold",
                              llm_str_show(name).text);
        return;
    }
    put_str(w, &w->infos, name);
    put_u32(w, &w->infos, rank);
    for (uint32_t i = 0; i < rank; i++)
        put_u64(w, &w->infos, (uint64_t)dims[rank - 1 - i]);
    put_u32(w, &w->infos, format->gguf_type);
    const entry added = {w->infos.n, size};
    if (!w->status)
        w->status = LLM_ARRAY_ADD(&w->tensors, added);
}

/* Where the infos of the first n tensors end. */
static uint64_t infos_end(const llm_gguf_writer *w, uint64_t n)
{
    return n ? w->tensors.items[n - 1].info : 0;
}

/* Bytes of the list of the tensors from begin to end. */
static uint64_t infos_size(const llm_gguf_writer *w, uint64_t begin,
                           uint64_t end)
{
    return infos_end(w, end) - infos_end(w, begin) +
           (end - begin) * sizeof(uint64_t);
}

/* ------------------------------------------------------------------------ */
/* Which tensors go into which file                                         */

static clv_status add_part(llm_gguf_writer *w, uint64_t begin)
{
    const part added = {.begin = begin, .end = begin};
    if (w->parts.n == MAX_PARTS)
        return clv_error(CLV_ERR_LIMIT,
                         "the model would be split over more than %d files; "
                         "allow larger ones",
                         MAX_PARTS);
    return LLM_ARRAY_ADD(&w->parts, added);
}

static clv_status divide(llm_gguf_writer *w, const llm_gguf_split *split)
{
    uint64_t data = 0;
    CLV_TRY(add_part(w, 0));
    for (uint64_t i = 0; i < w->tensors.n; i++) {
        const uint64_t begin = w->parts.items[w->parts.n - 1].begin;
        const uint64_t size = w->tensors.items[i].size;
        const uint64_t head = sizeof(file_head) + SPLIT_SETTINGS +
                              (w->parts.n == 1 ? w->kv.n : 0) +
                              infos_size(w, begin, i + 1);
        const bool full =
            (split->max_tensors && i - begin >= split->max_tensors) ||
            (split->max_size &&
             padded(head) + data + padded(size) > split->max_size);
        if (full && i > begin) {
            CLV_TRY(add_part(w, i));
            data = 0;
        }
        data += padded(size);
        w->parts.items[w->parts.n - 1].end = i + 1;
    }
    return CLV_OK;
}

static clv_status name_parts(llm_gguf_writer *w, const char *path)
{
    size_t stem = strlen(path);
    const size_t size = stem + 32;
    if (stem > 5 && !strcmp(path + stem - 5, ".gguf"))
        stem -= 5;
    for (uint64_t i = 0; i < w->parts.n; i++) {
        char *name = w->parts.n > 1 ? malloc(size) : strdup(path);
        if (!name)
            return llm_no_memory("a file name");
        if (w->parts.n > 1)
            snprintf(name, size, "%.*s-%05" PRIu64 "-of-%05" PRIu64 ".gguf",
                     (int)stem, path, i + 1, w->parts.n);
        w->parts.items[i].path = name;
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* The files                                                                */

static clv_status write_padding(clv_file_writer *file, uint64_t size)
{
    static const uint8_t zeros[ALIGNMENT];
    return clv_file_writer_write(file, zeros, padded(size) - size);
}

static clv_status add_split_settings(llm_gguf_writer *w, const part *p)
{
    const uint16_t number = (uint16_t)(p - w->parts.items);
    const uint16_t count = (uint16_t)w->parts.n;
    const int32_t n_tensors = (int32_t)w->tensors.n;
    put_scalar(w, "split.no", LLM_GGUF_U16, &number);
    put_scalar(w, "split.count", LLM_GGUF_U16, &count);
    put_scalar(w, "split.tensors.count", LLM_GGUF_I32, &n_tensors);
    return w->status;
}

static clv_status write_infos(const llm_gguf_writer *w, const part *p)
{
    uint64_t offset = 0, begin = infos_end(w, p->begin);
    for (uint64_t i = p->begin; i < p->end; i++) {
        const uint64_t end = infos_end(w, i + 1);
        CLV_TRY(clv_file_writer_write(p->file, w->infos.items + begin,
                                      end - begin));
        CLV_TRY(clv_file_writer_write(p->file, &offset, sizeof offset));
        offset += padded(w->tensors.items[i].size);
        begin = end;
    }
    return CLV_OK;
}

static clv_status write_head(llm_gguf_writer *w, part *p)
{
    if (w->parts.n > 1)
        CLV_TRY(add_split_settings(w, p));
    const file_head head = {
        {'G', 'G', 'U', 'F'}, VERSION, p->end - p->begin, w->n_kv};
    CLV_TRY(clv_file_writer_open(p->path, &p->file));
    CLV_TRY(clv_file_writer_write(p->file, &head, sizeof head));
    CLV_TRY(clv_file_writer_write(p->file, w->kv.items, w->kv.n));
    CLV_TRY(write_infos(w, p));
    const uint64_t size =
        sizeof head + w->kv.n + infos_size(w, p->begin, p->end);
    w->kv.n = w->n_kv = 0; /* the first file alone has the model's settings */
    return write_padding(p->file, size);
}

clv_status llm_gguf_writer_open(llm_gguf_writer *w, const char *path,
                                const llm_gguf_split *split)
{
    CLV_TRY(w->status);
    split = split ? split : &(llm_gguf_split){0};
    CLV_TRY(divide(w, split));
    CLV_TRY(name_parts(w, path));
    for (uint64_t i = 0; i < w->parts.n && split->on_file; i++)
        CLV_TRY(split->on_file(split->on_file_ctx, w->parts.items[i].path));
    for (uint64_t i = 0; i < w->parts.n; i++)
        CLV_TRY(write_head(w, &w->parts.items[i]));
    w->part = w->parts.items;
    return CLV_OK;
}

clv_status llm_gguf_writer_data(llm_gguf_writer *w, const void *data,
                                uint64_t size)
{
    if (w->current >= w->tensors.n ||
        size > w->tensors.items[w->current].size - w->written)
        return clv_error(CLV_ERR_INVALID,
                         "%" PRIu64 " bytes reach past the end of tensor "
                         "%" PRIu64,
                         size, w->current);
    if (w->current == w->part->end)
        w->part++;
    CLV_TRY(clv_file_writer_write(w->part->file, data, size));
    w->written += size;
    if (w->written < w->tensors.items[w->current].size)
        return CLV_OK;
    w->written = 0;
    return write_padding(w->part->file, w->tensors.items[w->current++].size);
}

/* The first file, by which a model is known, takes its name last. Where one
 * cannot, those that have are removed. */
clv_status llm_gguf_writer_commit(llm_gguf_writer *w)
{
    clv_status status = CLV_OK;
    if (w->current != w->tensors.n)
        return clv_error(CLV_ERR_INVALID,
                         "only %" PRIu64 " of %" PRIu64 " tensors written",
                         w->current, w->tensors.n);
    uint64_t i = w->parts.n;
    while (i > 0 && !status) {
        part *p = &w->parts.items[--i];
        clv_file_writer *file = p->file;
        p->file = NULL;
        status = clv_file_writer_commit(file);
    }
    for (i++; status && i < w->parts.n; i++)
        remove(w->parts.items[i].path);
    return status;
}
