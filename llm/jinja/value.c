#include "value.h"

#include "text.h"

#include <math.h>
#include <string.h>

llm_value llm_value_word(const char *text)
{
    return llm_value_text((llm_text){text, NULL, strlen(text)});
}

clv_status llm_value_list(llm_jinja *j, llm_list_kind kind, uint64_t n,
                          llm_value *out)
{
    llm_list *list = llm_jinja_alloc(j, 1, sizeof *list);
    llm_value *items = llm_jinja_alloc(j, n, sizeof *items);
    if (!list || !items)
        return CLV_ERR_LIMIT;
    *list = (llm_list){.items = items, .kind = (uint8_t)kind};
    *out = (llm_value){.type = LLM_V_LIST, .list = list};
    return llm_jinja_work(j, n / 8);
}

clv_status llm_value_dict(llm_jinja *j, llm_value_type type, llm_value *out)
{
    llm_dict *dict = llm_jinja_alloc(j, 1, sizeof *dict);
    if (!dict)
        return CLV_ERR_LIMIT;
    *out = (llm_value){.type = (uint8_t)type, .dict = dict};
    return CLV_OK;
}

clv_status llm_value_function(llm_jinja *j, llm_method_fn call, llm_value *out)
{
    llm_callable *callable = llm_jinja_alloc(j, 1, sizeof *callable);
    if (!callable)
        return CLV_ERR_LIMIT;
    callable->call = call;
    *out = (llm_value){.type = LLM_V_CALLABLE, .callable = callable};
    return CLV_OK;
}

bool llm_value_is(const llm_value *v, llm_value_type type)
{
    return v->type == type;
}

const char *llm_value_kind(const llm_value *v)
{
    static const char *const kinds[] = {
        "an undefined value",
        "none",
        "a boolean",
        "an integer",
        "a float",
        "a text",
        "a list",
        "a dict",
        "a namespace",
        "a loop",
        "a function",
    };
    if (v->type == LLM_V_LIST && v->list->kind == LLM_LIST_TUPLE)
        return "a tuple";
    if (v->type == LLM_V_LIST && v->list->kind == LLM_LIST_GENERATOR)
        return "a generator";
    return kinds[v->type];
}

llm_str llm_text_str(llm_text text)
{
    return (llm_str){text.data, text.size};
}

bool llm_text_equal(llm_text text, const char *word)
{
    return llm_str_equal(llm_text_str(text), llm_str_of(word));
}

bool llm_value_truth(const llm_value *v)
{
    switch (v->type) {
    case LLM_V_UNDEFINED:
    case LLM_V_NONE:
        return false;
    case LLM_V_BOOL:
        return v->truth;
    case LLM_V_INT:
        return v->whole != 0;
    case LLM_V_FLOAT:
        return v->real != 0;
    case LLM_V_TEXT:
        return v->text.size != 0;
    case LLM_V_LIST:
        return v->list->kind == LLM_LIST_GENERATOR || v->list->n != 0;
    case LLM_V_DICT:
        return v->dict->n != 0;
    default:
        return true;
    }
}

bool llm_value_whole(const llm_value *v, int64_t *out)
{
    if (v->type != LLM_V_INT && v->type != LLM_V_BOOL)
        return false;
    *out = v->type == LLM_V_INT ? v->whole : v->truth;
    return true;
}

