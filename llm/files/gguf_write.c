#include "gguf_write.h"

#include "../base/array.h"
#include "gguf_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3, ALIGNMENT = 32 };

struct llm_gguf_writer {
    clv_status status;     /* first failure of a setting or tensor */
    llm_bytes kv, tensors; /* encoded */
    uint64_t n_kv;
    struct {
        uint64_t *items;
        uint64_t n, capacity;
    } sizes;                   /* of the tensors' data */
    uint64_t offset;           /* of the next tensor added */
    uint64_t current, written; /* tensor being written, its bytes so far */
    clv_file_writer *file;
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
    clv_file_writer_discard(w->file);
    free(w->kv.items);
    free(w->tensors.items);
    free(w->sizes.items);
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

static uint64_t padding(uint64_t size)
{
    return (ALIGNMENT - size % ALIGNMENT) % ALIGNMENT;
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
    put_str(w, &w->tensors, name);
    put_u32(w, &w->tensors, rank);
    for (uint32_t i = 0; i < rank; i++)
        put_u64(w, &w->tensors, (uint64_t)dims[rank - 1 - i]);
    put_u32(w, &w->tensors, format->gguf_type);
    put_u64(w, &w->tensors, w->offset);
    if (!w->status)
        w->status = LLM_ARRAY_ADD(&w->sizes, size);
    w->offset += size + padding(size);
}

/* ------------------------------------------------------------------------ */
/* The file                                                                 */

static clv_status write_padding(llm_gguf_writer *w, uint64_t size)
{
    static const uint8_t zeros[ALIGNMENT];
    return padding(size) ? clv_file_writer_write(w->file, zeros, padding(size))
                         : CLV_OK;
}

clv_status llm_gguf_writer_open(llm_gguf_writer *w, const char *path)
{
    if (w->status)
        return w->status;
    struct {
        char magic[4];
        uint32_t version;
        uint64_t n_tensors, n_kv;
    } head = {{'G', 'G', 'U', 'F'}, VERSION, w->sizes.n, w->n_kv};

    CLV_TRY(clv_file_writer_open(path, &w->file));
    CLV_TRY(clv_file_writer_write(w->file, &head, sizeof head));
    if (w->kv.n)
        CLV_TRY(clv_file_writer_write(w->file, w->kv.items, w->kv.n));
    if (w->tensors.n)
        CLV_TRY(clv_file_writer_write(w->file, w->tensors.items, w->tensors.n));
    return write_padding(w, sizeof head + w->kv.n + w->tensors.n);
}

clv_status llm_gguf_writer_data(llm_gguf_writer *w, const void *data,
                                uint64_t size)
{
    if (w->current >= w->sizes.n ||
        size > w->sizes.items[w->current] - w->written)
        return clv_error(CLV_ERR_INVALID,
                         "%" PRIu64 " bytes reach past the end of tensor "
                         "%" PRIu64,
                         size, w->current);
    CLV_TRY(clv_file_writer_write(w->file, data, size));
    w->written += size;
    if (w->written < w->sizes.items[w->current])
        return CLV_OK;
    w->written = 0;
    return write_padding(w, w->sizes.items[w->current++]);
}

clv_status llm_gguf_writer_commit(llm_gguf_writer *w)
{
    if (w->current != w->sizes.n)
        return clv_error(CLV_ERR_INVALID,
                         "only %" PRIu64 " of %" PRIu64 " tensors written",
                         w->current, w->sizes.n);
    clv_file_writer *file = w->file;
    w->file = NULL;
    return clv_file_writer_commit(file);
}
