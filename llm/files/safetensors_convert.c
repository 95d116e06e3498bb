#include "safetensors.h"

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
    uint64_t element = t->count ? t->size / t->count : 0;
    for (uint64_t i = 0; i < t->count; i++) {
        const uint8_t *at = t->data + i * element;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t value = at[0];
        if (is_signed && element == sizeof i8)
            value = (memcpy(&i8, at, sizeof i8), i8);
        else if (element == sizeof i16)
            value = (memcpy(&i16, at, sizeof i16), i16);
        else if (element == sizeof i32)
            value = (memcpy(&i32, at, sizeof i32), i32);
        else if (element == sizeof value)
            memcpy(&value, at, sizeof value);
        if (value < INT32_MIN || value > INT32_MAX)
            return clv_error(CLV_ERR_FORMAT,
                             "tensor '%s' holds %" PRIi64 " at %" PRIu64
                             ", outside 32 bits",
                             llm_str_show(llm_str_of(t->name)).text, value, i);
        out[i] = (int32_t)value;
    }
    return CLV_OK;
}
