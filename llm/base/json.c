#include "json_nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

clv_status llm_json_load(const char *path, llm_json **out)
{
    clv_file_map map = {0};
    CLV_TRY(clv_file_map_open(path, &map));
    llm_json *root = NULL;
    clv_status status = llm_json_parse(map.data, map.size, path, &root);
    const clv_status damage = clv_file_map_check(&map, path);
    clv_file_map_close(&map);
    if (damage) {
        llm_json_free(root);
        return damage;
    }
    if (!status)
        *out = root;
    return status;
}

clv_status llm_json_load_in(const char *dir, const char *file, llm_json **out)
{
    *out = NULL;
    char *path = llm_path_join(dir, file);
    if (!path)
        return CLV_ERR_NO_MEMORY;
    clv_status status = access(path, F_OK) ? CLV_OK : llm_json_load(path, out);
    free(path);
    return status;
}

void llm_json_free(llm_json *root)
{
    free(root);
}

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

llm_json_type llm_json_type_of(const llm_json *value)
{
    static const uint8_t types[] = {
        [LLM_JSON_IS_NULL] = LLM_JSON_NULL,
        [LLM_JSON_IS_FALSE] = LLM_JSON_BOOL,
        [LLM_JSON_IS_TRUE] = LLM_JSON_BOOL,
        [LLM_JSON_I8] = LLM_JSON_NUMBER,
        [LLM_JSON_I16] = LLM_JSON_NUMBER,
        [LLM_JSON_I32] = LLM_JSON_NUMBER,
        [LLM_JSON_I64] = LLM_JSON_NUMBER,
        [LLM_JSON_F64] = LLM_JSON_NUMBER,
        [LLM_JSON_SHORT] = LLM_JSON_STRING,
        [LLM_JSON_LONG] = LLM_JSON_STRING,
        [LLM_JSON_SHORT_ITEMS] = LLM_JSON_ARRAY,
        [LLM_JSON_ITEMS] = LLM_JSON_ARRAY,
        [LLM_JSON_SHORT_MEMBERS] = LLM_JSON_OBJECT,
        [LLM_JSON_MEMBERS] = LLM_JSON_OBJECT,
    };
    return value ? (llm_json_type)types[value->form] : LLM_JSON_NONE;
}

bool llm_json_is(const llm_json *value, llm_json_type type)
{
    return llm_json_type_of(value) == type;
}

bool llm_json_is_true(const llm_json *value)
{
    return value && value->form == LLM_JSON_IS_TRUE;
}

bool llm_json_is_false(const llm_json *value)
{
    return value && value->form == LLM_JSON_IS_FALSE;
}

static uint32_t u32_at(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

bool llm_json_str(const llm_json *value, llm_str *out)
{
    const uint8_t *at = (const uint8_t *)value;
    if (!llm_json_is(value, LLM_JSON_STRING))
        return false;
    *out = value->form == LLM_JSON_SHORT
               ? (llm_str){(const char *)at + 2, at[1]}
               : (llm_str){(const char *)at + 5, u32_at(at + 1)};
    return true;
}

const char *llm_json_text(const llm_json *value)
{
    llm_str text;
    return llm_json_str(value, &text) && strlen(text.data) == text.size
               ? text.data
               : NULL;
}

bool llm_json_int(const llm_json *value, int64_t *out)
{
    const uint8_t *at = (const uint8_t *)value + 1;
    if (!value || value->form < LLM_JSON_I8 || value->form > LLM_JSON_I64)
        return false;
    const int bytes = 1 << (value->form - LLM_JSON_I8);
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)bytes);
    *out = (int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes);
    return true;
}

bool llm_json_number(const llm_json *value, double *out)
{
    int64_t integer;
    if (value && value->form == LLM_JSON_F64)
        return memcpy(out, (const uint8_t *)value + 1, sizeof *out), true;
    if (!llm_json_int(value, &integer))
        return false;
    *out = (double)integer;
    return true;
}

bool llm_json_u64(const llm_json *value, uint64_t *out)
{
    double number;
    if (!llm_json_number(value, &number) ||
        !(number >= 0 && number <= 0x1p53) || number != floor(number))
        return false;
    *out = (uint64_t)number;
    return true;
}

/* ------------------------------------------------------------------------ */
/* Members                                                                  */

/* The end of a value. */
static const uint8_t *past(const uint8_t *at)
{
    switch ((llm_json_form)*at) {
    case LLM_JSON_I8:
        return at + 2;
    case LLM_JSON_I16:
        return at + 3;
    case LLM_JSON_I32:
        return at + 5;
    case LLM_JSON_I64:
    case LLM_JSON_F64:
        return at + 9;
    case LLM_JSON_SHORT:
        return at + 2 + at[1] + 1;
    case LLM_JSON_LONG:
        return at + 5 + u32_at(at + 1) + 1;
    case LLM_JSON_SHORT_ITEMS:
    case LLM_JSON_SHORT_MEMBERS:
        return at + 2 + at[1];
    case LLM_JSON_ITEMS:
    case LLM_JSON_MEMBERS:
        return at + 5 + u32_at(at + 1);
    default:
        return at + 1;
    }
}

llm_json_each llm_json_begin(const llm_json *value)
{
    const uint8_t *at = (const uint8_t *)value;
    if (!value || value->form < LLM_JSON_SHORT_ITEMS)
        return (llm_json_each){0};
    const bool small = value->form == LLM_JSON_SHORT_ITEMS ||
                       value->form == LLM_JSON_SHORT_MEMBERS;
    return (llm_json_each){.at = at + (small ? 2 : 5),
                           .end = past(at),
                           .keyed = llm_json_is(value, LLM_JSON_OBJECT)};
}

bool llm_json_next(llm_json_each *each)
{
    if (each->at == each->end)
        return false;
    if (each->keyed) {
        llm_json_str((const llm_json *)each->at, &each->key);
        each->at = past(each->at);
    }
    each->value = (const llm_json *)each->at;
    each->at = past(each->at);
    return true;
}

uint64_t llm_json_count(const llm_json *value)
{
    uint64_t n = 0;
    for (llm_json_each e = llm_json_begin(value); llm_json_next(&e);)
        n++;
    return n;
}

const llm_json *llm_json_at(const llm_json *array, uint64_t index)
{
    for (llm_json_each e = llm_json_begin(array); llm_json_next(&e);)
        if (!index--)
            return e.value;
    return NULL;
}

const llm_json *llm_json_member(const llm_json *object, const char *key)
{
    if (!llm_json_is(object, LLM_JSON_OBJECT))
        return NULL;
    for (llm_json_each e = llm_json_begin(object); llm_json_next(&e);)
        if (llm_str_equal(e.key, llm_str_of(key)))
            return e.value;
    return NULL;
}

const llm_json *llm_json_get(const llm_json *object, const char *key)
{
    const llm_json *value = llm_json_member(object, key);
    return llm_json_is(value, LLM_JSON_NULL) ? NULL : value;
}

const char *llm_json_string(const llm_json *object, const char *key)
{
    return llm_json_text(llm_json_member(object, key));
}

bool llm_json_flag(const llm_json *object, const char *key, bool fallback)
{
    const llm_json *value = llm_json_member(object, key);
    return llm_json_is(value, LLM_JSON_BOOL) ? llm_json_is_true(value)
                                             : fallback;
}
