#include "lexer.h"

#include "escape.h"
#include "text.h"

#include "../base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct lexer {
    const char *at, *end;
    uint32_t line;
    bool line_starts; /* what comes is at the start of a line */
    char *free;       /* of out->strings */
    llm_lexemes *out;
} lexer;

clv_status llm_lex_error(uint32_t line, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "chat template, line %u: %s; --chat-template takes "
                     "another one",
                     line, what);
}

void llm_lexemes_finish(llm_lexemes *lexemes)
{
    free(lexemes->items);
    free(lexemes->source);
    free(lexemes->strings);
}

static uint32_t count_lines(const char *from, const char *to)
{
    uint32_t n = 0;
    for (; from < to; from++)
        n += *from == '\n';
    return n;
}

static clv_status add(lexer *x, llm_token_kind kind, const char *begin,
                      const char *end)
{
    const llm_lexeme token = {.kind = (uint8_t)kind,
                              .line = x->line,
                              .text = {begin, (uint64_t)(end - begin)}};
    return LLM_ARRAY_ADD(x->out, token);
}

static bool starts(const lexer *x, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)(x->end - x->at) >= n && !memcmp(x->at, text, n);
}

static llm_text text_of(const char *begin, const char *end)
{
    return (llm_text){begin, NULL, (uint64_t)(end - begin)};
}

/* Moves to `to`, counting lines. */
static void move(lexer *x, const char *to)
{
    x->line += count_lines(x->at, to);
    x->at = to;
}

static void skip_space(lexer *x)
{
    const llm_text left =
        llm_text_strip(text_of(x->at, x->end), NULL, true, false);
    move(x, left.data);
}

/* Adds the text before a tag, without the white space that its sign, or its
 * being first in its line, removes. */
static clv_status add_data(lexer *x, const char *end, char sign, bool is_tag)
{
    llm_text text = text_of(x->at, end);
    if (sign == '-') {
        text = llm_text_strip(text, NULL, false, true);
    } else if (sign != '+' && is_tag) {
        const char *newline =
            text.size ? memrchr(text.data, '\n', text.size) : NULL;
        const char *line = newline ? newline + 1 : text.data;
        const llm_text rest = text_of(line, end);
        if ((newline || x->line_starts) &&
            !llm_text_strip(rest, NULL, true, false).size)
            text.size -= rest.size;
    }
    clv_status status =
        text.size ? add(x, LLM_T_DATA, text.data, text.data + text.size)
                  : CLV_OK;
    move(x, end);
    return status;
}

static char sign_at(const lexer *x, const char *at)
{
    return at < x->end && (*at == '-' || *at == '+') ? *at : 0;
}

/* Behind the end of a tag: its sign and text ("%}") are at x->at. */
static void end_tag(lexer *x, bool trims)
{
    const char sign = sign_at(x, x->at);
    move(x, x->at + (sign ? 3 : 2));
    if (sign == '-')
        skip_space(x);
    else if (!sign && trims && starts(x, "\n"))
        move(x, x->at + 1);
    x->line_starts = x->at[-1] == '\n';
}

/* The end of the comment or of the text up to a tag's text; NULL: none. */
static const char *find(const char *from, const char *end, const char *what)
{
    return memmem(from, (size_t)(end - from), what, strlen(what));
}

static clv_status lex_comment(lexer *x)
{
    const char *end = find(x->at + 2, x->end, "#}");
    if (!end)
        return llm_lex_error(x->line, "a comment has no end");
    const char *body = x->at + 2 + (sign_at(x, x->at + 2) != 0);
    /* "{#-#}" ends by "#}", "{#--#}" by "-#}" */
    const bool sign = end > body && (end[-1] == '-' || end[-1] == '+');
    move(x, end - sign);
    end_tag(x, true);
    return CLV_OK;
}

/* Past spaces and a word; NULL if something else is there. */
static const char *past_word(const lexer *x, const char *at, const char *word)
{
    const size_t n = strlen(word);
    while (at < x->end && llm_text_is_space((uint8_t)*at))
        at++;
    if ((size_t)(x->end - at) < n || memcmp(at, word, n))
        return NULL;
    at += n;
    while (at < x->end && llm_text_is_space((uint8_t)*at))
        at++;
    return at;
}

