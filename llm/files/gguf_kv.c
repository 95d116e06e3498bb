#include "gguf_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum number_class { OTHER, INTEGER, REAL } number_class;

static const struct {
    const char *name;
    uint32_t size; /* bytes; 0: strings and arrays */
    number_class class;
} types[LLM_GGUF_TYPE_COUNT] = {
    {"u8", 1, INTEGER},  {"i8", 1, INTEGER},  {"u16", 2, INTEGER},
    {"i16", 2, INTEGER}, {"u32", 4, INTEGER}, {"i32", 4, INTEGER},
    {"f32", 4, REAL},    {"bool", 1, OTHER},  {"string", 0, OTHER},
    {"array", 0, OTHER}, {"u64", 8, INTEGER}, {"i64", 8, INTEGER},
    {"f64", 8, REAL},
};

static const char *type_name(uint32_t type)
{
    return type < LLM_GGUF_TYPE_COUNT ? types[type].name : "unknown";
}

uint32_t llm_gguf_scalar_size(uint32_t type)
{
    return type < LLM_GGUF_TYPE_COUNT ? types[type].size : 0;
}

static bool is(uint32_t type, number_class class)
{
    return type < LLM_GGUF_TYPE_COUNT && types[type].class == class;
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
                         "%s: has no key '%s'; convert the model again",
                         g->path, key);
    return CLV_OK;
}

static clv_status wrong_type(const llm_gguf *g, const char *key,
                             const char *wanted, uint32_t type)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: key '%s' must be %s and is %s; convert the model "
                     "again",
                     g->path, key, wanted, type_name(type));
}

/* Values of U64 above INT64_MAX come out as INT64_MAX. */
static int64_t load_int(uint32_t type, const uint8_t *at)
{
    const uint32_t bits = 8 * llm_gguf_scalar_size(type);
    const bool is_signed = type == LLM_GGUF_I8 || type == LLM_GGUF_I16 ||
                           type == LLM_GGUF_I32 || type == LLM_GGUF_I64;
    uint64_t value = 0;
    memcpy(&value, at, bits / 8);
    if (is_signed)
        return (int64_t)(value << (64 - bits)) >> (64 - bits);
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static double load_float(uint32_t type, const uint8_t *at)
{
    float f;
    double d;
    if (type == LLM_GGUF_F32)
        return (memcpy(&f, at, sizeof f), f);
    return (memcpy(&d, at, sizeof d), d);
}

static clv_status get_int(const llm_gguf *g, const char *key, int64_t least,
                          int64_t most, int64_t *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (!is(kv->type, INTEGER))
        return wrong_type(g, key, "an integer", kv->type);
    *out = load_int(kv->type, kv->data);
    if (*out < least || *out > most)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: key '%s' is %" PRIi64 ", outside %" PRIi64
                         "..%" PRIi64 "; convert the model again",
                         g->path, key, *out, least, most);
    return CLV_OK;
}

clv_status llm_gguf_get_u32(const llm_gguf *g, const char *key, uint32_t *out)
{
    int64_t value = 0;
    CLV_TRY(get_int(g, key, 0, UINT32_MAX, &value));
    *out = (uint32_t)value;
    return CLV_OK;
}

clv_status llm_gguf_get_i32(const llm_gguf *g, const char *key, int32_t *out)
{
    int64_t value = 0;
    CLV_TRY(get_int(g, key, INT32_MIN, INT32_MAX, &value));
    *out = (int32_t)value;
    return CLV_OK;
}

clv_status llm_gguf_get_f32(const llm_gguf *g, const char *key, float *out)
{
    const llm_gguf_kv *kv = NULL;
    CLV_TRY(lookup(g, key, &kv));
    if (!is(kv->type, REAL))
        return wrong_type(g, key, "a number", kv->type);
    float value = (float)load_float(kv->type, kv->data);
    if (!isfinite(value))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: key '%s' is not a finite number; convert the "
                         "model again",
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

/* Items must be of class, or OTHER: strings. */
static clv_status get_array(const llm_gguf *g, const char *key,
                            number_class class, const char *wanted,
                            llm_gguf_array *out)
{
    const llm_gguf_kv *kv = NULL;
    llm_gguf_array a;
    CLV_TRY(lookup(g, key, &kv));
    if (kv->type != LLM_GGUF_ARRAY)
        return wrong_type(g, key, wanted, kv->type);
    memcpy(&a.type, kv->data, sizeof a.type);
    memcpy(&a.count, kv->data + sizeof a.type, sizeof a.count);
    a.data = kv->data + sizeof a.type + sizeof a.count;
    if (class == OTHER ? a.type != LLM_GGUF_STRING : !is(a.type, class))
        return wrong_type(g, key, wanted, a.type);
    *out = a;
    return CLV_OK;
}

clv_status llm_gguf_get_ints(const llm_gguf *g, const char *key,
                             llm_gguf_array *out)
{
    return get_array(g, key, INTEGER, "an array of integers", out);
}

clv_status llm_gguf_get_floats(const llm_gguf *g, const char *key,
                               llm_gguf_array *out)
{
    return get_array(g, key, REAL, "an array of numbers", out);
}

clv_status llm_gguf_get_bools(const llm_gguf *g, const char *key,
                              llm_gguf_array *out)
{
    const llm_gguf_kv *kv = NULL;
    llm_gguf_array a = {0};
    CLV_TRY(lookup(g, key, &kv));
    if (kv->type == LLM_GGUF_ARRAY)
        memcpy(&a.type, kv->data, sizeof a.type);
    if (a.type != LLM_GGUF_BOOL)
        return wrong_type(g, key, "an array of bools", kv->type);
    memcpy(&a.count, kv->data + sizeof a.type, sizeof a.count);
    a.data = kv->data + sizeof a.type + sizeof a.count;
    *out = a;
    return CLV_OK;
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
    CLV_TRY(get_array(g, key, OTHER, "an array of strings", &array));
    /* Each string takes 8 bytes of the file at least, so count is bounded. */
    llm_str *strings =
        array.count ? calloc(array.count, sizeof *strings) : NULL;
    if (array.count && !strings)
        return llm_no_memory(g->path);
    const uint8_t *at = array.data;
    for (uint64_t i = 0; i < array.count; i++) {
        strings[i] = load_str(at);
        at += sizeof(uint64_t) + strings[i].size;
    }
    *out = strings;
    *count = array.count;
    return CLV_OK;
}
