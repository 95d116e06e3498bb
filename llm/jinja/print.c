#include "print.h"

#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* Digits and exponent of the shortest form that reads back the same. */
static void shortest(double real, char digits[32], int *exponent)
{
    char text[48];
    for (int n = 0; n < 17; n++) {
        snprintf(text, sizeof text, "%.*e", n, real);
        if (strtod(text, NULL) == real)
            break;
    }
    char *e = strchr(text, 'e');
    *exponent = atoi(e + 1);
    int n = 0;
    for (const char *p = text; p < e; p++)
        if (*p != '.')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
}

void llm_print_real(double real, char out[LLM_REAL_MAX])
{
    char digits[32];
    int exponent, at = 0;
    if (!isfinite(real)) {
        strcpy(out, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(real))
        out[at++] = '-';
    shortest(fabs(real), digits, &exponent);
    const int n = (int)strlen(digits);
    if (exponent < -4 || exponent >= 16) {
        snprintf(out + at, LLM_REAL_MAX - (size_t)at, "%c%s%se%c%02d",
                 digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        snprintf(out + at, LLM_REAL_MAX - (size_t)at, "0.%.*s%s", -exponent - 1,
                 "0000", digits);
    else if (n <= exponent + 1)
        snprintf(out + at, LLM_REAL_MAX - (size_t)at, "%s%.*s.0", digits,
                 exponent + 1 - n, "0000000000000000");
    else
        snprintf(out + at, LLM_REAL_MAX - (size_t)at, "%.*s.%s", exponent + 1,
                 digits, digits + exponent + 1);
}

static bool is_printable(uint32_t point)
{
    if (point < 0x7f)
        return point >= ' ';
    switch (utf8proc_category((utf8proc_int32_t)point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

/* Adds a printf'd escape with the mark of the character it stands for. */
static clv_status add_escape(llm_jinja *j, const char *escape, bool marked)
{
    static const char marks[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1};
    return llm_text_add(
        j, (llm_text){escape, marked ? marks : NULL, strlen(escape)});
}

/* What repr() writes for a character; false: the character itself. */
static bool repr_escape(uint32_t point, char quote, char out[16])
{
    if (point == (uint32_t)quote || point == '\\')
        snprintf(out, 16, "\\%c", (char)point);
    else if (point == '\n' || point == '\r' || point == '\t')
        snprintf(out, 16, "\\%c",
                 point == '\n'   ? 'n'
                 : point == '\r' ? 'r'
                                 : 't');
    else if (is_printable(point))
        return false;
    else
        snprintf(out, 16,
                 point < 0x100     ? "\\x%02x"
                 : point < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                 point);
    return true;
}

static clv_status repr_text(llm_jinja *j, llm_text text)
{
    const bool single = text.size && memchr(text.data, '\'', text.size);
    const bool two = text.size && memchr(text.data, '"', text.size);
    const char quote = single && !two ? '"' : '\'';
    const llm_text edge = {&quote, NULL, 1};
    CLV_TRY(llm_text_add(j, edge));
    for (uint64_t at = 0, next; at < text.size; at = next) {
        char escape[16];
        next = llm_text_next(text, at);
        if (repr_escape(llm_text_point(text, at), quote, escape))
            CLV_TRY(add_escape(j, escape, text.marks && text.marks[at]));
        else
            CLV_TRY(llm_text_add(j, llm_text_part(text, at, next)));
    }
    return llm_text_add(j, edge);
}

static clv_status repr_list(llm_jinja *j, const llm_list *list)
{
    static const char *const begin[] = {
        "[", "(", "range(", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const end[] = {"]", ")", ")", "])", "])", "])"};
    if (list->kind == LLM_LIST_GENERATOR || list->kind == LLM_LIST_RANGE)
        return llm_jinja_unknown(j, "printing a generator");
    CLV_TRY(llm_text_add_word(j, begin[list->kind]));
    for (uint64_t i = 0; i < list->n; i++) {
        if (i)
            CLV_TRY(llm_text_add_word(j, ", "));
        CLV_TRY(llm_print_repr(j, &list->items[i]));
    }
    if (list->kind == LLM_LIST_TUPLE && list->n == 1)
        CLV_TRY(llm_text_add_word(j, ","));
    return llm_text_add_word(j, end[list->kind]);
}

static clv_status repr_dict(llm_jinja *j, const llm_dict *dict)
{
    CLV_TRY(llm_text_add_word(j, "{"));
    for (uint64_t i = 0; i < dict->n; i++) {
        if (i)
            CLV_TRY(llm_text_add_word(j, ", "));
        CLV_TRY(llm_print_repr(j, &dict->keys[i]));
        CLV_TRY(llm_text_add_word(j, ": "));
        CLV_TRY(llm_print_repr(j, &dict->values[i]));
    }
    return llm_text_add_word(j, "}");
}

static clv_status print_number(llm_jinja *j, const llm_value *v)
{
    char text[LLM_REAL_MAX];
    if (v->type == LLM_V_INT)
        snprintf(text, sizeof text, "%" PRId64, v->whole);
    else
        llm_print_real(v->real, text);
    return llm_text_add_word(j, text);
}

static clv_status repr(llm_jinja *j, const llm_value *v)
{
    switch (v->type) {
    case LLM_V_UNDEFINED:
        return llm_text_add_word(j, "Undefined");
    case LLM_V_NONE:
        return llm_text_add_word(j, "None");
    case LLM_V_BOOL:
        return llm_text_add_word(j, v->truth ? "True" : "False");
    case LLM_V_INT:
    case LLM_V_FLOAT:
        return print_number(j, v);
    case LLM_V_TEXT:
        if (v->markup)
            return llm_jinja_unknown(j, "printing the result of 'safe' in a "
                                        "list");
        return repr_text(j, v->text);
    case LLM_V_LIST:
        return repr_list(j, v->list);
    case LLM_V_DICT:
        return repr_dict(j, v->dict);
    default:
        return llm_jinja_unknown(j, "printing %s", llm_value_kind(v));
    }
}

clv_status llm_print_repr(llm_jinja *j, const llm_value *v)
{
    CLV_TRY(llm_jinja_enter(j));
    clv_status status = repr(j, v);
    llm_jinja_leave(j);
    return status;
}

clv_status llm_print(llm_jinja *j, const llm_value *v)
{
    if (v->type == LLM_V_UNDEFINED)
        return CLV_OK;
    if (v->type == LLM_V_TEXT)
        return llm_text_add(j, v->text);
    return llm_print_repr(j, v);
}

clv_status llm_print_text(llm_jinja *j, const llm_value *v, llm_text *out)
{
    if (v->type == LLM_V_TEXT) {
        *out = v->text;
        return CLV_OK;
    }
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_print(j, v));
    return llm_text_end(j, begin, out);
}

/* ------------------------------------------------------------------------ */
/* JSON                                                                     */

static bool json_escape(uint32_t point, bool ascii, char out[16])
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *found = point && point < 0x80 ? strchr(from, (int)point) : NULL;
    if (found)
        snprintf(out, 16, "\\%c", to[found - from]);
    else if (point < ' ' || (ascii && point > '~' && point < 0x10000))
        snprintf(out, 16, "\\u%04x", point);
    else if (ascii && point >= 0x10000)
        snprintf(out, 16, "\\u%04x\\u%04x", 0xd7c0 + (point >> 10),
                 0xdc00 + (point & 0x3ff));
    else
        return false;
    return true;
}

static clv_status json_text(llm_jinja *j, llm_text text, bool ascii)
{
    uint64_t plain = 0; /* begin of what is copied as it is */
    CLV_TRY(llm_text_add_word(j, "\""));
    for (uint64_t at = 0, next; at < text.size; at = next) {
        char escape[16];
        next = llm_text_next(text, at);
        if (!json_escape(llm_text_point(text, at), ascii, escape))
            continue;
        CLV_TRY(llm_text_add(j, llm_text_part(text, plain, at)));
        CLV_TRY(add_escape(j, escape, text.marks && text.marks[at]));
        plain = next;
    }
    CLV_TRY(llm_text_add(j, llm_text_part(text, plain, text.size)));
    return llm_text_add_word(j, "\"");
}

static clv_status json_break(llm_jinja *j, const llm_json_style *style,
                             uint32_t level)
{
    if (!style->indented)
        return CLV_OK;
    CLV_TRY(llm_text_add_word(j, "\n"));
    while (level--)
        CLV_TRY(llm_text_add(j, style->indent));
    return CLV_OK;
}

static clv_status json_value(llm_jinja *j, const llm_value *v,
                             const llm_json_style *style, uint32_t level);

static clv_status json_list(llm_jinja *j, const llm_list *list,
                            const llm_json_style *style, uint32_t level)
{
    if (list->kind > LLM_LIST_TUPLE)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "tojson takes no generators and views");
    if (!list->n)
        return llm_text_add_word(j, "[]");
    CLV_TRY(llm_text_add_word(j, "["));
    for (uint64_t i = 0; i < list->n; i++) {
        if (i)
            CLV_TRY(llm_text_add(j, style->comma));
        CLV_TRY(json_break(j, style, level + 1));
        CLV_TRY(json_value(j, &list->items[i], style, level + 1));
    }
    CLV_TRY(json_break(j, style, level));
    return llm_text_add_word(j, "]");
}

static clv_status json_key(llm_jinja *j, const llm_value *key,
                           const llm_json_style *style)
{
    const bool plain = key->type == LLM_V_TEXT;
    if (key->type == LLM_V_LIST || key->type == LLM_V_UNDEFINED)
        return llm_jinja_error(j, CLV_ERR_INVALID, "JSON has no such keys");
    if (!plain)
        CLV_TRY(llm_text_add_word(j, "\""));
    CLV_TRY(json_value(j, key, style, 0));
    return plain ? CLV_OK : llm_text_add_word(j, "\"");
}

/* The order of the keys, which are few: by insertion. */
static clv_status key_order(llm_jinja *j, const llm_dict *dict, bool sorted,
                            uint64_t **out)
{
    uint64_t *order = llm_jinja_alloc(j, dict->n, sizeof *order);
    if (!order)
        return CLV_ERR_LIMIT;
    for (uint64_t i = 0; i < dict->n; i++) {
        uint64_t at = i;
        for (int over = 1; sorted && at > 0; at--) {
            CLV_TRY(llm_value_compare(j, &dict->keys[order[at - 1]],
                                      &dict->keys[i], &over));
            if (over <= 0)
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    *out = order;
    return CLV_OK;
}

static clv_status json_dict(llm_jinja *j, const llm_dict *dict,
                            const llm_json_style *style, uint32_t level)
{
    uint64_t *order;
    if (!dict->n)
        return llm_text_add_word(j, "{}");
    CLV_TRY(key_order(j, dict, style->sorted, &order));
    CLV_TRY(llm_text_add_word(j, "{"));
    for (uint64_t i = 0; i < dict->n; i++) {
        if (i)
            CLV_TRY(llm_text_add(j, style->comma));
        CLV_TRY(json_break(j, style, level + 1));
        CLV_TRY(json_key(j, &dict->keys[order[i]], style));
        CLV_TRY(llm_text_add(j, style->colon));
        CLV_TRY(json_value(j, &dict->values[order[i]], style, level + 1));
    }
    CLV_TRY(json_break(j, style, level));
    return llm_text_add_word(j, "}");
}

static clv_status json_any(llm_jinja *j, const llm_value *v,
                           const llm_json_style *style, uint32_t level)
{
    switch (v->type) {
    case LLM_V_NONE:
        return llm_text_add_word(j, "null");
    case LLM_V_BOOL:
        return llm_text_add_word(j, v->truth ? "true" : "false");
    case LLM_V_FLOAT:
        if (!isfinite(v->real))
            return llm_jinja_error(j, CLV_ERR_INVALID,
                                   "JSON has no infinity and no NaN");
        return print_number(j, v);
    case LLM_V_INT:
        return print_number(j, v);
    case LLM_V_TEXT:
        return json_text(j, v->text, style->ascii);
    case LLM_V_LIST:
        return json_list(j, v->list, style, level);
    case LLM_V_DICT:
        return json_dict(j, v->dict, style, level);
    default:
        return llm_jinja_error(j, CLV_ERR_INVALID, "tojson takes no %s",
                               strchr(llm_value_kind(v), ' ') + 1);
    }
}

static clv_status json_value(llm_jinja *j, const llm_value *v,
                             const llm_json_style *style, uint32_t level)
{
    CLV_TRY(llm_jinja_enter(j));
    clv_status status = json_any(j, v, style, level);
    llm_jinja_leave(j);
    return status;
}

clv_status llm_print_json(llm_jinja *j, const llm_value *v,
                          const llm_json_style *style)
{
    return json_value(j, v, style, 0);
}