/* "%}" of a raw tag, perhaps with a sign. */
static bool is_tag_end(const lexer *x, const char *at)
{
    if (!at || at >= x->end)
        return false;
    at += *at == '-' || *at == '+';
    return x->end - at >= 2 && !memcmp(at, "%}", 2);
}

/* {% raw %}: *done if this is one. */
static clv_status lex_raw(lexer *x, bool *done)
{
    const char *begin = x->at + 2 + (sign_at(x, x->at + 2) != 0);
    begin = past_word(x, begin, "raw");
    *done = is_tag_end(x, begin) && *begin != '+';
    if (!*done)
        return CLV_OK;
    move(x, begin);
    end_tag(x, false);
    for (const char *at = x->at; (at = find(at, x->end, "{%")); at += 2) {
        const char sign = sign_at(x, at + 2);
        const char *end = past_word(x, at + 2 + (sign != 0), "endraw");
        if (!is_tag_end(x, end))
            continue;
        CLV_TRY(add_data(x, at, sign, true));
        move(x, end);
        end_tag(x, true);
        return CLV_OK;
    }
    return llm_lex_error(x->line, "'raw' has no 'endraw'");
}

/* ------------------------------------------------------------------------ */
/* Literals                                                                 */

/* Whatever the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c, bool first)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' ||
           (!first && is_digit(c));
}

/* Digits with single underscores between them. */
static const char *past_digits(const lexer *x, const char *at)
{
    while (at < x->end && (is_digit(*at) ||
                           (*at == '_' && at + 1 < x->end && is_digit(at[1]))))
        at++;
    return at;
}

static bool digit_at(const lexer *x, const char *at)
{
    return at < x->end && is_digit(*at);
}

static clv_status lex_number(lexer *x)
{
    char digits[64];
    size_t n = 0;
    bool real = false, dotted = x->at[-1] == '.';
    const char *begin = x->at, *end = past_digits(x, begin), *more;
    if (!dotted && end + 1 < x->end && *end == '.' && digit_at(x, end + 1)) {
        end = past_digits(x, end + 1);
        real = true;
    }
    if (!dotted && end < x->end && (*end == 'e' || *end == 'E')) {
        more = end + 1;
        more += more < x->end && (*more == '-' || *more == '+');
        if (digit_at(x, more)) {
            end = past_digits(x, more);
            real = true;
        }
    }
    if (end < x->end && is_name(*end, true))
        return llm_lex_error(x->line, "'%.*s...' is no decimal number",
                             (int)(end - begin > 20 ? 20 : end - begin), begin);
    for (const char *p = begin; p < end && n < sizeof digits - 1; p++)
        if (*p != '_')
            digits[n++] = *p;
    digits[n] = 0;
    CLV_TRY(add(x, real ? LLM_T_FLOAT : LLM_T_INT, begin, end));
    llm_lexeme *token = &x->out->items[x->out->n - 1];
    errno = 0;
    if (real)
        token->real = strtod(digits, NULL);
    else
        token->whole = strtoll(digits, NULL, 10);
    if (errno || n == sizeof digits - 1 ||
        (!real && n > 1 && digits[0] == '0' && strspn(digits, "0") < n))
        return llm_lex_error(x->line, "number '%s' is out of range", digits);
    move(x, end);
    return CLV_OK;
}

static clv_status lex_string(lexer *x)
{
    const char quote = *x->at, *begin = x->at + 1, *end = begin;
    char *text = x->free;
    while (end < x->end && *end != quote)
        end += *end == '\\' && x->end - end > 1 ? 2 : 1;
    if (end >= x->end)
        return llm_lex_error(x->line, "a text has no closing %c", quote);
    for (const char *at = begin; at < end;) {
        if (*at != '\\') {
            *x->free++ = *at++;
            continue;
        }
        at++;
        CLV_TRY(llm_unescape(x->line, &at, end, &x->free));
    }
    CLV_TRY(add(x, LLM_T_STRING, text, x->free));
    move(x, end + 1);
    return CLV_OK;
}

