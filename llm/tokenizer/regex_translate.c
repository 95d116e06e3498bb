#include "regex_translate.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

/* White_Space; PCRE2's \s has U+180E as well. */
#define SPACE_ITEMS                                                            \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"           \
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* PCRE2's \w has no marks. */
#define WORD_ITEMS "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX_ITEMS "0-9A-Fa-f"

typedef struct translation {
    llm_str pattern;
    uint64_t at;
    uint32_t in_class; /* brackets open */
    llm_bytes *out;
} translation;

static clv_status put(translation *t, const char *text)
{
    return llm_bytes_append(t->out, text, strlen(text));
}

/* The next n bytes as they are. */
static clv_status copy(translation *t, uint64_t n)
{
    CLV_TRY(llm_bytes_append(t->out, t->pattern.data + t->at, n));
    t->at += n;
    return CLV_OK;
}

static clv_status refuse(const translation *t, const char *what)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "regular expression '%s' has %s at byte %llu, which is "
                     "not supported",
                     llm_str_show(t->pattern).text, what,
                     (unsigned long long)t->at);
}

static bool ahead(const translation *t, const char *text)
{
    uint64_t n = strlen(text);
    return t->pattern.size - t->at >= n &&
           memcmp(t->pattern.data + t->at, text, n) == 0;
}

/* \s and similar: items of the open class, or a class. */
static clv_status put_set(translation *t, const char *items, bool negated)
{
    if (t->in_class && negated)
        return refuse(t, "a negated set inside a class");
    if (!t->in_class)
        CLV_TRY(put(t, negated ? "[^" : "["));
    CLV_TRY(put(t, items));
    if (!t->in_class)
        CLV_TRY(put(t, "]"));
    return CLV_OK;
}

static bool is_script(llm_str name)
{
    char probe[64];
    int n = snprintf(probe, sizeof probe, "\\p{sc:%.*s}", (int)name.size,
                     name.data);
    int code;
    PCRE2_SIZE offset;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)probe, (PCRE2_SIZE)n,
                                         PCRE2_UTF, &code, &offset, NULL);
    pcre2_code_free(compiled);
    return compiled != NULL;
}

/* \p{...}: a script by name means the script, not its extensions as in PCRE2.
 */
static clv_status translate_property(translation *t)
{
    const char *start = t->pattern.data + t->at;
    uint64_t left = t->pattern.size - t->at;
    if (left < 4 || start[2] != '{')
        return copy(t, left < 3 ? left : 3);
    const char *close = memchr(start, '}', left);
    if (!close)
        return copy(t, left);
    uint64_t size = (uint64_t)(close - start) + 1;
    bool inverse = start[3] == '^';
    llm_str name = {start + 3 + inverse, size - 4 - inverse};
    if (name.size < 3 || name.size > 40 || !is_script(name))
        return copy(t, size);

    char text[64];
    snprintf(text, sizeof text, "\\%c{%ssc:%.*s}", start[1], inverse ? "^" : "",
             (int)name.size, name.data);
    t->at += size;
    return put(t, text);
}

static clv_status translate_escape(translation *t)
{
    if (t->at + 1 >= t->pattern.size)
        return refuse(t, "a lone backslash");
    char text[16];
    switch (t->pattern.data[t->at + 1]) {
    case 's':
        CLV_TRY(put_set(t, SPACE_ITEMS, false));
        break;
    case 'S':
        if (t->in_class)
            return copy(t, 2);
        CLV_TRY(put_set(t, SPACE_ITEMS, true));
        break;
    case 'w':
        CLV_TRY(put_set(t, WORD_ITEMS, false));
        break;
    case 'W':
        CLV_TRY(put_set(t, WORD_ITEMS, true));
        break;
    case 'h':
        CLV_TRY(put_set(t, HEX_ITEMS, false));
        break;
    case 'H':
        CLV_TRY(put_set(t, HEX_ITEMS, true));
        break;
    case 'p':
    case 'P':
        return translate_property(t);
    case 'u':
        if (t->pattern.size - t->at < 6)
            return refuse(t, "\\u without four digits");
        snprintf(text, sizeof text, "\\x{%.4s}", t->pattern.data + t->at + 2);
        t->at += 6;
        return put(t, text);
    default:
        return copy(t, 2);
    }
    t->at += 2;
    return CLV_OK;
}

static clv_status translate_in_class(translation *t)
{
    if (ahead(t, "[:")) {
        const char *from = t->pattern.data + t->at;
        const char *end = memmem(from, t->pattern.size - t->at, ":]", 2);
        if (end)
            return copy(t, (uint64_t)(end - from) + 2);
    }
    if (ahead(t, "&&"))
        return refuse(t, "an intersection of classes");
    if (ahead(t, "[^"))
        return refuse(t, "a negated class inside a class");
    /* The items of an inner class belong to the outer one as well. */
    bool inner = ahead(t, "[") || (ahead(t, "]") && t->in_class > 1);
    t->in_class += ahead(t, "[");
    t->in_class -= ahead(t, "]");
    if (!inner)
        return copy(t, 1);
    t->at++;
    return CLV_OK;
}

static clv_status open_class(translation *t)
{
    t->in_class = 1;
    CLV_TRY(copy(t, ahead(t, "[^") ? 2 : 1));
    /* A bracket in the first place is an ordinary character. */
    if (ahead(t, "]"))
        CLV_TRY(copy(t, 1));
    return CLV_OK;
}

clv_status llm_regex_translate(llm_str pattern, llm_bytes *out)
{
    translation t = {.pattern = pattern, .out = out};
    while (t.at < pattern.size) {
        if (ahead(&t, "\\"))
            CLV_TRY(translate_escape(&t));
        else if (t.in_class)
            CLV_TRY(translate_in_class(&t));
        else if (ahead(&t, "["))
            CLV_TRY(open_class(&t));
        else if (ahead(&t, "(*"))
            CLV_TRY(refuse(&t, "a backtracking verb"));
        else
            CLV_TRY(copy(&t, 1));
    }
    return CLV_OK;
}
