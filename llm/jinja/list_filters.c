/* Filters of lists and what is iterated like one. */
#include "callables.h"
#include "ops.h"
#include "parts.h"
#include "print.h"
#include "text.h"

/* Letters do not differ by case unless asked. */
static clv_status sort_key(llm_jinja *j, const llm_value *v,
                           const llm_value *attribute, bool with_case,
                           llm_value *out)
{
    *out = *v;
    if (attribute && attribute->type == LLM_V_TEXT &&
        llm_text_find(attribute->text, (llm_text){",", NULL, 1}, 0) !=
            UINT64_MAX)
        return llm_jinja_unknown(j, "sorting by several attributes");
    if (attribute && attribute->type != LLM_V_NONE)
        CLV_TRY(llm_op_path(j, v, attribute, NULL, out));
    if (out->type != LLM_V_TEXT || with_case)
        return CLV_OK;
    const llm_value text = *out;
    return llm_text_lower(j, &text, &(llm_args){0}, out);
}

/* Stable, by insertion; the steps are counted. */
static clv_status sort_by(llm_jinja *j, llm_value *items, llm_value *keys,
                          uint64_t n, bool reverse)
{
    for (uint64_t i = 1; i < n; i++) {
        const llm_value item = items[i], key = keys[i];
        uint64_t at = i;
        for (; at > 0; at--) {
            int order;
            CLV_TRY(llm_value_compare(j, &keys[at - 1], &key, &order));
            if (reverse ? order >= 0 : order <= 0)
                break;
            items[at] = items[at - 1];
            keys[at] = keys[at - 1];
        }
        items[at] = item;
        keys[at] = key;
    }
    return CLV_OK;
}

static clv_status copy_list(llm_jinja *j, const llm_value *v,
                            llm_list_kind kind, llm_value *out)
{
    const llm_list *list;
    CLV_TRY(llm_value_iterate(j, v, &list));
    CLV_TRY(llm_value_list(j, kind, list->n, out));
    for (uint64_t i = 0; i < list->n; i++)
        out->list->items[out->list->n++] = list->items[i];
    return CLV_OK;
}

static clv_status sort(llm_jinja *j, const llm_value *v, const llm_args *args,
                       llm_value *out)
{
    CLV_TRY(llm_args_check(j, args, "reverse|case_sensitive|attribute", 0));
    const bool with_case =
        llm_arg_truth(llm_arg(args, 1, "case_sensitive"), false);
    CLV_TRY(copy_list(j, v, LLM_LIST_PLAIN, out));
    llm_value *keys = llm_jinja_alloc(j, out->list->n, sizeof *keys);
    if (!keys)
        return CLV_ERR_LIMIT;
    for (uint64_t i = 0; i < out->list->n; i++)
        CLV_TRY(sort_key(j, &out->list->items[i], llm_arg(args, 2, "attribute"),
                         with_case, &keys[i]));
    return sort_by(j, out->list->items, keys, out->list->n,
                   llm_arg_truth(llm_arg(args, 0, "reverse"), false));
}

static clv_status dict_items(llm_jinja *j, const llm_value *v, llm_value *out)
{
    const llm_args none = {0};
    const llm_value self = *v;
    llm_value method;
    bool found;
    if (v->type != LLM_V_DICT)
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s has no keys",
                               llm_value_kind(v));
    CLV_TRY(llm_member(j, v, llm_str_of("items"), &found, &method));
    return method.callable->call(j, &self, &none, out);
}

static clv_status items(llm_jinja *j, const llm_value *v, const llm_args *args,
                        llm_value *out)
{
    CLV_TRY(llm_args_check(j, args, "", 0));
    if (v->type == LLM_V_UNDEFINED)
        return llm_value_list(j, LLM_LIST_GENERATOR, 0, out);
    CLV_TRY(dict_items(j, v, out));
    out->list->kind = LLM_LIST_GENERATOR;
    return CLV_OK;
}

static clv_status dictsort(llm_jinja *j, const llm_value *v,
                           const llm_args *args, llm_value *out)
{
    CLV_TRY(llm_args_check(j, args, "case_sensitive|by|reverse", 0));
    const llm_value *by = llm_arg(args, 1, "by");
    const bool with_case =
        llm_arg_truth(llm_arg(args, 0, "case_sensitive"), false);
    const bool by_value =
        by && by->type == LLM_V_TEXT && llm_text_equal(by->text, "value");
    if (by && !by_value &&
        !(by->type == LLM_V_TEXT && llm_text_equal(by->text, "key")))
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "dictsort is by 'key' or 'value'");
    CLV_TRY(dict_items(j, v, out));
    llm_list *list = out->list;
    list->kind = LLM_LIST_PLAIN;
    llm_value *keys = llm_jinja_alloc(j, list->n, sizeof *keys);
    if (!keys)
        return CLV_ERR_LIMIT;
    for (uint64_t i = 0; i < list->n; i++)
        CLV_TRY(sort_key(j, &list->items[i].list->items[by_value], NULL,
                         with_case, &keys[i]));
    return sort_by(j, list->items, keys, list->n,
                   llm_arg_truth(llm_arg(args, 2, "reverse"), false));
}

static clv_status unique(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    const llm_list *list;
    CLV_TRY(llm_args_check(j, args, "case_sensitive|attribute", 0));
    const bool with_case =
        llm_arg_truth(llm_arg(args, 0, "case_sensitive"), false);
    CLV_TRY(llm_value_iterate(j, v, &list));
    CLV_TRY(llm_value_list(j, LLM_LIST_GENERATOR, list->n, out));
    llm_value seen, key, *found;
    CLV_TRY(llm_value_dict(j, LLM_V_DICT, &seen));
    for (uint64_t i = 0; i < list->n; i++) {
        CLV_TRY(sort_key(j, &list->items[i], llm_arg(args, 1, "attribute"),
                         with_case, &key));
        CLV_TRY(llm_dict_find(j, seen.dict, &key, &found));
        if (found)
            continue;
        CLV_TRY(llm_dict_set(j, seen.dict, &key, &key));
        out->list->items[out->list->n++] = list->items[i];
    }
    return CLV_OK;
}