static clv_status lex_operator(lexer *x)
{
    /* Longer ones first. */
    static const char operators[] = "// ** == != >= <= + - / * % ~ [ ] ( ) { } "
                                    "> < = . : | , ";
    for (const char *p = operators; *p;) {
        const size_t n = strcspn(p, " ");
        if ((size_t)(x->end - x->at) >= n && !memcmp(x->at, p, n)) {
            CLV_TRY(add(x, LLM_T_OP, x->at, x->at + n));
            x->at += n;
            return CLV_OK;
        }
        p += n + 1;
    }
    return llm_lex_error(x->line, "unexpected '%s'",
                         llm_str_show((llm_str){x->at, 1}).text);
}

static clv_status lex_word(lexer *x)
{
    const char *end = x->at;
    if (is_digit(*x->at))
        return lex_number(x);
    if (*x->at == '"' || *x->at == '\'')
        return lex_string(x);
    if (!is_name(*x->at, true))
        return lex_operator(x);
    while (end < x->end && is_name(*end, false))
        end++;
    CLV_TRY(add(x, LLM_T_NAME, x->at, end));
    x->at = end;
    return CLV_OK;
}

/* From behind "{{" or "{%" to behind its end. */
static clv_status lex_tag(lexer *x, bool print)
{
    const char *const close = print ? "}}" : "%}";
    const uint32_t begin = x->line;
    uint32_t depth = 0; /* of brackets: the tag does not end inside them */
    while (true) {
        skip_space(x);
        if (x->at == x->end)
            return llm_lex_error(begin, "a tag has no '%s'", close);
        const char *past = x->at + (*x->at == '-' || (!print && *x->at == '+'));
        if (!depth && x->end - past >= 2 && !memcmp(past, close, 2)) {
            CLV_TRY(add(x, print ? LLM_T_PRINT_END : LLM_T_BLOCK_END, x->at,
                        x->at));
            end_tag(x, !print);
            return CLV_OK;
        }
        if (strchr("([{", *x->at))
            depth++;
        else if (strchr(")]}", *x->at) && depth-- == 0)
            return llm_lex_error(x->line, "unexpected '%c'", *x->at);
        CLV_TRY(lex_word(x));
    }
}

/* The next tag of any kind. */
static const char *next_tag(const lexer *x)
{
    for (const char *at = x->at; x->end - at >= 2; at++)
        if (*at == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#'))
            return at;
    return NULL;
}

static clv_status lex_all(lexer *x)
{
    const char *at;
    while ((at = next_tag(x))) {
        const char sign = sign_at(x, at + 2);
        bool raw = false;
        CLV_TRY(add_data(x, at, sign, at[1] != '{'));
        if (at[1] == '%')
            CLV_TRY(lex_raw(x, &raw));
        if (raw)
            continue;
        if (at[1] == '#') {
            CLV_TRY(lex_comment(x));
            continue;
        }
        const bool print = at[1] == '{';
        CLV_TRY(add(x, print ? LLM_T_PRINT : LLM_T_BLOCK, at, at));
        move(x, at + 2 + (sign != 0));
        CLV_TRY(lex_tag(x, print));
    }
    CLV_TRY(add_data(x, x->end, '+', false));
    return add(x, LLM_T_END, x->end, x->end);
}

/* Line ends as "\n", without one at the end of the template. */
static char *normalise(llm_str source, uint64_t *size)
{
    char *text = malloc(source.size + 1);
    uint64_t n = 0;
    if (!text)
        return NULL;
    for (uint64_t i = 0; i < source.size; i++) {
        const bool two = source.data[i] == '\r' && i + 1 < source.size &&
                         source.data[i + 1] == '\n';
        if (!two)
            text[n++] = source.data[i] == '\r' ? '\n' : source.data[i];
    }
    if (n && text[n - 1] == '\n')
        n--;
    text[n] = 0;
    *size = n;
    return text;
}

clv_status llm_lex(llm_str source, llm_lexemes *out)
{
    uint64_t size = 0;
    for (uint64_t i = 0; i < source.size;) {
        const uint32_t n = llm_utf8_size(source.data + i, source.size - i);
        if (!n || !source.data[i])
            return llm_lex_error(1, "byte %llu is not UTF-8 text",
                                 (unsigned long long)i);
        i += n;
    }
    out->source = normalise(source, &size);
    out->strings = malloc(source.size + 1);
    if (!out->source || !out->strings)
        return llm_no_memory("a chat template");
    lexer x = {.at = out->source,
               .end = out->source + size,
               .line = 1,
               .line_starts = true,
               .free = out->strings,
               .out = out};
    return lex_all(&x);
}
