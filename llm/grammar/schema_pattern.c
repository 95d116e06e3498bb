/* Regular expressions of a subset: characters, '.', classes, \d \w \s and their
 * like, groups, '|', and repetitions, between '^' and '$'. */
#include "schema_internal.h"

#include "../base/utf8.h"

#include <string.h>

/* What no character of a JSON string is unescaped. */
#define NOT_PLAIN "\"\\\\\\x00-\\x1F\\x7F"

typedef struct reader {
    llm_writer *w;
    const char *at, *end;
    uint32_t depth;
} reader;

static uint32_t next_point(reader *r)
{
    const uint32_t size = llm_utf8_size(r->at, (uint64_t)(r->end - r->at));
    const uint32_t point =
        size ? llm_utf8_decode(r->at, size) : (uint8_t)*r->at;
    r->at += size ? size : 1;
    return point;
}

/* A character as it stands in a JSON string. */
static void put_char(reader *r, uint32_t point)
{
    if (point == '"' || point == '\\')
        llm_put(r->w, "\"\\\\%s\" ", point == '"' ? "\\\"" : "\\\\");
    else if (point == '\n' || point == '\t' || point == '\r')
        llm_put(r->w, "\"\\\\%c\" ",
                point == '\n'   ? 'n'
                : point == '\t' ? 't'
                                : 'r');
    else {
        llm_put(r->w, "\"");
        llm_put_point(r->w, point);
        llm_put(r->w, "\" ");
    }
}

/* The class of an escape without brackets, or NULL. */
static const char *class_of(char letter)
{
    return letter == 'd'   ? "0-9"
           : letter == 'w' ? "0-9A-Za-z_"
           : letter == 's' ? " "
                           : NULL;
}

/* The character of an escape that is none of those; 0: unknown. */
static uint32_t escaped(char c)
{
    if (c == 'n' || c == 't' || c == 'r')
        return c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
    return strchr("\\/.^$|?*+()[]{}-\"'", c) ? (uint32_t)c : 0;
}

/* The characters of low..high that stand unescaped in a JSON string. */
static void put_plain(reader *r, uint32_t low, uint32_t high)
{
    static const uint32_t escaped_ones[] = {'"', '\\', 0x7f, UINT32_MAX};
    low = low < 0x20 ? 0x20 : low;
    for (uint32_t i = 0; low <= high && i < 4; i++) {
        const uint32_t hole = escaped_ones[i];
        const uint32_t end = hole <= high ? hole - 1 : high;
        if (hole < low)
            continue;
        if (low <= end) {
            llm_put_point(r->w, low);
            llm_put(r->w, "-");
            llm_put_point(r->w, end);
        }
        low = hole == UINT32_MAX ? hole : hole + 1;
    }
}

/* One character of a class; *letters instead for \d and the like. */
static const char *read_class_char(reader *r, uint32_t *point,
                                   const char **letters)
{
    *letters = NULL;
    if (r->at >= r->end)
        return "a class without ']'";
    *point = next_point(r);
    if (*point != '\\')
        return NULL;
    *letters = class_of(*r->at);
    *point = *letters || !*r->at ? 0 : escaped(*r->at);
    if (!*letters && !*point)
        return "an escape other than \\d \\w \\s \\n \\t \\r";
    r->at++;
    return NULL;
}

static const char *put_class(reader *r)
{
    bool quote = false, backslash = false;
    r->at++;
    const bool except = *r->at == '^';
    r->at += except;
    llm_put(r->w, except ? "([^" NOT_PLAIN : "([");
    while (*r->at != ']') {
        uint32_t low, high;
        const char *letters, *none;
        const char *problem = read_class_char(r, &low, &letters);
        if (problem)
            return problem;
        if (letters) {
            llm_put(r->w, "%s", letters);
            continue;
        }
        high = low;
        if (*r->at == '-' && r->at[1] != ']') {
            r->at++;
            problem = read_class_char(r, &high, &none);
            if (problem || none || high < low)
                return problem ? problem : "a class with a range to nothing";
        }
        put_plain(r, low, high);
        quote |= low <= '"' && high >= '"';
        backslash |= low <= '\\' && high >= '\\';
    }
    r->at++;
    /* A negated class stands for unescaped characters only. */
    llm_put(r->w, "]%s%s) ", quote && !except ? " | \"\\\\\\\"\"" : "",
            backslash && !except ? " | \"\\\\\\\\\"" : "");
    return NULL;
}

