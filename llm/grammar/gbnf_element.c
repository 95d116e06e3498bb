/* Elements: characters, classes, groups, and their repetitions. */
#include "gbnf.h"

#include "../base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 64

static clv_status read_hex(llm_gbnf *p, uint32_t digits, uint32_t *point)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < digits; i++, p->at++) {
        const char c = llm_gbnf_more(p) ? *p->at : 0, low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (uint32_t)(low - 'a' + 10);
        else
            return llm_gbnf_fail(
                p, "a hexadecimal digit is missing in an escape of 2 "
                   "(\\x), 4 (\\u) or 8 (\\U) digits");
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return llm_gbnf_fail(p, "the escape is no code point of Unicode");
    *point = value;
    return CLV_OK;
}

/* One character of a literal or class. */
static clv_status read_char(llm_gbnf *p, uint32_t *point)
{
    static const char from[] = "nrt\\\"[]-^", to[] = "\n\r\t\\\"[]-^";
    if (!llm_gbnf_more(p))
        return llm_gbnf_fail(p, "the text ends inside a literal or class");
    if (*p->at == '\\') {
        const char c = p->at + 1 < p->end ? p->at[1] : 0;
        const char *known = c ? strchr(from, c) : NULL;
        p->at += 2;
        if (known) {
            *point = (uint32_t)to[known - from];
            return CLV_OK;
        }
        if (c == 'x' || c == 'u' || c == 'U')
            return read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, point);
        p->at -= 2;
        return llm_gbnf_fail(
            p, "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ "
               "\\] \\xHH \\uHHHH \\UHHHHHHHH");
    }
    const uint32_t size = llm_utf8_size(p->at, (uint64_t)(p->end - p->at));
    if (!size)
        return llm_gbnf_fail(p, "the text is not UTF-8 here");
    *point = llm_utf8_decode(p->at, size);
    p->at += size;
    return CLV_OK;
}

/* A rule of `e next | nothing`; next < 0: of `e | nothing`. */
static clv_status define_optional(llm_gbnf *p, uint32_t rule, llm_element e,
                                  int64_t next)
{
    llm_gbnf_run s = {0};
    llm_gbnf_list list = {0};
    clv_status status = llm_gbnf_add(p, &s, e);
    if (!status && next >= 0)
        status = llm_gbnf_add(
            p, &s, (llm_element){LLM_ELEMENT_RULE, (uint32_t)next, 0});
    if (!status)
        status = llm_gbnf_end(p, &s, &list);
    if (!status)
        status = llm_gbnf_end(p, &s, &list);
    if (!status)
        status = llm_gbnf_define(p, rule, &list);
    free(s.items);
    free(list.items);
    return status;
}

static clv_status read_literal(llm_gbnf *p, llm_gbnf_run *s)
{
    p->at++;
    while (!llm_gbnf_next_is(p, '"')) {
        uint32_t point;
        CLV_TRY(read_char(p, &point));
        CLV_TRY(llm_gbnf_add(p, s, (llm_element){LLM_ELEMENT_CHAR, point, 0}));
    }
    p->at++;
    return CLV_OK;
}

