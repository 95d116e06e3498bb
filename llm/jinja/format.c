#include "format.h"

#include "print.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One conversion, "%-5.2f". */
typedef struct spec {
    bool left, zero;
    int width, precision; /* -1: not given */
    char conversion;
} spec;

typedef struct format_args {
    const llm_value *items;
    uint64_t n, next;
} format_args;

static int read_digits(llm_text format, uint64_t *at)
{
    int n = 0;
    for (; *at < format.size && format.data[*at] >= '0' &&
           format.data[*at] <= '9' && n < 1000;
         (*at)++)
        n = n * 10 + (format.data[*at] - '0');
    return n;
}

/* *at: behind the percent sign, then behind the conversion. */
static clv_status read_spec(llm_jinja *j, llm_text format, uint64_t *at,
                            spec *out)
{
    *out = (spec){.precision = -1};
    for (; *at < format.size && strchr("-0", format.data[*at]); (*at)++) {
        out->left |= format.data[*at] == '-';
        out->zero |= format.data[*at] == '0';
    }
    out->width = read_digits(format, at);
    if (*at < format.size && format.data[*at] == '.') {
        (*at)++;
        out->precision = read_digits(format, at);
    }
    out->conversion = *at < format.size ? format.data[(*at)++] : 0;
    if (!out->conversion || !strchr("sdifr%", out->conversion) ||
        out->precision > 40 || out->width >= 1000 ||
        (out->conversion == 'r' && out->precision >= 0) ||
        (strchr("di", out->conversion) && out->precision >= 0) ||
        (out->conversion == '%' && (out->width || out->precision >= 0)))
        return llm_jinja_unknown(j, "such a format behind %%");
    return CLV_OK;
}

/* Adds the number or text of a conversion, without padding. */
static clv_status convert(llm_jinja *j, const spec *s, const llm_value *v)
{
    char text[400];
    double real;
    int64_t whole;
    if (s->conversion == 'r')
        return llm_print_repr(j, v);
    if (s->conversion == 's') {
        llm_text whole_text;
        CLV_TRY(llm_print_text(j, v, &whole_text));
        if (s->precision >= 0)
            whole_text = llm_text_part(
                whole_text, 0,
                llm_text_offset(whole_text, (uint64_t)s->precision));
        return llm_text_add(j, whole_text);
    }
    if (!llm_value_real_of(v, &real))
        return llm_jinja_error(j, CLV_ERR_INVALID, "a %% format takes no %s",
                               llm_value_kind(v));
    if (s->conversion == 'f')
        snprintf(text, sizeof text, "%.*f", s->precision < 0 ? 6 : s->precision,
                 real);
    else if (llm_value_whole(v, &whole))
        snprintf(text, sizeof text, "%" PRId64, whole);
    else if (real > -0x1p62 && real < 0x1p62)
        snprintf(text, sizeof text, "%" PRId64, (int64_t)real);
    else
        return llm_jinja_unknown(j, "so large a number in a %% format");
    return llm_text_add_word(j, text);
}

/* Adds a conversion, padded to its width. */
static clv_status add(llm_jinja *j, const spec *s, const llm_value *v)
{
    llm_text text;
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(convert(j, s, v));
    CLV_TRY(llm_text_end(j, begin, &text));
    const bool zero = s->zero && !s->left && strchr("dif", s->conversion);
    const int64_t pad = s->width - (int64_t)llm_text_length(text);
    if (s->left)
        CLV_TRY(llm_text_add(j, text));
    if (zero && pad > 0 && text.data[0] == '-') {
        CLV_TRY(llm_text_add_word(j, "-"));
        text = llm_text_part(text, 1, text.size);
    }
    for (int64_t i = 0; i < pad; i++)
        CLV_TRY(llm_text_add_word(j, zero ? "0" : " "));
    return s->left ? CLV_OK : llm_text_add(j, text);
}

static clv_status add_next(llm_jinja *j, llm_text format, uint64_t *at,
                           format_args *args)
{
    spec s;
    CLV_TRY(read_spec(j, format, at, &s));
    if (s.conversion == '%')
        return llm_text_add_word(j, "%");
    if (args->next == args->n)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "a %% format has too few values");
    return add(j, &s, &args->items[args->next++]);
}

clv_status llm_format(llm_jinja *j, llm_text format, const llm_value *args,
                      llm_value *out)
{
    const bool tuple =
        args->type == LLM_V_LIST && args->list->kind == LLM_LIST_TUPLE;
    format_args values = {args, 1, 0};
    if (tuple)
        values = (format_args){args->list->items, args->list->n, 0};
    const uint64_t begin = llm_text_begin(j);
    for (uint64_t at = 0; at < format.size;) {
        const llm_text percent = {"%", NULL, 1};
        const uint64_t found = llm_text_find(format, percent, at);
        const uint64_t stop = found == UINT64_MAX ? format.size : found;
        CLV_TRY(llm_text_add(j, llm_text_part(format, at, stop)));
        at = stop + 1;
        if (found != UINT64_MAX)
            CLV_TRY(add_next(j, format, &at, &values));
    }
    /* Python takes a dict, or what can be indexed, that no conversion uses. */
    if (values.next < values.n)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "a %% format has too many values");
    return llm_text_end_value(j, begin, out);
}
