#include "safetensors_convert.h"

#include "../base/str.h"

#include <cleave/plugin_format.h>

#include <inttypes.h>
#include <string.h>

static clv_status unsupported(const llm_safetensors_tensor *t,
                              const char *wanted)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "tensor '%s' has dtype %s, wanted: %s",
                     llm_str_show(llm_str_of(t->name)).text, t->type, wanted);
}

clv_status llm_safetensors_to_f32(const llm_safetensors_tensor *t, float *out)
{
    if (strcmp(t->type, "F64") == 0) {
        for (uint64_t i = 0; i < t->count; i++) {
            double value;
            memcpy(&value, t->data + i * sizeof value, sizeof value);
            out[i] = (float)value;
        }
        return CLV_OK;
    }
    if (clv_format_is(t->dtype, CLV_FORMAT_FLOAT))
        return clv_dtype_to_f32(t->dtype, t->data, out, t->count);
    return unsupported(t, "F64, F32, F16 or BF16");
}

clv_status llm_safetensors_to_i32(const llm_safetensors_tensor *t, int32_t *out)
{
    bool is_signed = t->type[0] == 'I';
    bool is_byte = strcmp(t->type, "U8") == 0 || strcmp(t->type, "BOOL") == 0;
    if (!is_signed && !is_byte)
        return unsupported(t, "I64, I32, I16, I8, U8 or BOOL");
    const uint32_t bits = (uint32_t)(t->count ? 8 * t->size / t->count : 0);
    for (uint64_t i = 0; i < t->count; i++) {
        int64_t value = 0;
        memcpy(&value, t->data + i * (bits / 8), bits / 8);
        if (is_signed)
            value = (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits);
        if (value < INT32_MIN || value > INT32_MAX)
            return clv_error(CLV_ERR_FORMAT,
                             "tensor '%s' holds %" PRIi64 " at %" PRIu64
                             ", outside 32 bits",
                             llm_str_show(llm_str_of(t->name)).text, value, i);
        out[i] = (int32_t)value;
    }
    return CLV_OK;
}
