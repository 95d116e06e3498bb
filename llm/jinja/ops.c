#include "ops.h"

#include "format.h"
#include "print.h"
#include "text.h"

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
