/* Filters of single values, and how filters are found. */
#include "callables.h"
#include "eval.h"
#include "format.h"
#include "ops.h"
#include "parts.h"
#include "print.h"
#include "text.h"

#include <string.h>

/* A filter that is a method of the value's text. */
static clv_status by_method(llm_jinja *j, const llm_value *v,
                            const llm_args *args, llm_method_fn method,
                            llm_value *out)
{
    llm_text text;
    CLV_TRY(llm_print_text(j, v, &text));
    const llm_value self = llm_value_text(text);
    return method(j, &self, args, out);
}

static clv_status upper(llm_jinja *j, const llm_value *v, const llm_args *args,
                        llm_value *out)
{
    return by_method(j, v, args, llm_text_upper, out);
}

static clv_status lower(llm_jinja *j, const llm_value *v, const llm_args *args,
                        llm_value *out)
{
    return by_method(j, v, args, llm_text_lower, out);
}

static clv_status capitalize(llm_jinja *j, const llm_value *v,
                             const llm_args *args, llm_value *out)
{
    return by_method(j, v, args, llm_text_capitalize, out);
}

static clv_status trim(llm_jinja *j, const llm_value *v, const llm_args *args,
                       llm_value *out)
{
    return by_method(j, v, args,
                     llm_method_find(llm_text_methods, llm_str_of("strip")),
                     out);
}

static bool separates_words(uint32_t p)
{
    return p == '-' || p == '(' || p == '{' || p == '[' || p == '<' ||
           llm_text_is_space(p);
}

/* Unlike the method: words begin behind spaces, dashes and brackets only. */
static clv_status title(llm_jinja *j, const llm_value *v, const llm_args *args,
                        llm_value *out)
{
    llm_text text;
    bool inside = false;
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(llm_print_text(j, v, &text));
    const uint64_t begin = llm_text_begin(j);
    for (uint64_t at = 0, next; at < text.size; at = next) {
        next = llm_text_next(text, at);
        CLV_TRY(llm_text_add_case(j, llm_text_part(text, at, next),
                                  inside ? LLM_CASE_LOWER : LLM_CASE_UPPER));
        inside = !separates_words(llm_text_point(text, at));
    }
    return llm_text_end_value(j, begin, out);
}

static clv_status string(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    llm_text text;
    CLV_TRY(llm_args_check(j, args, "", 0));
    if (v->type == LLM_V_TEXT) {
        *out = *v;
        return CLV_OK;
    }
    CLV_TRY(llm_print_text(j, v, &text));
    *out = llm_value_text(text);
    return CLV_OK;
}

static clv_status safe(llm_jinja *j, const llm_value *v, const llm_args *args,
                       llm_value *out)
{
    CLV_TRY(string(j, v, args, out));
    out->markup = true;
    return CLV_OK;
}

static clv_status default_value(llm_jinja *j, const llm_value *v,
                                const llm_args *args, llm_value *out)
{
    CLV_TRY(llm_args_check(j, args, "default_value|boolean", 0));
    const llm_value *fallback = llm_arg(args, 0, "default_value");
    const bool by_truth = llm_arg_truth(llm_arg(args, 1, "boolean"), false);
    *out = *v;
    if (v->type == LLM_V_UNDEFINED || (by_truth && !llm_value_truth(v)))
        *out = fallback ? *fallback : llm_value_word("");
    return CLV_OK;
}

static clv_status length(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    uint64_t n = 0;
    CLV_TRY(llm_args_check(j, args, "", 0));
    if (v->type == LLM_V_TEXT)
        n = llm_text_length(v->text);
    else if (v->type == LLM_V_DICT)
        n = v->dict->n;
    else if (v->type == LLM_V_LIST && v->list->kind != LLM_LIST_GENERATOR)
        n = v->list->n;
    else if (v->type != LLM_V_UNDEFINED)
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s has no length",
                               llm_value_kind(v));
    CLV_TRY(llm_jinja_work(j, v->type == LLM_V_TEXT ? v->text.size / 64 : 0));
    *out = llm_value_int((int64_t)n);
    return CLV_OK;
}

static clv_status replace(llm_jinja *j, const llm_value *v,
                          const llm_args *args, llm_value *out)
{
    llm_text text, from, to;
    int64_t most;
    CLV_TRY(llm_args_check(j, args, "old|new|count", 2));
    CLV_TRY(llm_print_text(j, v, &text));
    CLV_TRY(llm_print_text(j, llm_arg(args, 0, "old"), &from));
    CLV_TRY(llm_print_text(j, llm_arg(args, 1, "new"), &to));
    CLV_TRY(llm_arg_int(j, llm_arg(args, 2, "count"), -1, &most));
    return llm_text_replace(j, text, from, to, most, out);
}

