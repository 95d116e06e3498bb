/* Filters of single values, and how filters are found. */
#include "callables.h"
#include "eval.h"
#include "format.h"
#include "ops.h"
#include "print.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
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
/* Numbers                                                                  */

/* The text of a number without white space around; false: it is too long or
 * holds what Python reads and this does not: underscores, digits of other
 * scripts, infinity and NaN. */
static bool number_text(llm_text text, char out[64])
{
    text = llm_text_strip(text, NULL, true, true);
    if (text.size >= 64)
        return false;
    for (uint64_t i = 0; i < text.size; i++) {
        out[i] = text.data[i];
        if (out[i] == '_' || (uint8_t)out[i] >= 0x80)
            return false;
    }
    out[text.size] = 0;
    const char *word = out + strspn(out, "+-");
    return strcasecmp(word, "inf") && strcasecmp(word, "infinity") &&
           strcasecmp(word, "nan");
}

/* Digits with a sign; false: none. */
static bool parse_whole(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!*digits || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return !errno;
}

static bool parse_real(const char *text, double *out)
{
    char *end;
    if (!*text || strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    *out = strtod(text, &end);
    return !*end;
}

/* The number that a value is or spells; false: none. */
static clv_status read_number(llm_jinja *j, const llm_value *v, llm_value *out,
                              bool *found)
{
    char text[64];
    int64_t whole;
    double real;
    *found = llm_value_real_of(v, &real);
    *out = *v;
    if (v->type == LLM_V_UNDEFINED)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "an undefined value is no number");
    if (*found || v->type != LLM_V_TEXT)
        return CLV_OK;
    if (!number_text(v->text, text))
        return llm_jinja_unknown(j, "such a number");
    *found = true;
    if (parse_whole(text, &whole))
        *out = llm_value_int(whole);
    else if (parse_real(text, &real) && isfinite(real))
        *out = llm_value_real(real);
    else
        *found = false;
    return CLV_OK;
}

static clv_status to_int(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    bool found;
    llm_value number;
    CLV_TRY(llm_args_check(j, args, "default", 0));
    const llm_value *fallback = llm_arg(args, 0, "default");
    CLV_TRY(read_number(j, v, &number, &found));
    if (!found)
        *out = fallback ? *fallback : llm_value_int(0);
    else if (number.type != LLM_V_FLOAT)
        *out = llm_value_int(number.type == LLM_V_BOOL ? number.truth
                                                       : number.whole);
    else if (number.real > -0x1p62 && number.real < 0x1p62)
        *out = llm_value_int((int64_t)number.real);
    else
        return llm_jinja_error(j, CLV_ERR_LIMIT, "an integer is out of range");
    return CLV_OK;
}

static clv_status to_float(llm_jinja *j, const llm_value *v,
                           const llm_args *args, llm_value *out)
{
    bool found;
    double real = 0;
    llm_value number;
    CLV_TRY(llm_args_check(j, args, "default", 0));
    const llm_value *fallback = llm_arg(args, 0, "default");
    CLV_TRY(read_number(j, v, &number, &found));
    if (found)
        llm_value_real_of(&number, &real);
    *out = found || !fallback ? llm_value_real(real) : *fallback;
    return CLV_OK;
}

static clv_status absolute(llm_jinja *j, const llm_value *v,
                           const llm_args *args, llm_value *out)
{
    double real;
    int64_t whole;
    CLV_TRY(llm_args_check(j, args, "", 0));
    if (!llm_value_real_of(v, &real))
        return llm_jinja_error(j, CLV_ERR_INVALID, "abs takes no %s",
                               llm_value_kind(v));
    if (!llm_value_whole(v, &whole)) {
        *out = llm_value_real(fabs(real));
        return CLV_OK;
    }
    *out = llm_value_int(whole);
    return whole < 0 ? llm_op_negate(j, out, out) : CLV_OK;
}

static clv_status round_number(llm_jinja *j, const llm_value *v,
                               const llm_args *args, llm_value *out)
{
    char text[400];
    double real;
    int64_t digits, whole;
    CLV_TRY(llm_args_check(j, args, "precision", 0));
    CLV_TRY(llm_arg_int(j, llm_arg(args, 0, "precision"), 0, &digits));
    if (!llm_value_real_of(v, &real) || digits < 0 || digits > 15)
        return llm_jinja_unknown(j, "such a round");
    if (llm_value_whole(v, &whole)) {
        *out = llm_value_int(whole);
        return CLV_OK;
    }
    snprintf(text, sizeof text, "%.*f", (int)digits, real);
    *out = llm_value_real(strtod(text, NULL));
    return CLV_OK;
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
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round_number},
    {"tojson", tojson},
    {"attr", attr},
    {0},
};

static llm_method_fn find(llm_str name)
{
    const llm_method_fn found = llm_method_find(llm_value_filters, name);
    return found ? found : llm_method_find(llm_list_filters, name);
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
