#include "parts.h"

#include "callables.h"
#include "text.h"

#include <ctype.h>

static clv_status of_undefined(llm_jinja *j, llm_str name)
{
    return llm_jinja_error(j, CLV_ERR_INVALID,
                           "'%s' is asked of an undefined value",
                           llm_str_show(name).text);
}

clv_status llm_op_attribute(llm_jinja *j, const llm_value *v, llm_str name,
                            llm_value *out)
{
    bool found;
    *out = (llm_value){0};
    if (v->type == LLM_V_UNDEFINED)
        return of_undefined(j, name);
    CLV_TRY(llm_member(j, v, name, &found, out));
    if (found || (v->type != LLM_V_DICT && v->type != LLM_V_NAMESPACE))
        return CLV_OK;
    const llm_value *value = llm_dict_get(v->dict, name);
    if (value)
        *out = *value;
    return llm_jinja_work(j, v->dict->n / 8);
}

/* Where an index points to in n items; false: nowhere. */
static bool find_index(const llm_value *key, uint64_t n, uint64_t *out)
{
    int64_t index;
    if (!llm_value_whole(key, &index))
        return false;
    if (index < 0)
        index += (int64_t)n;
    *out = (uint64_t)index;
    return index >= 0 && (uint64_t)index < n;
}

static bool is_indexed(const llm_value *v)
{
    return v->type == LLM_V_LIST && v->list->kind <= LLM_LIST_RANGE;
}

clv_status llm_op_item(llm_jinja *j, const llm_value *v, const llm_value *key,
                       llm_value *out)
{
    uint64_t index;
    llm_value *value = NULL;
    bool found;
    *out = (llm_value){0};
    if (v->type == LLM_V_UNDEFINED)
        return of_undefined(j, key->type == LLM_V_TEXT ? llm_text_str(key->text)
                                                       : llm_str_of("an item"));
    if (v->type == LLM_V_DICT && key->type != LLM_V_LIST &&
        key->type != LLM_V_DICT) {
        CLV_TRY(llm_dict_find(j, v->dict, key, &value));
    } else if (is_indexed(v) && find_index(key, v->list->n, &index)) {
        value = &v->list->items[index];
    } else if (v->type == LLM_V_TEXT && key->type != LLM_V_TEXT) {
        if (!find_index(key, llm_text_length(v->text), &index))
            return CLV_OK;
        CLV_TRY(llm_jinja_work(j, v->text.size / 64));
        const uint64_t at = llm_text_offset(v->text, index);
        *out = llm_value_text(
            llm_text_part(v->text, at, llm_text_next(v->text, at)));
        return CLV_OK;
    }
    if (value)
        *out = *value;
    else if (key->type == LLM_V_TEXT && v->type == LLM_V_NAMESPACE)
        return llm_op_attribute(j, v, llm_text_str(key->text), out);
    else if (key->type == LLM_V_TEXT)
        return llm_member(j, v, llm_text_str(key->text), &found, out);
    return CLV_OK;
}

/* A bound of a slice, clamped as Python does. */
static clv_status bound(llm_jinja *j, const llm_value *v, int64_t n,
                        int64_t step, int64_t absent, int64_t *out)
{
    *out = absent;
    if (v->type == LLM_V_NONE)
        return CLV_OK;
    if (!llm_value_whole(v, out))
        return llm_jinja_error(j, CLV_ERR_INVALID, "a slice takes no %s",
                               llm_value_kind(v));
    if (*out < 0)
        *out += n;
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    *out = *out < low ? low : *out > high ? high : *out;
    return CLV_OK;
}

static clv_status slice_text(llm_jinja *j, llm_text text, int64_t begin,
                             int64_t count, int64_t step, llm_value *out)
{
    const uint64_t start = llm_text_begin(j);
    CLV_TRY(llm_jinja_work(j, text.size / 16));
    if (step == 1 || !count) {
        const uint64_t from = llm_text_offset(text, (uint64_t)begin);
        const llm_text rest = llm_text_part(text, from, text.size);
        *out = llm_value_text(
            llm_text_part(rest, 0, llm_text_offset(rest, (uint64_t)count)));
        return CLV_OK;
    }
    const llm_value whole = llm_value_text(text);
    const llm_list *points;
    CLV_TRY(llm_value_iterate(j, &whole, &points));
    for (int64_t i = 0; i < count; i++)
        CLV_TRY(llm_text_add(j, points->items[begin + i * step].text));
    return llm_text_end_value(j, start, out);
}

