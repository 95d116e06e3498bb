#include "gguf_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *type_name(uint32_t type)
{
    static const char *const names[LLM_GGUF_TYPE_COUNT] = {
        "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
        "bool", "string", "array", "u64", "i64", "f64",
    };
    return type < LLM_GGUF_TYPE_COUNT ? names[type] : "unknown";
}

static bool is_int(uint32_t type)
{
    return llm_gguf_scalar_size(type) && type != LLM_GGUF_BOOL &&
           type != LLM_GGUF_F32 && type != LLM_GGUF_F64;
}

static bool is_float(uint32_t type)
{
    return type == LLM_GGUF_F32 || type == LLM_GGUF_F64;
}

uint64_t llm_gguf_kv_count(const llm_gguf *g)
{
    return g->n_kv;
}

const llm_gguf_kv *llm_gguf_kv_at(const llm_gguf *g, uint64_t index)
{
    return index < g->n_kv ? &g->kv[index] : NULL;
}

static const llm_gguf_kv *find(const llm_gguf *g, const char *key)
{
    const llm_name *found = llm_names_find(g->keys, g->n_kv, llm_str_of(key));
    return found ? &g->kv[found->index] : NULL;
}

bool llm_gguf_has(const llm_gguf *g, const char *key)
{
    return find(g, key) != NULL;
}

static clv_status lookup(const llm_gguf *g, const char *key,
                         const llm_gguf_kv **out)
{
    *out = find(g, key);
    if (!*out)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "%s: has no key '%s'; convert the model anew", g->path,
                         key);
    return CLV_OK;
}

static clv_status wrong_type(const llm_gguf *g, const char *key,
                             const char *wanted, uint32_t type)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: key '%s' must be %s and is %s; convert the model "
                     "anew",
                     g->path, key, wanted, type_name(type));
}

/* Values of U64 above INT64_MAX come out as INT64_MAX. */
static int64_t load_int(uint32_t type, const uint8_t *at)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } v;
    memcpy(&v, at, llm_gguf_scalar_size(type));
    switch (type) {
    case LLM_GGUF_U8:
        return v.u8;
    case LLM_GGUF_I8:
        return v.i8;
    case LLM_GGUF_U16:
        return v.u16;
    case LLM_GGUF_I16:
        return v.i16;
    case LLM_GGUF_U32:
        return v.u32;
    case LLM_GGUF_I32:
        return v.i32;
    case LLM_GGUF_U64:
        return v.u64 > INT64_MAX ? INT64_MAX : (int64_t)v.u64;
    }
    return v.i64;
}

static double load_float(uint32_t type, const uint8_t *at)
{
    float f;
    double d;
    if (type == LLM_GGUF_F32) {
        memcpy(&f, at, sizeof f);
        return f;
    }
    memcpy(&d, at, sizeof d);
    return d;
}

static clv_status get_int(const llm_gguf *g, const char *key, int64_t least,
                          int64_t most, int64_t *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (!is_int(kv->type))
        return wrong_type(g, key, "an integer", kv->type);
    int64_t value = load_int(kv->type, kv->data);
    if (value < least || value > most)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: key '%s' is %" PRIi64 ", outside %" PRIi64
                         "..%" PRIi64 "; convert the model anew",
                         g->path, key, value, least, most);
    *out = value;
    return CLV_OK;
}

clv_status llm_gguf_get_u32(const llm_gguf *g, const char *key, uint32_t *out)
{
    int64_t value = 0;
    clv_status status = get_int(g, key, 0, UINT32_MAX, &value);
    if (!status)
        *out = (uint32_t)value;
    return status;
}

clv_status llm_gguf_get_i32(const llm_gguf *g, const char *key, int32_t *out)
{
    int64_t value = 0;
    clv_status status = get_int(g, key, INT32_MIN, INT32_MAX, &value);
    if (!status)
        *out = (int32_t)value;
    return status;
}

clv_status llm_gguf_get_f32(const llm_gguf *g, const char *key, float *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (!is_float(kv->type))
        return wrong_type(g, key, "a number", kv->type);
    float value = (float)load_float(kv->type, kv->data);
    if (!isfinite(value))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: key '%s' is not a finite number; convert the "
                         "model anew",
                         g->path, key);
    *out = value;
    return CLV_OK;
}

clv_status llm_gguf_get_bool(const llm_gguf *g, const char *key, bool *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (kv->type != LLM_GGUF_BOOL)
        return wrong_type(g, key, "a bool", kv->type);
    *out = kv->data[0] != 0;
    return CLV_OK;
}

/* A string whose bounds were checked when the file was opened. */
static llm_str load_str(const uint8_t *at)
{
    uint64_t size;
    memcpy(&size, at, sizeof size);
    return (llm_str){(const char *)at + sizeof size, size};
}

clv_status llm_gguf_get_str(const llm_gguf *g, const char *key, llm_str *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (kv->type != LLM_GGUF_STRING)
        return wrong_type(g, key, "a string", kv->type);
    *out = load_str(kv->data);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Arrays                                                                   */

static clv_status get_array(const llm_gguf *g, const char *key,
                            const char *wanted, llm_gguf_array *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (kv->type != LLM_GGUF_ARRAY)
        return wrong_type(g, key, wanted, kv->type);
    memcpy(&out->type, kv->data, sizeof out->type);
    memcpy(&out->count, kv->data + sizeof out->type, sizeof out->count);
    out->data = kv->data + sizeof out->type + sizeof out->count;
    return CLV_OK;
}

clv_status llm_gguf_get_ints(const llm_gguf *g, const char *key,
                             llm_gguf_array *out)
{
    llm_gguf_array array = {0};
    clv_status status = get_array(g, key, "an array of integers", &array);
    if (!status && !is_int(array.type))
        status = wrong_type(g, key, "an array of integers", array.type);
    if (!status)
        *out = array;
    return status;
}

clv_status llm_gguf_get_floats(const llm_gguf *g, const char *key,
                               llm_gguf_array *out)
{
    llm_gguf_array array = {0};
    clv_status status = get_array(g, key, "an array of numbers", &array);
    if (!status && !is_float(array.type))
        status = wrong_type(g, key, "an array of numbers", array.type);
    if (!status)
        *out = array;
    return status;
}

int64_t llm_gguf_item_int(const llm_gguf_array *array, uint64_t index)
{
    return load_int(array->type,
                    array->data + index * llm_gguf_scalar_size(array->type));
}

float llm_gguf_item_float(const llm_gguf_array *array, uint64_t index)
{
    return (float)load_float(
        array->type, array->data + index * llm_gguf_scalar_size(array->type));
}

clv_status llm_gguf_get_strings(const llm_gguf *g, const char *key,
                                llm_str **out, uint64_t *count)
{
    llm_gguf_array array = {0};
    CLV_TRY(get_array(g, key, "an array of strings", &array));
    if (array.type != LLM_GGUF_STRING)
        return wrong_type(g, key, "an array of strings", array.type);
    /* Each string takes 8 bytes of the file at least, so count is bounded. */
    llm_str *strings = NULL;
    if (array.count) {
        strings = calloc(array.count, sizeof *strings);
        if (!strings)
            return llm_no_memory(key);
    }
    const uint8_t *at = array.data;
    for (uint64_t i = 0; i < array.count; i++) {
        strings[i] = load_str(at);
        at += sizeof(uint64_t) + strings[i].size;
    }
    *out = strings;
    *count = array.count;
    return CLV_OK;
}