static clv_status read_class(llm_gbnf *p, llm_gbnf_run *s)
{
    llm_element e = {LLM_ELEMENT_CLASS, (uint32_t)p->g->ranges.n, 0};
    p->at++;
    if (llm_gbnf_next_is(p, '^')) {
        e.kind = LLM_ELEMENT_EXCEPT;
        p->at++;
    }
    while (!llm_gbnf_next_is(p, ']')) {
        llm_range range;
        CLV_TRY(read_char(p, &range.low));
        range.high = range.low;
        if (llm_gbnf_next_is(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            CLV_TRY(read_char(p, &range.high));
            if (range.high < range.low)
                return llm_gbnf_fail(
                    p, "a range of characters ends before it begins");
        }
        if (p->g->ranges.n >= LLM_GBNF_MAX_ELEMENTS)
            return llm_gbnf_fail_at(p, p->at, CLV_ERR_LIMIT,
                                    "the grammar has more than 262144 ranges");
        CLV_TRY(LLM_ARRAY_ADD(&p->g->ranges, range));
        e.count++;
    }
    p->at++;
    return llm_gbnf_add(p, s, e);
}

static clv_status read_group(llm_gbnf *p, llm_gbnf_run *s)
{
    uint32_t rule;
    if (++p->nesting > MAX_NESTING)
        return llm_gbnf_fail_at(
            p, p->at, CLV_ERR_LIMIT,
            "groups are nested more than 64 deep; name some of them");
    p->at++;
    CLV_TRY(llm_gbnf_rule(p, &rule));
    CLV_TRY(llm_gbnf_choices(p, rule));
    if (!llm_gbnf_next_is(p, ')'))
        return llm_gbnf_fail(p, "')' is missing");
    p->at++;
    p->nesting--;
    return llm_gbnf_add(p, s, (llm_element){LLM_ELEMENT_RULE, rule, 0});
}

static clv_status read_count(llm_gbnf *p, uint32_t *count)
{
    uint32_t value = 0;
    const char *begin = p->at;
    for (; llm_gbnf_more(p) && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (value < LLM_GBNF_MAX_ELEMENTS)
            value = value * 10 + (uint32_t)(*p->at - '0');
    if (p->at == begin)
        return llm_gbnf_fail(
            p, "a number is missing in a repetition {m}, {m,} or {m,n}");
    *count = value;
    return CLV_OK;
}

/* high UINT32_MAX: any number. */
static clv_status read_bounds(llm_gbnf *p, uint32_t *low, uint32_t *high)
{
    const char c = *p->at++;
    *low = c == '+';
    *high = c == '?' ? 1 : UINT32_MAX;
    if (c != '{')
        return CLV_OK;
    llm_gbnf_skip(p, false);
    CLV_TRY(read_count(p, low));
    *high = *low;
    llm_gbnf_skip(p, false);
    if (llm_gbnf_next_is(p, ',')) {
        p->at++;
        llm_gbnf_skip(p, false);
        *high = UINT32_MAX;
        if (!llm_gbnf_next_is(p, '}'))
            CLV_TRY(read_count(p, high));
        llm_gbnf_skip(p, false);
    }
    if (!llm_gbnf_next_is(p, '}'))
        return llm_gbnf_fail(p, "'}' is missing behind a repetition");
    if (*high < *low)
        return llm_gbnf_fail(p, "a repetition has a maximum below its minimum");
    p->at++;
    return CLV_OK;
}

/* What was read from `begin` on, as one element. */
static clv_status as_element(llm_gbnf *p, llm_gbnf_run *s, uint64_t begin,
                             llm_element *e)
{
    if (s->n - begin == 1) {
        *e = s->items[--s->n];
        return CLV_OK;
    }
    llm_gbnf_run unit = {0};
    llm_gbnf_list list = {0};
    uint32_t rule;
    clv_status status = llm_gbnf_rule(p, &rule);
    for (uint64_t i = begin; !status && i < s->n; i++)
        status = llm_gbnf_add(p, &unit, s->items[i]);
    if (!status)
        status = llm_gbnf_end(p, &unit, &list);
    if (!status)
        status = llm_gbnf_define(p, rule, &list);
    s->n = begin;
    *e = (llm_element){LLM_ELEMENT_RULE, rule, 0};
    free(unit.items);
    free(list.items);
    return status;
}

/* Repeats what was read from `begin` on. */
static clv_status repeat(llm_gbnf *p, llm_gbnf_run *s, uint64_t begin,
                         uint32_t low, uint32_t high)
{
    llm_element e;
    uint32_t rule;
    int64_t next = -1;
    if (s->n == begin)
        return CLV_OK;
    CLV_TRY(as_element(p, s, begin, &e));
    for (uint32_t i = 0; i < low; i++)
        CLV_TRY(llm_gbnf_add(p, s, e));
    if (high == UINT32_MAX) {
        CLV_TRY(llm_gbnf_rule(p, &rule));
        CLV_TRY(define_optional(p, rule, e, rule));
        next = rule;
    }
    for (uint32_t i = low; high != UINT32_MAX && i < high; i++) {
        CLV_TRY(llm_gbnf_rule(p, &rule));
        CLV_TRY(define_optional(p, rule, e, next));
        next = rule;
    }
    return next < 0
               ? CLV_OK
               : llm_gbnf_add(
                     p, s, (llm_element){LLM_ELEMENT_RULE, (uint32_t)next, 0});
}

/* One element with its repetitions; *done at anything else. */
static clv_status read_element(llm_gbnf *p, llm_gbnf_run *s, bool *done)
{
    const uint64_t begin = s->n;
    const char c = llm_gbnf_more(p) ? *p->at : 0;
    uint32_t index, low, high;
    *done = false;
    if (c == '"') {
        CLV_TRY(read_literal(p, s));
    } else if (c == '[') {
        CLV_TRY(read_class(p, s));
    } else if (c == '(') {
        CLV_TRY(read_group(p, s));
    } else if (c == '.') {
        p->at++;
        CLV_TRY(llm_gbnf_add(p, s, (llm_element){LLM_ELEMENT_EXCEPT, 0, 0}));
    } else if (llm_gbnf_is_word(c)) {
        CLV_TRY(llm_gbnf_name(p, &index));
        CLV_TRY(llm_gbnf_add(
            p, s, (llm_element){LLM_ELEMENT_RULE, p->rule_of.items[index], 0}));
    } else {
        *done = true;
        return CLV_OK;
    }
    for (llm_gbnf_skip(p, p->nesting > 0);
         llm_gbnf_more(p) && *p->at && strchr("*+?{", *p->at);
         llm_gbnf_skip(p, p->nesting > 0)) {
        CLV_TRY(read_bounds(p, &low, &high));
        CLV_TRY(repeat(p, s, begin, low, high));
    }
    return CLV_OK;
}

static clv_status read_all_choices(llm_gbnf *p, llm_gbnf_run *s,
                                   llm_gbnf_list *list)
{
    for (;;) {
        bool done = false;
        llm_gbnf_skip(p, true);
        while (!done) {
            CLV_TRY(read_element(p, s, &done));
        }
        CLV_TRY(llm_gbnf_end(p, s, list));
        if (!llm_gbnf_next_is(p, '|'))
            return CLV_OK;
        p->at++;
    }
}

clv_status llm_gbnf_choices(llm_gbnf *p, uint32_t rule)
{
    llm_gbnf_run s = {0};
    llm_gbnf_list list = {0};
    clv_status status = read_all_choices(p, &s, &list);
    if (!status)
        status = llm_gbnf_define(p, rule, &list);
    free(s.items);
    free(list.items);
    return status;
}
