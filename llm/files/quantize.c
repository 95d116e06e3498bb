#include "gguf.h"
#include "recode.h"

#include <string.h>

/* Settings that describe the old file rather than the model. */
static bool dropped(llm_str key)
{
    static const char *const keys[] = {
        "general.file_type", "general.quantization_version",
        "general.alignment", "split.no",
        "split.count",       "split.tensors.count",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (llm_str_equal(key, llm_str_of(keys[i])))
            return true;
    return false;
}

static uint32_t target(const llm_gguf *g, const llm_gguf_tensor *t,
                       uint32_t dtype)
{
    bool tied = !llm_gguf_find(g, "output.weight");
    return llm_recode_target(t->name, t->rank, t->dims[t->rank - 1], dtype,
                             tied);
}

/* Cannot overflow: the bytes of the tensor lie in a file. */
static uint64_t elements(const llm_gguf_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (uint64_t)t->dims[i];
    return n;
}

static clv_status check_input(const llm_gguf *g)
{
    if (llm_gguf_tensor_count(g) == 0)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: holds no tensors; use the model's file",
                         llm_gguf_path(g));
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        if (!clv_format_is(t->dtype, CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: tensor '%s' has type %s, supported: %s; "
                             "start from the F16 file of the model",
                             llm_gguf_path(g), llm_str_show(t->name).text,
                             llm_gguf_type_name(t->type),
                             llm_gguf_supported_types().text);
    }
    return CLV_OK;
}

/* Writes the header. Returns the number of elements of all tensors. */
static uint64_t describe(const llm_gguf *g, uint32_t dtype, llm_gguf_writer *w)
{
    for (uint64_t i = 0; i < llm_gguf_kv_count(g); i++) {
        const llm_gguf_kv *kv = llm_gguf_kv_at(g, i);
        if (!dropped(kv->key))
            llm_gguf_writer_kv(w, kv);
    }
    llm_gguf_writer_u32(w, "general.file_type",
                        clv_format_of(dtype)->gguf_file_type);
    llm_gguf_writer_u32(w, "general.quantization_version", 2);
    uint64_t total = 0;
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        llm_gguf_writer_tensor(w, t->name, target(g, t, dtype), t->rank,
                               t->dims);
        total += elements(t);
    }
    return total;
}

static clv_status write_tensors(const llm_gguf *g, uint32_t dtype,
                                llm_recode *r)
{
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        uint64_t columns = (uint64_t)t->dims[t->rank - 1];
        CLV_TRY(llm_recode_write(r, &(llm_recode_tensor){
                                        .name = t->name,
                                        .from = t->dtype,
                                        .to = target(g, t, dtype),
                                        .data = t->data,
                                        .rows = elements(t) / columns,
                                        .columns = columns,
                                    }));
    }
    return CLV_OK;
}

static clv_status quantize(const llm_gguf *g, const char *out, uint32_t dtype,
                           clv_progress_fn progress, void *progress_ctx)
{
    llm_gguf_writer *w = NULL;
    llm_recode recode = {0};
    CLV_TRY(llm_gguf_writer_create(&w));
    uint64_t total = describe(g, dtype, w);
    clv_status status = llm_recode_init(&recode, w, "quantizing", total,
                                        progress, progress_ctx);
    if (!status)
        status = llm_gguf_writer_open(w, out);
    if (!status)
        status = write_tensors(g, dtype, &recode);
    const clv_status damage = llm_gguf_check(g);
    if (damage)
        status = damage;
    if (!status)
        status = llm_gguf_writer_commit(w);
    llm_recode_finish(&recode);
    llm_gguf_writer_destroy(w);
    return status;
}

clv_status clv_quantize(const char *in, const char *out, uint32_t dtype,
                        clv_progress_fn progress, void *progress_ctx)
{
    llm_gguf *g = NULL;
    if (!in || !out)
        return clv_error(CLV_ERR_INVALID, "clv_quantize: a path is NULL");
    CLV_TRY(llm_recode_check(dtype));
    CLV_TRY(llm_gguf_open(in, &g));
    clv_status status = check_input(g);
    if (!status)
        status = quantize(g, out, dtype, progress, progress_ctx);
    llm_gguf_close(g);
    return status;
}
