#include "messages.h"

#include "../base/json.h"
#include "../jinja/text.h"

#include <math.h>
#include <string.h>

typedef struct reader {
    llm_jinja *j;
    const char *name;
    bool marked;
} reader;

static clv_status wrong(const reader *r, const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "%s: %s", r->name, what);
}

static clv_status read_text(reader *r, llm_str text, bool marked,
                            llm_value *out)
{
    char *copy = llm_jinja_alloc(r->j, marked ? 2 * text.size : text.size, 1);
    if (!copy)
        return CLV_ERR_LIMIT;
    if (text.size)
        memcpy(copy, text.data, text.size);
    if (marked)
        memset(copy + text.size, 1, text.size);
    *out = llm_value_text(
        (llm_text){copy, marked ? copy + text.size : NULL, text.size});
    return CLV_OK;
}

/* "user", "tool_results" */
static bool is_word(llm_str text)
{
    for (uint64_t i = 0; i < text.size; i++) {
        const char c = text.data[i], letter = (char)(c | 32);
        if ((letter < 'a' || letter > 'z') && (c < '0' || c > '9') &&
            c != '_' && c != '-' && c != '.')
            return false;
    }
    return text.size <= 64;
}

/* Integers stay what they are, since templates print 1 and 1.0 differently. */
static clv_status read_number(const reader *r, const llm_json *item,
                              llm_value *out)
{
    *out = llm_value_real(0);
    if (llm_json_int(item, &out->whole)) {
        out->type = LLM_V_INT;
        return CLV_OK;
    }
    llm_json_number(item, &out->real);
    return fabs(out->real) < 0x1p63 ? CLV_OK
                                    : wrong(r, "a number is too large");
}

static clv_status read_any(reader *r, const llm_json *item, llm_value *out);

static clv_status read_list(reader *r, const llm_json *array, llm_value *out)
{
    CLV_TRY(llm_value_list(r->j, LLM_LIST_PLAIN, llm_json_count(array), out));
    for (llm_json_each e = llm_json_begin(array); llm_json_next(&e);)
        CLV_TRY(read_any(r, e.value, &out->list->items[out->list->n++]));
    return CLV_OK;
}

static clv_status read_dict(reader *r, const llm_json *object, llm_value *out)
{
    CLV_TRY(llm_value_dict(r->j, LLM_V_DICT, out));
    for (llm_json_each e = llm_json_begin(object); llm_json_next(&e);) {
        llm_value key, value;
        llm_str text;
        CLV_TRY(read_text(r, e.key, r->marked, &key));
        if (llm_str_equal(e.key, llm_str_of("role")) &&
            llm_json_str(e.value, &text) && is_word(text))
            CLV_TRY(read_text(r, text, false, &value));
        else
            CLV_TRY(read_any(r, e.value, &value));
        CLV_TRY(llm_dict_set(r->j, out->dict, &key, &value));
    }
    return CLV_OK;
}

static clv_status read_value(reader *r, const llm_json *item, llm_value *out)
{
    llm_str text;
    switch (llm_json_type_of(item)) {
    case LLM_JSON_STRING:
        llm_json_str(item, &text);
        return read_text(r, text, r->marked, out);
    case LLM_JSON_NUMBER:
        return read_number(r, item, out);
    case LLM_JSON_BOOL:
        *out = llm_value_bool(llm_json_is_true(item));
        return CLV_OK;
    case LLM_JSON_ARRAY:
        return read_list(r, item, out);
    case LLM_JSON_OBJECT:
        return read_dict(r, item, out);
    default:
        *out = (llm_value){.type = LLM_V_NONE};
        return CLV_OK;
    }
}

static clv_status read_any(reader *r, const llm_json *item, llm_value *out)
{
    CLV_TRY(llm_jinja_enter(r->j));
    clv_status status = read_value(r, item, out);
    llm_jinja_leave(r->j);
    return status;
}

/* The JSON, which may be a list, as the only member of an object. */
static clv_status wrap(llm_str json, llm_bytes *out)
{
    CLV_TRY(llm_bytes_append(out, "{\"\":", 4));
    CLV_TRY(llm_bytes_append(out, json.data, json.size));
    return llm_bytes_append(out, "}", 1);
}

clv_status llm_messages_read(llm_jinja *j, llm_str json, const char *name,
                             bool marked, llm_value *out)
{
    reader r = {.j = j, .name = name, .marked = marked};
    llm_bytes text = {0};
    llm_json *root = NULL;
    clv_status status = wrap(json, &text);
    if (!status)
        status = llm_json_parse(text.items, text.n, name, &root);
    if (!status && llm_json_count(root) != 1)
        status = wrong(&r, "not one JSON value");
    if (!status)
        status = read_any(&r, llm_json_member(root, ""), out);
    llm_json_free(root);
    free(text.items);
    return status;
}