static clv_status indent(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    llm_text width, text;
    llm_value lines;
    int64_t n = 4;
    CLV_TRY(llm_args_check(j, args, "width|first|blank", 0));
    const llm_value *by = llm_arg(args, 0, "width");
    const bool first = llm_arg_truth(llm_arg(args, 1, "first"), false);
    const bool blank = llm_arg_truth(llm_arg(args, 2, "blank"), false);
    if (v->type != LLM_V_TEXT)
        return llm_jinja_error(j, CLV_ERR_INVALID, "indent takes a text");
    const uint64_t begin = llm_text_begin(j);
    if (by && by->type == LLM_V_TEXT)
        CLV_TRY(llm_text_add(j, by->text));
    else
        CLV_TRY(llm_arg_int(j, by, 4, &n));
    for (; n > 0 && !(by && by->type == LLM_V_TEXT); n--)
        CLV_TRY(llm_text_add_word(j, " "));
    CLV_TRY(llm_text_end(j, begin, &width));
    CLV_TRY(llm_text_add(j, v->text));
    CLV_TRY(llm_text_add_word(j, "\n"));
    CLV_TRY(llm_text_end(j, begin, &text));
    CLV_TRY(llm_text_lines(j, text, false, &lines));
    for (uint64_t i = 0; i < lines.list->n; i++) {
        const llm_text line = lines.list->items[i].text;
        if (i)
            CLV_TRY(llm_text_add_word(j, "\n"));
        if (i ? line.size || blank : first)
            CLV_TRY(llm_text_add(j, width));
        CLV_TRY(llm_text_add(j, line));
    }
    return llm_text_end_value(j, begin, out);
}

static clv_status format(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    llm_text text;
    llm_value tuple;
    if (args->n_named)
        return llm_jinja_unknown(j, "a format by names");
    CLV_TRY(llm_print_text(j, v, &text));
    CLV_TRY(llm_value_list(j, LLM_LIST_TUPLE, args->n, &tuple));
    for (uint64_t i = 0; i < args->n; i++)
        tuple.list->items[tuple.list->n++] = args->items[i];
    return llm_format(j, text, &tuple, out);
}

/* ------------------------------------------------------------------------ */

static clv_status json_indent(llm_jinja *j, const llm_value *by,
                              llm_json_style *style)
{
    const uint64_t begin = llm_text_begin(j);
    int64_t n;
    style->indented = by && by->type != LLM_V_NONE;
    if (!style->indented)
        return CLV_OK;
    style->comma.size = 1;
    if (by->type == LLM_V_TEXT) {
        style->indent = by->text;
        return CLV_OK;
    }
    CLV_TRY(llm_arg_int(j, by, 0, &n));
    for (; n > 0; n--)
        CLV_TRY(llm_text_add_word(j, " "));
    return llm_text_end(j, begin, &style->indent);
}

static clv_status tojson(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    llm_json_style style = {.comma = {", ", NULL, 2}, .colon = {": ", NULL, 2}};
    CLV_TRY(
        llm_args_check(j, args, "ensure_ascii|indent|separators|sort_keys", 0));
    style.ascii = llm_arg_truth(llm_arg(args, 0, "ensure_ascii"), false);
    style.sorted = llm_arg_truth(llm_arg(args, 3, "sort_keys"), false);
    CLV_TRY(json_indent(j, llm_arg(args, 1, "indent"), &style));
    const llm_value *pair = llm_arg(args, 2, "separators");
    if (pair && pair->type != LLM_V_NONE) {
        if (pair->type != LLM_V_LIST || pair->list->n != 2)
            return llm_jinja_error(j, CLV_ERR_INVALID,
                                   "separators are two texts");
        CLV_TRY(llm_arg_text(j, &pair->list->items[0], &style.comma));
        CLV_TRY(llm_arg_text(j, &pair->list->items[1], &style.colon));
    }
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_print_json(j, v, &style));
    return llm_text_end_value(j, begin, out);
}

static clv_status attr(llm_jinja *j, const llm_value *v, const llm_args *args,
                       llm_value *out)
{
    llm_text name;
    bool found;
    CLV_TRY(llm_args_check(j, args, "name", 1));
    CLV_TRY(llm_arg_text(j, llm_arg(args, 0, "name"), &name));
    if (v->type == LLM_V_NAMESPACE)
        return llm_op_attribute(j, v, llm_text_str(name), out);
    if (v->type == LLM_V_UNDEFINED)
        return llm_jinja_unknown(j, "attr of an undefined value");
    return llm_member(j, v, llm_text_str(name), &found, out);
}

const llm_method llm_value_filters[] = {
    {"upper", upper},
    {"lower", lower},
    {"title", title},
    {"capitalize", capitalize},
    {"trim", trim},
    {"string", string},
    {"safe", safe},
    {"default", default_value},
    {"d", default_value},
    {"length", length},
    {"count", length},
    {"replace", replace},
    {"indent", indent},
    {"format", format},
    {"tojson", tojson},
    {"attr", attr},
    {0},
};

static llm_method_fn find(llm_str name)
{
    static const llm_method *const tables[] = {
        llm_value_filters, llm_number_filters, llm_list_filters,
        llm_item_filters};
    llm_method_fn found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++)
        found = llm_method_find(tables[i], name);
    return found;
}

bool llm_filter_exists(llm_str name)
{
    return find(name);
}

clv_status llm_filter(llm_jinja *j, llm_str name, const llm_value *v,
                      const llm_args *args, llm_value *out)
{
    const llm_method_fn filter = find(name);
    CLV_TRY(llm_jinja_work(j, 1));
    if (!filter)
        return llm_jinja_unknown(j, "filter '%s'", llm_str_show(name).text);
    const bool markup = v->type == LLM_V_TEXT && v->markup;
    if (markup && filter != safe && filter != string && filter != length &&
        filter != default_value)
        return llm_jinja_unknown(j, "filter '%s' after 'safe'",
                                 llm_str_show(name).text);
    const llm_value from = *v;
    return filter(j, &from, args, out);
}
