#include "ops.h"

#include "callables.h"
#include "format.h"
#include "print.h"
#include "text.h"

#include <ctype.h>
#include <math.h>

static clv_status no_operator(llm_jinja *j, const llm_value *a,
                              const llm_value *b)
{
    return llm_jinja_error(j, CLV_ERR_INVALID,
                           "an operator does not take %s and %s",
                           llm_value_kind(a), llm_value_kind(b));
}

static clv_status out_of_range(llm_jinja *j)
{
    return llm_jinja_error(j, CLV_ERR_LIMIT, "an integer is out of range");
}

/* ------------------------------------------------------------------------ */
/* Numbers                                                                  */

static clv_status power(llm_jinja *j, int64_t a, int64_t b, llm_value *out)
{
    int64_t result = 1;
    if (b < 0) {
        if (!a)
            return llm_jinja_error(j, CLV_ERR_INVALID, "division by zero");
        *out = llm_value_real(pow((double)a, (double)b));
        return CLV_OK;
    }
    if (b > 64 && a != 0 && a != 1 && a != -1)
        return out_of_range(j);
    if (a == -1)
        b &= 1;
    for (; b > 0 && a != 1 && a != 0; b--)
        if (__builtin_mul_overflow(result, a, &result))
            return out_of_range(j);
    *out = llm_value_int(a == 0 && b > 0 ? 0 : result);
    return CLV_OK;
}

static clv_status whole_numbers(llm_jinja *j, llm_op op, int64_t a, int64_t b,
                                llm_value *out)
{
    int64_t result = 0;
    bool over = false;
    switch (op) {
    case LLM_OP_ADD:
        over = __builtin_add_overflow(a, b, &result);
        break;
    case LLM_OP_SUB:
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case LLM_OP_MUL:
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case LLM_OP_POW:
        return power(j, a, b, out);
    default:
        if (!b)
            return llm_jinja_error(j, CLV_ERR_INVALID, "division by zero");
        over = b == -1 && a == INT64_MIN;
        if (over)
            break;
        if (op == LLM_OP_DIV) {
            /* Larger ones than a double holds exactly would be rounded twice.
             */
            if (llabs(a) > 1ll << 53 || llabs(b) > 1ll << 53)
                return out_of_range(j);
            *out = llm_value_real((double)a / (double)b);
            return CLV_OK;
        }
        result = op == LLM_OP_FLOOR ? a / b : a % b;
        if (a % b && (a < 0) != (b < 0))
            result += op == LLM_OP_FLOOR ? -1 : b;
    }
    if (over)
        return out_of_range(j);
    *out = llm_value_int(result);
    return CLV_OK;
}

