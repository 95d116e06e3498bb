#include "safetensors_convert.h"

#include <inttypes.h>

struct clv_arrays; /* an llm_safetensors under its public name */

static llm_safetensors *inner(const clv_arrays *arrays)
{
    return (llm_safetensors *)arrays;
}

clv_status clv_arrays_open(const char *path, clv_arrays **out)
{
    llm_safetensors *st = NULL;
    if (!path || !out)
        return clv_error(CLV_ERR_INVALID,
                         "clv_arrays_open: path and out must not be NULL");
    *out = NULL;
    clv_status status = llm_safetensors_open(path, &st);
    if (!status)
        *out = (clv_arrays *)st;
    return status;
}

void clv_arrays_close(clv_arrays *arrays)
{
    llm_safetensors_close(inner(arrays));
}

bool clv_arrays_find(const clv_arrays *arrays, const char *name,
                     uint64_t *count, uint64_t *row)
{
    if (!arrays || !name)
        return false;
    const llm_safetensors_tensor *tensor =
        llm_safetensors_find(inner(arrays), name);
    if (!tensor)
        return false;
    if (count)
        *count = tensor->count;
    if (row)
        *row = tensor->rank ? (uint64_t)tensor->dims[tensor->rank - 1] : 1;
    return true;
}

clv_status clv_arrays_read(const clv_arrays *arrays, const char *name,
                           uint32_t dtype, void *out, uint64_t count)
{
    if (!arrays || !name || !out)
        return clv_error(CLV_ERR_INVALID,
                         "clv_arrays_read: no argument may be NULL");
    const llm_safetensors_tensor *tensor =
        llm_safetensors_find(inner(arrays), name);
    if (!tensor)
        return clv_error(CLV_ERR_NOT_FOUND, "%s: holds no array '%s'",
                         llm_safetensors_path(inner(arrays)), name);
    if (tensor->count != count)
        return clv_error(CLV_ERR_INVALID,
                         "%s: array '%s' has %" PRIu64 " elements, room was "
                         "given for %" PRIu64,
                         llm_safetensors_path(inner(arrays)), name,
                         tensor->count, count);
    if (dtype == CLV_DTYPE_F32 || dtype == CLV_DTYPE_I32) {
        CLV_TRY(dtype == CLV_DTYPE_F32 ? llm_safetensors_to_f32(tensor, out)
                                       : llm_safetensors_to_i32(tensor, out));
        return llm_safetensors_check(inner(arrays));
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "clv_arrays_read: dtype %" PRIu32 " asked for; f32 and "
                     "i32 are possible",
                     dtype);
}