static clv_status slice_list(llm_jinja *j, const llm_list *list, int64_t begin,
                             int64_t count, int64_t step, llm_value *out)
{
    const bool shares = step == 1 || !count;
    CLV_TRY(llm_value_list(j, list->kind, shares ? 0 : (uint64_t)count, out));
    if (shares)
        out->list->items = list->items + (count ? begin : 0);
    for (int64_t i = 0; !shares && i < count; i++)
        out->list->items[i] = list->items[begin + i * step];
    out->list->n = (uint64_t)count;
    return CLV_OK;
}

clv_status llm_op_slice(llm_jinja *j, const llm_value *v,
                        const llm_value bounds[3], llm_value *out)
{
    int64_t begin, end, step = 1, count = 0;
    *out = (llm_value){0};
    if (v->type == LLM_V_UNDEFINED)
        return of_undefined(j, llm_str_of("a slice"));
    if (v->type != LLM_V_TEXT && !is_indexed(v))
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s cannot be sliced",
                               llm_value_kind(v));
    if (v->type == LLM_V_TEXT && v->markup)
        return llm_jinja_unknown(j, "a slice of the result of 'safe'");
    const int64_t n = (int64_t)(v->type == LLM_V_TEXT ? llm_text_length(v->text)
                                                      : v->list->n);
    if (bounds[2].type != LLM_V_NONE && !llm_value_whole(&bounds[2], &step))
        return llm_jinja_error(j, CLV_ERR_INVALID, "a slice takes no %s",
                               llm_value_kind(&bounds[2]));
    if (!step || step > INT32_MAX || step < -INT32_MAX)
        return llm_jinja_error(j, CLV_ERR_INVALID, "a slice has no such step");
    CLV_TRY(bound(j, &bounds[0], n, step, step < 0 ? n - 1 : 0, &begin));
    CLV_TRY(bound(j, &bounds[1], n, step, step < 0 ? -1 : n, &end));
    if (step > 0 && end > begin)
        count = (end - begin + step - 1) / step;
    if (step < 0 && begin > end)
        count = (begin - end - step - 1) / -step;
    return v->type == LLM_V_TEXT
               ? slice_text(j, v->text, begin, count, step, out)
               : slice_list(j, v->list, begin, count, step, out);
}

clv_status llm_op_path(llm_jinja *j, const llm_value *v, const llm_value *path,
                       const llm_value *fallback, llm_value *out)
{
    llm_value key = *path, item = *v;
    const llm_text dot = {".", NULL, 1};
    uint64_t at = 0, end = 0;
    do {
        if (path->type == LLM_V_TEXT) {
            end = llm_text_find(path->text, dot, at);
            const uint64_t stop = end == UINT64_MAX ? path->text.size : end;
            key = llm_value_text(llm_text_part(path->text, at, stop));
            bool digits = key.text.size > 0 && key.text.size < 18;
            int64_t number = 0;
            for (uint64_t i = 0; i < key.text.size && digits; i++) {
                digits = key.text.data[i] >= '0' && key.text.data[i] <= '9';
                number = number * 10 + (key.text.data[i] - '0');
            }
            if (digits)
                key = llm_value_int(number);
            at = stop + 1;
        } else if (path->type != LLM_V_INT) {
            return llm_jinja_unknown(j, "%s as an attribute's name",
                                     llm_value_kind(path));
        }
        const llm_value from = item;
        CLV_TRY(llm_op_item(j, &from, &key, &item));
        if (item.type == LLM_V_UNDEFINED && fallback)
            item = *fallback;
    } while (path->type == LLM_V_TEXT && end != UINT64_MAX);
    *out = item;
    return CLV_OK;
}