/* a modulo b with b's sign, as Python's. */
static double modulo(double a, double b)
{
    double rest = fmod(a, b);
    if (rest == 0)
        return copysign(0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Python's floor division: a hair below a whole number is not rounded up. */
static double floor_divide(double a, double b)
{
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0, a / b);
    const double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static clv_status real_numbers(llm_jinja *j, llm_op op, double a, double b,
                               llm_value *out)
{
    double result;
    if (op == LLM_OP_POW && (a < 0 || a == 0))
        return llm_jinja_unknown(j, "such a power");
    if (b == 0 && (op == LLM_OP_DIV || op == LLM_OP_FLOOR || op == LLM_OP_MOD))
        return llm_jinja_error(j, CLV_ERR_INVALID, "division by zero");
    switch (op) {
    case LLM_OP_ADD:
        result = a + b;
        break;
    case LLM_OP_SUB:
        result = a - b;
        break;
    case LLM_OP_MUL:
        result = a * b;
        break;
    case LLM_OP_DIV:
        result = a / b;
        break;
    case LLM_OP_FLOOR:
        result = floor_divide(a, b);
        break;
    case LLM_OP_MOD:
        result = modulo(a, b);
        break;
    default:
        result = pow(a, b);
    }
    if (!isfinite(result))
        return llm_jinja_error(j, CLV_ERR_LIMIT, "a float is out of range");
    *out = llm_value_real(result);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Texts and lists                                                          */

static clv_status join_texts(llm_jinja *j, llm_text a, llm_text b,
                             llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_text_add(j, a));
    CLV_TRY(llm_text_add(j, b));
    return llm_text_end_value(j, begin, out);
}

static clv_status join_lists(llm_jinja *j, const llm_list *a, const llm_list *b,
                             llm_value *out)
{
    CLV_TRY(llm_value_list(j, a->kind, a->n + b->n, out));
    llm_list *list = out->list;
    for (uint64_t i = 0; i < a->n; i++)
        list->items[list->n++] = a->items[i];
    for (uint64_t i = 0; i < b->n; i++)
        list->items[list->n++] = b->items[i];
    return CLV_OK;
}

/* v * n for a text, a list or a tuple */
static clv_status repeat(llm_jinja *j, const llm_value *v, int64_t n,
                         llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    uint64_t size;
    if (v->type == LLM_V_TEXT) {
        for (; n > 0 && v->text.size; n--)
            CLV_TRY(llm_text_add(j, v->text));
        return llm_text_end_value(j, begin, out);
    }
    if (n < 0)
        n = 0;
    if (__builtin_mul_overflow(v->list->n, (uint64_t)n, &size))
        return out_of_range(j);
    CLV_TRY(llm_value_list(j, v->list->kind, size, out));
    for (uint64_t i = 0; i < size; i++)
        out->list->items[out->list->n++] = v->list->items[i % v->list->n];
    return CLV_OK;
}

static bool is_sequence(const llm_value *v)
{
    return v->type == LLM_V_LIST && v->list->kind <= LLM_LIST_TUPLE;
}

static bool refuses_markup(const llm_value *v)
{
    return v->type == LLM_V_TEXT && v->markup;
}

clv_status llm_op_binary(llm_jinja *j, llm_op op, const llm_value *a,
                         const llm_value *b, llm_value *out)
{
    int64_t i, k;
    double x, y;
    if (refuses_markup(a) || refuses_markup(b))
        return llm_jinja_unknown(j, "an operator on the result of 'safe'");
    if (op == LLM_OP_MOD && a->type == LLM_V_TEXT)
        return llm_format(j, a->text, b, out);
    if (llm_value_whole(a, &i) && llm_value_whole(b, &k))
        return whole_numbers(j, op, i, k, out);
    if (llm_value_real_of(a, &x) && llm_value_real_of(b, &y))
        return real_numbers(j, op, x, y, out);
    if (op == LLM_OP_ADD && a->type == LLM_V_TEXT && b->type == LLM_V_TEXT)
        return join_texts(j, a->text, b->text, out);
    if (op == LLM_OP_ADD && is_sequence(a) && is_sequence(b) &&
        a->list->kind == b->list->kind)
        return join_lists(j, a->list, b->list, out);
    if (op == LLM_OP_MUL && (a->type == LLM_V_TEXT || is_sequence(a)) &&
        llm_value_whole(b, &k))
        return repeat(j, a, k, out);
    if (op == LLM_OP_MUL && (b->type == LLM_V_TEXT || is_sequence(b)) &&
        llm_value_whole(a, &i))
        return repeat(j, b, i, out);
    return no_operator(j, a, b);
}

clv_status llm_op_negate(llm_jinja *j, const llm_value *a, llm_value *out)
{
    int64_t whole;
    if (a->type == LLM_V_FLOAT) {
        *out = llm_value_real(-a->real);
        return CLV_OK;
    }
    if (!llm_value_whole(a, &whole))
        return no_operator(j, a, a);
    if (whole == INT64_MIN)
        return out_of_range(j);
    *out = llm_value_int(-whole);
    return CLV_OK;
}

clv_status llm_op_compare(llm_jinja *j, llm_op op, const llm_value *a,
                          const llm_value *b, bool *out)
{
    int order;
    if (op == LLM_OP_EQ || op == LLM_OP_NE || op >= LLM_OP_IN) {
        CLV_TRY(op >= LLM_OP_IN ? llm_value_contains(j, b, a, out)
                                : llm_value_equal(j, a, b, out));
        *out ^= op == LLM_OP_NE || op == LLM_OP_NOT_IN;
        return CLV_OK;
    }
    CLV_TRY(llm_value_compare(j, a, b, &order));
    *out = op == LLM_OP_LT   ? order < 0
           : op == LLM_OP_LE ? order <= 0
           : op == LLM_OP_GT ? order > 0
                             : order >= 0;
    return CLV_OK;
}

clv_status llm_op_concat(llm_jinja *j, const llm_value *a, const llm_value *b,
                         llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_print(j, a));
    CLV_TRY(llm_print(j, b));
    return llm_text_end_value(j, begin, out);
}

/* ------------------------------------------------------------------------ */
/* Parts                                                                    */

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
                digits = isdigit((unsigned char)key.text.data[i]);
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