/* The least or the greatest. */
static clv_status extreme(llm_jinja *j, const llm_value *v,
                          const llm_args *args, int sign, llm_value *out)
{
    const llm_list *list;
    llm_value best = {0}, key;
    int order;
    CLV_TRY(llm_args_check(j, args, "case_sensitive|attribute", 0));
    const bool with_case =
        llm_arg_truth(llm_arg(args, 0, "case_sensitive"), false);
    CLV_TRY(llm_value_iterate(j, v, &list));
    *out = (llm_value){0};
    for (uint64_t i = 0; i < list->n; i++) {
        CLV_TRY(sort_key(j, &list->items[i], llm_arg(args, 1, "attribute"),
                         with_case, &key));
        if (i)
            CLV_TRY(llm_value_compare(j, &key, &best, &order));
        if (i && order * sign <= 0)
            continue;
        best = key;
        *out = list->items[i];
    }
    return CLV_OK;
}

static clv_status min(llm_jinja *j, const llm_value *v, const llm_args *args,
                      llm_value *out)
{
    return extreme(j, v, args, -1, out);
}

static clv_status max(llm_jinja *j, const llm_value *v, const llm_args *args,
                      llm_value *out)
{
    return extreme(j, v, args, 1, out);
}

static clv_status sum(llm_jinja *j, const llm_value *v, const llm_args *args,
                      llm_value *out)
{
    const llm_list *list;
    llm_value item, total = llm_value_int(0);
    CLV_TRY(llm_args_check(j, args, "attribute|start", 0));
    const llm_value *attribute = llm_arg(args, 0, "attribute");
    const llm_value *start = llm_arg(args, 1, "start");
    if (start)
        total = *start;
    CLV_TRY(llm_value_iterate(j, v, &list));
    for (uint64_t i = 0; i < list->n; i++) {
        item = list->items[i];
        if (attribute && attribute->type != LLM_V_NONE)
            CLV_TRY(llm_op_path(j, &list->items[i], attribute, NULL, &item));
        if (total.type == LLM_V_TEXT)
            return llm_jinja_error(j, CLV_ERR_INVALID, "sum takes no texts");
        const llm_value before = total;
        CLV_TRY(llm_op_binary(j, LLM_OP_ADD, &before, &item, &total));
    }
    *out = total;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status join(llm_jinja *j, const llm_value *v, const llm_args *args,
                       llm_value *out)
{
    const llm_list *list;
    llm_value item;
    CLV_TRY(llm_args_check(j, args, "d|attribute", 0));
    const llm_value *separator = llm_arg(args, 0, "d");
    const llm_value *attribute = llm_arg(args, 1, "attribute");
    CLV_TRY(llm_value_iterate(j, v, &list));
    const uint64_t begin = llm_text_begin(j);
    for (uint64_t i = 0; i < list->n; i++) {
        item = list->items[i];
        if (attribute && attribute->type != LLM_V_NONE)
            CLV_TRY(llm_op_path(j, &list->items[i], attribute, NULL, &item));
        if (i && separator)
            CLV_TRY(llm_print(j, separator));
        CLV_TRY(llm_print(j, &item));
    }
    return llm_text_end_value(j, begin, out);
}

static clv_status list_filter(llm_jinja *j, const llm_value *v,
                              const llm_args *args, llm_value *out)
{
    CLV_TRY(llm_args_check(j, args, "", 0));
    return copy_list(j, v, LLM_LIST_PLAIN, out);
}

static clv_status reverse(llm_jinja *j, const llm_value *v,
                          const llm_args *args, llm_value *out)
{
    const llm_list *list;
    const bool text = v->type == LLM_V_TEXT;
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(llm_value_iterate(j, v, &list));
    const uint64_t begin = llm_text_begin(j);
    for (uint64_t i = list->n; text && i-- > 0;)
        CLV_TRY(llm_text_add(j, list->items[i].text));
    if (text)
        return llm_text_end_value(j, begin, out);
    CLV_TRY(llm_value_list(j, LLM_LIST_GENERATOR, list->n, out));
    for (uint64_t i = list->n; i-- > 0;)
        out->list->items[out->list->n++] = list->items[i];
    return CLV_OK;
}

static clv_status first(llm_jinja *j, const llm_value *v, const llm_args *args,
                        llm_value *out)
{
    const llm_list *list;
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(llm_value_iterate(j, v, &list));
    *out = list->n ? list->items[0] : (llm_value){0};
    return CLV_OK;
}

static clv_status last(llm_jinja *j, const llm_value *v, const llm_args *args,
                       llm_value *out)
{
    const llm_list *list;
    CLV_TRY(llm_args_check(j, args, "", 0));
    if (v->type == LLM_V_LIST && v->list->kind == LLM_LIST_GENERATOR)
        return llm_jinja_error(j, CLV_ERR_INVALID, "a generator has no last");
    CLV_TRY(llm_value_iterate(j, v, &list));
    *out = list->n ? list->items[list->n - 1] : (llm_value){0};
    return CLV_OK;
}

const llm_method llm_list_filters[] = {
    {"sort", sort},
    {"dictsort", dictsort},
    {"items", items},
    {"unique", unique},
    {"min", min},
    {"max", max},
    {"sum", sum},
    {"join", join},
    {"list", list_filter},
    {"reverse", reverse},
    {"first", first},
    {"last", last},
    {0},
};
