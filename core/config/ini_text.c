#include "ini_text.h"

#include <ini.h>
#include <stdlib.h>
#include <string.h>

/* inih keeps shorter names than this and cuts longer ones without a word. */
#define MAX_NAME 48
/* Longest line. inih sees it in pieces, see next_piece(). */
#define MAX_LINE 8192

typedef struct reader {
    const char *name;
    const char *text, *end; /* what is left */
    uint32_t line;          /* number of the line at hand */
    char buf[MAX_LINE + 1]; /* that line, without comment and blanks */
    const char *rest;       /* its part not yet given to inih, or NULL */
    bool continued;         /* the piece given last continues a value */

    core_ini_fn fn;
    void *ctx;
    clv_status status; /* first failure, its message set */

    /* A value is complete only when something else follows it. */
    bool held;
    char section[MAX_NAME + 2], key[MAX_NAME + 2];
    char value[MAX_LINE + 1];
    size_t value_size;
    uint32_t value_line;
} reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_comment(char c)
{
    return c == ';' || c == '#';
}

static void fail(reader *r, const char *what)
{
    if (r->status == CLV_OK)
        r->status =
            clv_error(CLV_ERR_FORMAT, "%s:%u: %s", r->name, r->line, what);
}

/* Cuts the comment and the blanks around line[0..n); returns what is left. */
static size_t trim(const char **line, size_t n)
{
    const char *s = *line;
    while (n && is_blank(*s))
        s++, n--;
    for (size_t i = 0; i < n; i++) {
        if (is_comment(s[i]) && (i == 0 || is_blank(s[i - 1]))) {
            n = i;
            break;
        }
    }
    while (n && is_blank(s[n - 1]))
        n--;
    *line = s;
    return n;
}

/* inih copies names into small arrays: they must fit there. */
static bool names_fit(const char *line)
{
    size_t n = line[0] == '[' ? strcspn(line + 1, "]") : strcspn(line, "=:");
    return n <= MAX_NAME;
}

/* inih goes on after a line it does not like; here the first one ends it. */
static bool well_formed(const char *line)
{
    return line[0] == '[' ? strchr(line, ']') != NULL
                          : strpbrk(line, "=:") != NULL;
}

/* Puts the next line with content into buf. False at the end or on error. */
static bool next_line(reader *r)
{
    while (r->text < r->end && r->status == CLV_OK) {
        const char *line = r->text;
        size_t left = (size_t)(r->end - line);
        const char *newline = memchr(line, '\n', left);
        size_t n = newline ? (size_t)(newline - line) : left;
        r->text = newline ? newline + 1 : r->end;
        r->line++;
        if (memchr(line, 0, n)) {
            fail(r, "a NUL byte; this is no ini file");
            return false;
        }
        n = trim(&line, n);
        if (!n)
            continue;
        if (n > MAX_LINE) {
            fail(r, "the line is longer than 8192 bytes; shorten it");
            return false;
        }
        memcpy(r->buf, line, n);
        r->buf[n] = 0;
        if (!well_formed(r->buf)) {
            fail(r, "neither [section], key = value nor a comment");
            return false;
        }
        if (!names_fit(r->buf)) {
            fail(r, "a name longer than 48 characters; no such section or key "
                    "exists");
            return false;
        }
        r->rest = r->buf;
        return true;
    }
    return false;
}

/* How much of text to give as one piece of at most max bytes: a cut where inih
 * neither trims blanks nor sees a comment. 0 if there is no such place. */
static size_t piece_size(const char *text, size_t max)
{
    size_t n = strlen(text);
    if (n <= max)
        return n;
    for (n = max; n > 0; n--)
        if (!is_blank(text[n - 1]) && !is_blank(text[n]) &&
            !is_comment(text[n]))
            return n;
    return 0;
}

/*
 * inih's reader. inih takes lines of 200 bytes; a longer value goes to it as a
 * first piece and indented ones, which it reports as continuations of the key.
 */
static char *next_piece(char *out, int size, void *stream)
{
    reader *r = stream;
    r->continued = r->rest != NULL;
    if (r->status != CLV_OK || (!r->rest && !next_line(r)))
        return NULL;
    size_t n = size > 8 ? piece_size(r->rest, (size_t)size - 4) : 0;
    if (!n) {
        fail(r, "too many blanks in a row; remove some");
        return NULL;
    }
    char *to = out;
    if (r->continued)
        *to++ = ' ';
    memcpy(to, r->rest, n);
    strcpy(to + n, "\n");
    r->rest = r->rest[n] ? r->rest + n : NULL;
    return out;
}

static void release_held(reader *r)
{
    if (!r->held || r->status != CLV_OK)
        return;
    r->held = false;
    r->status = r->fn(r->ctx, r->section, r->key, r->value, r->value_line);
}

static int take(void *ctx, const char *section, const char *key,
                const char *value)
{
    reader *r = ctx;
    if (!r->continued || !r->held) {
        release_held(r);
        if (!section[0])
            fail(r, "a key before the first [section]; put it into one");
        if (!key[0])
            fail(r, "a value without a key");
        if (r->status != CLV_OK)
            return 0;
        strncpy(r->section, section, sizeof r->section - 1);
        strncpy(r->key, key, sizeof r->key - 1);
        r->value_size = 0;
        r->value_line = r->line;
        r->held = true;
    }
    size_t n = strlen(value);
    if (n > MAX_LINE - r->value_size)
        n = MAX_LINE - r->value_size;
    memcpy(r->value + r->value_size, value, n);
    r->value_size += n;
    r->value[r->value_size] = 0;
    return 1;
}

clv_status core_ini_parse(const char *name, const void *text, uint64_t size,
                          core_ini_fn fn, void *ctx)
{
    reader *r = calloc(1, sizeof *r);
    if (!r)
        return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory to read it", name);
    r->name = name;
    r->text = text;
    r->end = r->text + size;
    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        r->text += 3;
    r->fn = fn;
    r->ctx = ctx;
    int wrong = ini_parse_stream(next_piece, r, take, r);
    release_held(r);
    if (wrong)
        fail(r, "inih does not accept the file");
    clv_status status = r->status;
    free(r);
    return status;
}