static const char *put_bounds(reader *r)
{
    const char *end = strchr(r->at, '}');
    const size_t n = end ? (size_t)(end - r->at) + 1 : 0;
    if (!n || strspn(r->at + 1, "0123456789,") != n - 2)
        return "a repetition that is not {m}, {m,} or {m,n}";
    llm_put(r->w, "%.*s ", (int)n, r->at);
    r->at += n;
    return NULL;
}

static const char *put_choices(reader *r);

static const char *put_group(reader *r)
{
    if (++r->depth > 32)
        return "groups nested more than 32 deep";
    r->at++;
    if (*r->at == '?') {
        if (r->at[1] != ':')
            return "a group with '(?' other than '(?:'";
        r->at += 2;
    }
    llm_put(r->w, "(");
    const char *problem = put_choices(r);
    if (problem)
        return problem;
    if (*r->at != ')')
        return "a group without ')'";
    r->at++;
    r->depth--;
    llm_put(r->w, ") ");
    return NULL;
}

static const char *put_escape(reader *r)
{
    const char c = r->at[1];
    const char *letters = c ? class_of(c) : NULL;
    const uint32_t point = c ? escaped(c) : 0;
    if (!letters && !point)
        return "an escape other than \\d \\w \\s \\n \\t \\r";
    r->at += 2;
    if (letters)
        llm_put(r->w, "[%s] ", letters);
    else
        put_char(r, point);
    return NULL;
}

static const char *put_atom(reader *r)
{
    switch (*r->at) {
    case '(':
        return put_group(r);
    case '[':
        return put_class(r);
    case '\\':
        return put_escape(r);
    case '.':
        r->at++;
        llm_put(r->w, "[^" NOT_PLAIN "] ");
        return NULL;
    case '^':
    case '$':
        return "'^' or '$' inside the pattern";
    case '*':
    case '+':
    case '?':
    case '{':
        return "a repetition of nothing";
    }
    put_char(r, next_point(r));
    return NULL;
}

static const char *put_choices(reader *r)
{
    while (r->at < r->end && *r->at != ')') {
        const char *problem = NULL;
        if (*r->at == '|') {
            llm_put(r->w, "| ");
            r->at++;
            continue;
        }
        problem = put_atom(r);
        if (problem)
            return problem;
        if (r->at < r->end && strchr("*+?", *r->at))
            llm_put(r->w, "%c ", *r->at++);
        else if (r->at < r->end && *r->at == '{')
            problem = put_bounds(r);
        if (problem)
            return problem;
        if (r->at < r->end && strchr("*+?", *r->at))
            return "a lazy or possessive repetition";
    }
    return NULL;
}

const char *llm_put_pattern(llm_writer *w, const char *pattern)
{
    const size_t n = strlen(pattern);
    /* A '$' with an odd number of backslashes before it is a character. */
    size_t backslashes = 0;
    while (n >= 2 && backslashes + 2 <= n &&
           pattern[n - 2 - backslashes] == '\\')
        backslashes++;
    if (n < 2 || *pattern != '^' || pattern[n - 1] != '$' || backslashes % 2)
        return "a pattern that is not between '^' and '$'";
    reader r = {.w = w, .at = pattern + 1, .end = pattern + n - 1};
    llm_put(w, "(");
    const char *problem = put_choices(&r);
    if (!problem && r.at < r.end)
        problem = "')' without a group";
    llm_put(w, ")");
    return problem;
}
