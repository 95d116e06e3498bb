/* Filters that make numbers. */
#include "callables.h"
#include "ops.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

const llm_method llm_number_filters[] = {
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round_number},
    {0},
};
