#include "config.h"

#include "../base/names.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KEY 48

static bool parse_int(const char *text, int64_t *out)
{
    if (text[strspn(text, "0123456789+-")])
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && !*end && !errno;
}

/* Independent of the process's locale. */
static bool parse_float(const char *text, double *out)
{
    if (text[strspn(text, "0123456789+-.eE")])
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    char *end;
    *out = strtod_l(text, &end, c);
    freelocale(c);
    return end != text && !*end && isfinite(*out);
}

static bool parse_bool(const char *text, bool *out)
{
    static const char *const words[2][4] = {{"off", "false", "no", "0"},
                                            {"on", "true", "yes", "1"}};
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < 4; i++)
            if (!strcmp(text, words[v][i])) {
                *out = v;
                return true;
            }
    return false;
}

uint32_t core_option_choice(const char *choices, const char *value)
{
    const char *item;
    size_t n;
    for (uint32_t i = 0; core_next_item(&choices, "|", &item, &n); i++)
        if (core_item_is(item, n, value))
            return i;
    return UINT32_MAX;
}

static bool in_range(const clv_option *option, double value)
{
    return !(option->min < option->max) ||
           (value >= option->min && value <= option->max);
}

clv_status core_option_check(const clv_option *option, const char *value)
{
    int64_t i;
    double f;
    bool b;
    switch (option->type) {
    case CLV_OPTION_INT:
        if (!parse_int(value, &i))
            return clv_error(CLV_ERR_FORMAT, "'%s' is no integer", value);
        f = (double)i;
        break;
    case CLV_OPTION_FLOAT:
        if (!parse_float(value, &f))
            return clv_error(CLV_ERR_FORMAT, "'%s' is no number", value);
        break;
    case CLV_OPTION_BOOL:
        if (!parse_bool(value, &b))
            return clv_error(CLV_ERR_FORMAT, "'%s' is neither on nor off",
                             value);
        return CLV_OK;
    case CLV_OPTION_ENUM:
        if (core_option_choice(option->choices, value) == UINT32_MAX)
            return clv_error(CLV_ERR_FORMAT, "'%s' is none of %s", value,
                             option->choices);
        return CLV_OK;
    default:
        return CLV_OK;
    }
    if (!in_range(option, f))
        return clv_error(CLV_ERR_FORMAT, "%s is not in %.15g..%.15g", value,
                         option->min, option->max);
    return CLV_OK;
}

clv_status core_options_check(const char *section, const clv_option *options,
                              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const clv_option *o = &options[i];
        const char *wrong = NULL;
        if (!o->key || !core_name_ok(o->key, MAX_KEY))
            return clv_error(CLV_ERR_INVALID,
                             "option %u of section [%s] has no proper name", i,
                             section);
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(options[j].key, o->key) && options[j].scope == o->scope)
                wrong = "is declared twice";
        if (!o->default_value || !o->help)
            wrong = "has no default value or no help";
        else if (o->type < CLV_OPTION_INT || o->type > CLV_OPTION_ENUM)
            wrong = "has an unknown type";
        else if (o->scope > CLV_SCOPE_DEVICE)
            wrong = "has an unknown scope";
        else if (o->type == CLV_OPTION_ENUM && !o->choices)
            wrong = "has no choices";
        if (wrong)
            return clv_error(CLV_ERR_INVALID, "option %s.%s %s", section,
                             o->key, wrong);
        clv_status st = core_option_check(o, o->default_value);
        if (st != CLV_OK)
            return clv_error(CLV_ERR_INVALID, "option %s.%s: its default: %s",
                             section, o->key, clv_last_error());
    }
    return CLV_OK;
}

int64_t core_option_int(const char *value)
{
    int64_t i = 0;
    return parse_int(value, &i) ? i : 0;
}

double core_option_float(const char *value)
{
    double f = 0;
    return parse_float(value, &f) ? f : 0;
}

bool core_option_bool(const char *value)
{
    bool b = false;
    return parse_bool(value, &b) && b;
}
