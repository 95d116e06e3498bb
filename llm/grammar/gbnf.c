#include "grammar.h"

#include "../base/array.h"
#include "../base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT (1u << 18)
#define MAX_NAMES 4096
#define MAX_ELEMENTS (1u << 18)
#define MAX_NESTING 64

/* A run of elements while it is read. */
typedef struct sequence {
    llm_element *items;
    uint64_t n, capacity;
} sequence;

typedef struct choices {
    uint32_t *items;
    uint64_t n, capacity;
} choices;

typedef struct parser {
    llm_grammar *g;
    const char *text, *at, *end;
    uint32_t rule; /* the named one that is being read; UINT32_MAX: none */
    uint32_t nesting;
    choices used_at; /* of each name, the place in the text of its first use */
    choices rule_of; /* of each name, its rule */
} parser;

/* ------------------------------------------------------------------------ */
/* Messages                                                                 */

static clv_status fail_at(const parser *p, const char *place, clv_status status,
                          const char *what)
{
    uint32_t line = 1, column = 1;
    for (const char *c = p->text; c < place; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    const bool known = p->rule < p->g->names.n;
    return clv_error(status, "grammar: line %u, column %u%s%s%s: %s", line,
                     column, known ? ", rule '" : "",
                     known ? p->g->names.items[p->rule] : "", known ? "'" : "",
                     what);
}

static clv_status fail(const parser *p, const char *what)
{
    return fail_at(p, p->at, CLV_ERR_INVALID, what);
}

/* ------------------------------------------------------------------------ */
/* Characters                                                               */

static bool more(const parser *p)
{
    return p->at < p->end;
}

static bool next_is(const parser *p, char c)
{
    return more(p) && *p->at == c;
}

/* Spaces and comments; with lines, ends of lines too. */
static void skip(parser *p, bool lines)
{
    while (more(p)) {
        if (*p->at == '#')
            while (more(p) && *p->at != '\n' && *p->at != '\r')
                p->at++;
        else if (*p->at == ' ' || *p->at == '\t' ||
                 (lines && (*p->at == '\n' || *p->at == '\r')))
            p->at++;
        else
            return;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static clv_status read_hex(parser *p, uint32_t digits, uint32_t *point)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < digits; i++, p->at++) {
        const char c = more(p) ? *p->at : 0, low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (uint32_t)(low - 'a' + 10);
        else
            return fail(p, "a hexadecimal digit is missing in an escape of 2 "
                           "(\\x), 4 (\\u) or 8 (\\U) digits");
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return fail(p, "the escape is no code point of Unicode");
    *point = value;
    return CLV_OK;
}

/* One character of a literal or class. */
static clv_status read_char(parser *p, uint32_t *point)
{
    static const char from[] = "nrt\\\"[]-^", to[] = "\n\r\t\\\"[]-^";
    if (!more(p))
        return fail(p, "the text ends inside a literal or class");
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
        return fail(p, "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ "
                       "\\] \\xHH \\uHHHH \\UHHHHHHHH");
    }
    const uint32_t size = llm_utf8_size(p->at, (uint64_t)(p->end - p->at));
    if (!size)
        return fail(p, "the text is not UTF-8 here");
    *point = llm_utf8_decode(p->at, size);
    p->at += size;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Rules                                                                    */

static clv_status add_element(parser *p, sequence *s, llm_element e)
{
    if (s->n + p->g->elements.n >= MAX_ELEMENTS)
        return fail_at(p, p->at, CLV_ERR_LIMIT,
                       "the grammar has more than 262144 elements, repetitions "
                       "written out; ask for fewer");
    return LLM_ARRAY_ADD(s, e);
}

/* Puts a run that was read behind the others, as an alternative. */
static clv_status end_alternative(parser *p, sequence *s, choices *list)
{
    const uint64_t begin = p->g->elements.n;
    CLV_TRY(add_element(p, s, (llm_element){LLM_ELEMENT_END, 0, 0}));
    for (uint64_t i = 0; i < s->n; i++)
        CLV_TRY(LLM_ARRAY_ADD(&p->g->elements, s->items[i]));
    s->n = 0;
    return LLM_ARRAY_ADD(list, (uint32_t)begin);
}

static clv_status add_rule(parser *p, uint32_t *rule)
{
    *rule = (uint32_t)p->g->rules.n;
    return LLM_ARRAY_ADD(&p->g->rules, ((llm_rule){.name = p->rule}));
}

static clv_status define(parser *p, uint32_t rule, const choices *list)
{
    llm_rule *r = &p->g->rules.items[rule];
    r->first = (uint32_t)p->g->alternatives.n;
    r->n = (uint32_t)list->n;
    for (uint64_t i = 0; i < list->n; i++)
        CLV_TRY(LLM_ARRAY_ADD(&p->g->alternatives, list->items[i]));
    return CLV_OK;
}

/* A rule of `e next | nothing`; next < 0: of `e | nothing`. */
static clv_status define_optional(parser *p, uint32_t rule, llm_element e,
                                  int64_t next)
{
    sequence s = {0};
    choices list = {0};
    clv_status status = add_element(p, &s, e);
    if (!status && next >= 0)
        status = add_element(
            p, &s, (llm_element){LLM_ELEMENT_RULE, (uint32_t)next, 0});
    if (!status)
        status = end_alternative(p, &s, &list);
    if (!status)
        status = end_alternative(p, &s, &list);
    if (!status)
        status = define(p, rule, &list);
    free(s.items);
    free(list.items);
    return status;
}

/* The rule of a name; it may not be defined yet. */
static clv_status find_name(parser *p, const char *name, uint64_t size,
                            uint32_t *index)
{
    for (uint32_t i = 0; i < p->g->names.n; i++)
        if (!strncmp(p->g->names.items[i], name, size) &&
            !p->g->names.items[i][size]) {
            *index = i;
            return CLV_OK;
        }
    if (p->g->names.n == MAX_NAMES)
        return fail_at(p, p->at, CLV_ERR_LIMIT,
                       "the grammar has more than 4096 rules");
    uint32_t rule;
    *index = (uint32_t)p->g->names.n;
    CLV_TRY(add_rule(p, &rule));
    p->g->rules.items[rule].name = *index;
    CLV_TRY(LLM_ARRAY_ADD(&p->used_at, (uint32_t)(name - p->text)));
    CLV_TRY(LLM_ARRAY_ADD(&p->rule_of, rule));
    char *copy = strndup(name, size);
    if (!copy)
        return llm_no_memory("a grammar");
    clv_status status = LLM_ARRAY_ADD(&p->g->names, copy);
    if (status)
        free(copy);
    return status;
}

static clv_status read_name(parser *p, uint32_t *index)
{
    const char *begin = p->at;
    while (more(p) && is_word(*p->at))
        p->at++;
    return find_name(p, begin, (uint64_t)(p->at - begin), index);
}

/* ------------------------------------------------------------------------ */
/* Elements                                                                 */

static clv_status read_literal(parser *p, sequence *s)
{
    p->at++;
    while (!next_is(p, '"')) {
        uint32_t point;
        CLV_TRY(read_char(p, &point));
        CLV_TRY(add_element(p, s, (llm_element){LLM_ELEMENT_CHAR, point, 0}));
    }
    p->at++;
    return CLV_OK;
}

static clv_status read_class(parser *p, sequence *s)
{
    llm_element e = {LLM_ELEMENT_CLASS, (uint32_t)p->g->ranges.n, 0};
    p->at++;
    if (next_is(p, '^')) {
        e.kind = LLM_ELEMENT_EXCEPT;
        p->at++;
    }
    while (!next_is(p, ']')) {
        llm_range range;
        CLV_TRY(read_char(p, &range.low));
        range.high = range.low;
        if (next_is(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            CLV_TRY(read_char(p, &range.high));
            if (range.high < range.low)
                return fail(p, "a range of characters ends before it begins");
        }
        if (p->g->ranges.n >= MAX_ELEMENTS)
            return fail_at(p, p->at, CLV_ERR_LIMIT,
                           "the grammar has more than 262144 ranges");
        CLV_TRY(LLM_ARRAY_ADD(&p->g->ranges, range));
        e.count++;
    }
    p->at++;
    return add_element(p, s, e);
}

static clv_status read_choices(parser *p, uint32_t rule);

static clv_status read_group(parser *p, sequence *s)
{
    uint32_t rule;
    if (++p->nesting > MAX_NESTING)
        return fail_at(
            p, p->at, CLV_ERR_LIMIT,
            "groups are nested more than 64 deep; name some of them");
    p->at++;
    CLV_TRY(add_rule(p, &rule));
    CLV_TRY(read_choices(p, rule));
    if (!next_is(p, ')'))
        return fail(p, "')' is missing");
    p->at++;
    p->nesting--;
    return add_element(p, s, (llm_element){LLM_ELEMENT_RULE, rule, 0});
}

static clv_status read_count(parser *p, uint32_t *count)
{
    uint32_t value = 0;
    const char *begin = p->at;
    for (; more(p) && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (value < MAX_ELEMENTS)
            value = value * 10 + (uint32_t)(*p->at - '0');
    if (p->at == begin)
        return fail(p,
                    "a number is missing in a repetition {m}, {m,} or {m,n}");
    *count = value;
    return CLV_OK;
}

/* high UINT32_MAX: any number. */
static clv_status read_bounds(parser *p, uint32_t *low, uint32_t *high)
{
    const char c = *p->at++;
    *low = c == '+';
    *high = c == '?' ? 1 : UINT32_MAX;
    if (c != '{')
        return CLV_OK;
    skip(p, false);
    CLV_TRY(read_count(p, low));
    *high = *low;
    skip(p, false);
    if (next_is(p, ',')) {
        p->at++;
        skip(p, false);
        *high = UINT32_MAX;
        if (!next_is(p, '}'))
            CLV_TRY(read_count(p, high));
        skip(p, false);
    }
    if (!next_is(p, '}'))
        return fail(p, "'}' is missing behind a repetition");
    if (*high < *low)
        return fail(p, "a repetition has a maximum below its minimum");
    p->at++;
    return CLV_OK;
}

/* What was read from `begin` on, as one element. */
static clv_status as_element(parser *p, sequence *s, uint64_t begin,
                             llm_element *e)
{
    if (s->n - begin == 1) {
        *e = s->items[--s->n];
        return CLV_OK;
    }
    sequence unit = {0};
    choices list = {0};
    uint32_t rule;
    clv_status status = add_rule(p, &rule);
    for (uint64_t i = begin; !status && i < s->n; i++)
        status = add_element(p, &unit, s->items[i]);
    if (!status)
        status = end_alternative(p, &unit, &list);
    if (!status)
        status = define(p, rule, &list);
    s->n = begin;
    *e = (llm_element){LLM_ELEMENT_RULE, rule, 0};
    free(unit.items);
    free(list.items);
    return status;
}

/* Repeats what was read from `begin` on. */
static clv_status repeat(parser *p, sequence *s, uint64_t begin, uint32_t low,
                         uint32_t high)
{
    llm_element e;
    uint32_t rule;
    int64_t next = -1;
    if (s->n == begin)
        return CLV_OK;
    CLV_TRY(as_element(p, s, begin, &e));
    for (uint32_t i = 0; i < low; i++)
        CLV_TRY(add_element(p, s, e));
    if (high == UINT32_MAX) {
        CLV_TRY(add_rule(p, &rule));
        CLV_TRY(define_optional(p, rule, e, rule));
        next = rule;
    }
    for (uint32_t i = low; high != UINT32_MAX && i < high; i++) {
        CLV_TRY(add_rule(p, &rule));
        CLV_TRY(define_optional(p, rule, e, next));
        next = rule;
    }
    return next < 0
               ? CLV_OK
               : add_element(
                     p, s, (llm_element){LLM_ELEMENT_RULE, (uint32_t)next, 0});
}

/* One element with its repetitions; *done at anything else. */
static clv_status read_element(parser *p, sequence *s, bool *done)
{
    const uint64_t begin = s->n;
    const char c = more(p) ? *p->at : 0;
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
        CLV_TRY(add_element(p, s, (llm_element){LLM_ELEMENT_EXCEPT, 0, 0}));
    } else if (is_word(c)) {
        CLV_TRY(read_name(p, &index));
        CLV_TRY(add_element(
            p, s, (llm_element){LLM_ELEMENT_RULE, p->rule_of.items[index], 0}));
    } else {
        *done = true;
        return CLV_OK;
    }
    for (skip(p, p->nesting > 0); more(p) && *p->at && strchr("*+?{", *p->at);
         skip(p, p->nesting > 0)) {
        CLV_TRY(read_bounds(p, &low, &high));
        CLV_TRY(repeat(p, s, begin, low, high));
    }
    return CLV_OK;
}

static clv_status read_all_choices(parser *p, sequence *s, choices *list)
{
    for (;;) {
        bool done = false;
        skip(p, true);
        while (!done) {
            CLV_TRY(read_element(p, s, &done));
        }
        CLV_TRY(end_alternative(p, s, list));
        if (!next_is(p, '|'))
            return CLV_OK;
        p->at++;
    }
}

static clv_status read_choices(parser *p, uint32_t rule)
{
    sequence s = {0};
    choices list = {0};
    clv_status status = read_all_choices(p, &s, &list);
    if (!status)
        status = define(p, rule, &list);
    free(s.items);
    free(list.items);
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status read_rule(parser *p)
{
    uint32_t name;
    p->rule = UINT32_MAX;
    if (!is_word(*p->at))
        return fail(p, "a rule is expected here, as in: name ::= \"text\"");
    const char *begin = p->at;
    CLV_TRY(read_name(p, &name));
    p->rule = name;
    skip(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3))
        return fail(p, "'::=' is missing behind the name of a rule");
    if (p->g->rules.items[p->rule_of.items[name]].n)
        return fail_at(p, begin, CLV_ERR_INVALID,
                       "the rule is there twice; keep one");
    p->at += 3;
    CLV_TRY(read_choices(p, p->rule_of.items[name]));
    if (more(p) && *p->at != '\n' && *p->at != '\r')
        return fail(p, "this does not go on with the rule; the end of the line "
                       "is expected");
    return CLV_OK;
}

/* All rules are there, and "root" is. */
static clv_status check_names(parser *p)
{
    int64_t root = -1;
    for (uint32_t i = 0; i < p->g->names.n; i++) {
        p->rule = i;
        if (!p->g->rules.items[p->rule_of.items[i]].n)
            return fail_at(p, p->text + p->used_at.items[i], CLV_ERR_INVALID,
                           "the rule is used and never defined");
        if (!strcmp(p->g->names.items[i], "root"))
            root = p->rule_of.items[i];
    }
    if (root < 0)
        return clv_error(CLV_ERR_INVALID,
                         "grammar: there is no rule 'root', with which every "
                         "text begins");
    p->g->root = (uint32_t)root;
    return CLV_OK;
}

static clv_status parse(parser *p)
{
    if (p->end - p->text > MAX_TEXT)
        return clv_error(CLV_ERR_LIMIT, "grammar: longer than %u bytes",
                         MAX_TEXT);
    for (skip(p, true); more(p); skip(p, true))
        CLV_TRY(read_rule(p));
    CLV_TRY(check_names(p));
    return llm_grammar_check_recursion(p->g);
}

clv_status llm_grammar_parse(const char *text, uint64_t size, llm_grammar **out)
{
    parser p = {.text = text,
                .at = text,
                .end = text + size,
                .rule = UINT32_MAX,
                .g = calloc(1, sizeof *p.g)};
    if (!p.g)
        return llm_no_memory("a grammar");
    clv_status status = parse(&p);
    free(p.used_at.items);
    free(p.rule_of.items);
    if (status) {
        llm_grammar_destroy(p.g);
        return status;
    }
    *out = p.g;
    return CLV_OK;
}

void llm_grammar_destroy(llm_grammar *g)
{
    if (!g)
        return;
    for (uint64_t i = 0; i < g->names.n; i++)
        free(g->names.items[i]);
    free(g->names.items);
    free(g->elements.items);
    free(g->alternatives.items);
    free(g->rules.items);
    free(g->ranges.items);
    free(g);
}