bool llm_value_real_of(const llm_value *v, double *out)
{
    int64_t whole;
    if (llm_value_whole(v, &whole))
        *out = (double)whole;
    else if (v->type == LLM_V_FLOAT)
        *out = v->real;
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------------ */

/* Ranges and tuples equal only their like. */
static uint8_t equality_class(const llm_value *v)
{
    return v->type == LLM_V_LIST ? v->list->kind : 0;
}

static clv_status lists_equal(llm_jinja *j, const llm_list *a,
                              const llm_list *b, bool *out)
{
    *out = a == b || a->n == b->n;
    if (a == b || !*out)
        return CLV_OK;
    if (a->kind >= LLM_LIST_KEYS)
        return llm_jinja_unknown(j, "comparing views of dicts and generators");
    for (uint64_t i = 0; i < a->n && *out; i++)
        CLV_TRY(llm_value_equal(j, &a->items[i], &b->items[i], out));
    return CLV_OK;
}

static clv_status dicts_equal(llm_jinja *j, const llm_dict *a,
                              const llm_dict *b, bool *out)
{
    *out = a == b || a->n == b->n;
    for (uint64_t i = 0; a != b && i < a->n && *out; i++) {
        llm_value *other;
        CLV_TRY(llm_dict_find(j, b, &a->keys[i], &other));
        *out = other;
        if (other)
            CLV_TRY(llm_value_equal(j, &a->values[i], other, out));
    }
    return CLV_OK;
}

static clv_status equal(llm_jinja *j, const llm_value *a, const llm_value *b,
                        bool *out)
{
    int64_t i, k;
    double x, y;
    *out = false;
    if (llm_value_whole(a, &i) && llm_value_whole(b, &k))
        *out = i == k;
    else if (llm_value_real_of(a, &x) && llm_value_real_of(b, &y))
        *out = x == y;
    else if (a->type != b->type || equality_class(a) != equality_class(b))
        *out = false;
    else if (a->type == LLM_V_TEXT)
        *out = llm_str_equal(llm_text_str(a->text), llm_text_str(b->text));
    else if (a->type == LLM_V_LIST)
        return lists_equal(j, a->list, b->list, out);
    else if (a->type == LLM_V_DICT)
        return dicts_equal(j, a->dict, b->dict, out);
    else if (a->type == LLM_V_CALLABLE)
        return llm_jinja_unknown(j, "comparing functions");
    else if (a->type == LLM_V_NAMESPACE || a->type == LLM_V_LOOP)
        *out = a->dict == b->dict;
    else
        *out = true;
    return CLV_OK;
}

clv_status llm_value_equal(llm_jinja *j, const llm_value *a, const llm_value *b,
                           bool *out)
{
    CLV_TRY(llm_jinja_enter(j));
    clv_status status = equal(j, a, b, out);
    llm_jinja_leave(j);
    return status;
}

static int compare_texts(llm_text a, llm_text b)
{
    const uint64_t n = a.size < b.size ? a.size : b.size;
    const int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

clv_status llm_value_compare(llm_jinja *j, const llm_value *a,
                             const llm_value *b, int *out)
{
    int64_t i, k;
    double x, y;
    CLV_TRY(llm_jinja_work(j, 1));
    if (llm_value_whole(a, &i) && llm_value_whole(b, &k))
        *out = (i > k) - (i < k);
    else if (llm_value_real_of(a, &x) && llm_value_real_of(b, &y) &&
             !isnan(x) && !isnan(y))
        *out = (x > y) - (x < y);
    else if (a->type == LLM_V_TEXT && b->type == LLM_V_TEXT)
        *out = compare_texts(a->text, b->text);
    else
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s and %s have no order",
                               llm_value_kind(a), llm_value_kind(b));
    return CLV_OK;
}

clv_status llm_value_contains(llm_jinja *j, const llm_value *container,
                              const llm_value *item, bool *out)
{
    const llm_list *list;
    llm_value *found;
    *out = false;
    if (container->type == LLM_V_TEXT) {
        if (item->type != LLM_V_TEXT)
            return llm_jinja_error(j, CLV_ERR_INVALID,
                                   "a text cannot contain %s",
                                   llm_value_kind(item));
        CLV_TRY(llm_jinja_work(j, container->text.size / 64));
        *out = llm_text_find(container->text, item->text, 0) != UINT64_MAX;
        return CLV_OK;
    }
    if (container->type == LLM_V_DICT) {
        CLV_TRY(llm_dict_find(j, container->dict, item, &found));
        *out = found;
        return CLV_OK;
    }
    CLV_TRY(llm_value_iterate(j, container, &list));
    for (uint64_t i = 0; i < list->n && !*out; i++)
        CLV_TRY(llm_value_equal(j, &list->items[i], item, out));
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static bool is_hashable(const llm_value *v)
{
    if (v->type == LLM_V_LIST && v->list->kind == LLM_LIST_TUPLE) {
        for (uint64_t i = 0; i < v->list->n; i++)
            if (v->list->items[i].type == LLM_V_LIST ||
                v->list->items[i].type == LLM_V_DICT)
                return false;
        return true;
    }
    return v->type != LLM_V_LIST && v->type != LLM_V_DICT;
}

clv_status llm_dict_find(llm_jinja *j, const llm_dict *dict,
                         const llm_value *key, llm_value **out)
{
    *out = NULL;
    if (!is_hashable(key))
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s is no key of a dict",
                               llm_value_kind(key));
    CLV_TRY(llm_jinja_work(j, 1 + dict->n / 8));
    if (key->type == LLM_V_TEXT) {
        *out = llm_dict_get(dict, llm_text_str(key->text));
        return CLV_OK;
    }
    for (uint64_t i = 0; i < dict->n && !*out; i++) {
        bool same;
        CLV_TRY(llm_value_equal(j, &dict->keys[i], key, &same));
        if (same)
            *out = &dict->values[i];
    }
    return CLV_OK;
}

llm_value *llm_dict_get(const llm_dict *dict, llm_str key)
{
    for (uint64_t i = 0; i < dict->n; i++)
        if (dict->keys[i].type == LLM_V_TEXT &&
            llm_str_equal(llm_text_str(dict->keys[i].text), key))
            return &dict->values[i];
    return NULL;
}

clv_status llm_dict_set(llm_jinja *j, llm_dict *dict, const llm_value *key,
                        const llm_value *value)
{
    llm_value *found;
    CLV_TRY(llm_dict_find(j, dict, key, &found));
    if (found) {
        *found = *value;
        return CLV_OK;
    }
    if (dict->n == dict->capacity) {
        const uint64_t capacity = dict->n ? dict->n * 2 : 4;
        llm_value *keys = llm_jinja_alloc(j, capacity, sizeof *keys);
        llm_value *values = llm_jinja_alloc(j, capacity, sizeof *values);
        if (!keys || !values)
            return CLV_ERR_LIMIT;
        for (uint64_t i = 0; i < dict->n; i++) {
            keys[i] = dict->keys[i];
            values[i] = dict->values[i];
        }
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->n] = *key;
    dict->values[dict->n++] = *value;
    return CLV_OK;
}

static clv_status iterate_text(llm_jinja *j, llm_text text,
                               const llm_list **out)
{
    llm_value list;
    CLV_TRY(llm_value_list(j, LLM_LIST_PLAIN, llm_text_length(text), &list));
    for (uint64_t at = 0; at < text.size;) {
        const uint64_t next = llm_text_next(text, at);
        list.list->items[list.list->n++] =
            llm_value_text(llm_text_part(text, at, next));
        at = next;
    }
    *out = list.list;
    return CLV_OK;
}

clv_status llm_value_iterate(llm_jinja *j, const llm_value *v,
                             const llm_list **out)
{
    static const llm_list empty;
    llm_list *list;
    switch (v->type) {
    case LLM_V_UNDEFINED:
        *out = &empty;
        return CLV_OK;
    case LLM_V_TEXT:
        return iterate_text(j, v->text, out);
    case LLM_V_DICT:
        list = llm_jinja_alloc(j, 1, sizeof *list);
        if (!list)
            return CLV_ERR_LIMIT;
        *list = (llm_list){.items = v->dict->keys, .n = v->dict->n};
        *out = list;
        return CLV_OK;
    case LLM_V_LIST:
        if (v->list->used)
            return llm_jinja_unknown(j, "iterating over a generator twice");
        v->list->used = v->list->kind == LLM_LIST_GENERATOR;
        *out = v->list;
        return CLV_OK;
    default:
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s has no items",
                               llm_value_kind(v));
    }
}
