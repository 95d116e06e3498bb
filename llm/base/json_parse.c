/*
 * The parser. cJSON, which the core uses for small documents of its own, takes
 * up to 41 times the text and accepts names that occur twice; tokenizers and
 * lists of tensors have tens of megabytes.
 */
#include "array.h"
#include "json_nodes.h"
#include "utf8.h"

#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 512, MAX_TEXT = 1 << 30, NUMBER_SIZE = 512 };

typedef struct parser {
    const char *name, *text, *at, *end;
    llm_bytes out;
    llm_ids keys; /* offsets of the names of objects that are open */
    uint32_t depth;
} parser;

static clv_status wrong(const parser *p, const char *what)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: not valid JSON at byte %" PRIu64
                     ": %s; correct it or "
                     "download it again",
                     p->name, (uint64_t)(p->at - p->text), what);
}

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' ||
                              *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

/* Moves past c if it comes next. */
static bool take(parser *p, char c)
{
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static clv_status put(parser *p, llm_json_form form, const void *data,
                      uint64_t size)
{
    const char byte = (char)form;
    CLV_TRY(llm_bytes_append(&p->out, &byte, 1));
    return llm_bytes_append(&p->out, data, size);
}

/* ------------------------------------------------------------------------ */
/* Strings                                                                  */

static clv_status parse_hex(parser *p, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        const char c = p->at < p->end ? *p->at : 0;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return wrong(p, "\\u needs four hexadecimal digits");
        value = value << 4 | (uint32_t)digit;
    }
    *out = value;
    return CLV_OK;
}

static clv_status parse_point(parser *p)
{
    char text[4];
    uint32_t point = 0, low = 0;
    CLV_TRY(parse_hex(p, &point));
    if (point >= 0xd800 && point < 0xdc00 && take(p, '\\') && take(p, 'u')) {
        CLV_TRY(parse_hex(p, &low));
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(p, "half of a surrogate pair");
        point = 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00));
    }
    if (point >= 0xd800 && point < 0xe000)
        return wrong(p, "half of a surrogate pair");
    return llm_bytes_append(&p->out, text, llm_utf8_encode(point, text));
}

static clv_status parse_escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = p->at < p->end ? *p->at : 0;
    const char *found = c ? strchr(from, c) : NULL;
    if (take(p, 'u'))
        return parse_point(p);
    if (!found)
        return wrong(p, "an unknown escape");
    p->at++;
    return llm_bytes_append(&p->out, &to[found - from], 1);
}

/* Appends what comes before the next quote, and moves past that. */
static clv_status parse_chars(parser *p)
{
    while (true) {
        const char *begin = p->at;
        while (p->at < p->end && *p->at != '"' && *p->at != '\\' &&
               (uint8_t)*p->at >= ' ') {
            const uint32_t size =
                llm_utf8_size(p->at, (uint64_t)(p->end - p->at));
            if (!size)
                return wrong(p, "a string that is not UTF-8");
            p->at += size;
        }
        CLV_TRY(llm_bytes_append(&p->out, begin, (uint64_t)(p->at - begin)));
        if (take(p, '"'))
            return CLV_OK;
        if (!take(p, '\\'))
            return wrong(p, p->at == p->end ? "a string without an end"
                                            : "a control character");
        CLV_TRY(parse_escape(p));
    }
}

/* The text behind a quote. It is moved if it turns out to be long. */
static clv_status parse_string(parser *p)
{
    const uint64_t begin = p->out.n;
    const char room[4] = {0};
    CLV_TRY(put(p, LLM_JSON_SHORT, room, 1));
    CLV_TRY(parse_chars(p));
    uint64_t size = p->out.n - begin - 2;
    if (size > UINT8_MAX) {
        const uint32_t count = (uint32_t)size;
        CLV_TRY(llm_bytes_append(&p->out, room, 3));
        char *at = p->out.items + begin;
        memmove(at + 5, at + 2, size);
        at[0] = LLM_JSON_LONG;
        memcpy(at + 1, &count, sizeof count);
    } else {
        p->out.items[begin + 1] = (char)size;
    }
    return llm_bytes_append(&p->out, room, 1);
}

/* ------------------------------------------------------------------------ */
/* Numbers                                                                  */

static bool take_digits(parser *p)
{
    const char *begin = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    return p->at > begin;
}

static clv_status put_int(parser *p, int64_t value)
{
    for (int i = 0; i < 3; i++) {
        const int bits = 8 << i;
        if (value == (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits))
            return put(p, (llm_json_form)(LLM_JSON_I8 + i), &value,
                       (uint64_t)bits / 8);
    }
    return put(p, LLM_JSON_I64, &value, sizeof value);
}

/* In the C locale: the host's may have another decimal point. */
static clv_status put_real(parser *p, const char *text)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return llm_no_memory(p->name);
    const double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    if (!__builtin_isfinite(value))
        return wrong(p, "a number out of range");
    return put(p, LLM_JSON_F64, &value, sizeof value);
}

static clv_status parse_number(parser *p)
{
    char copy[NUMBER_SIZE];
    const char *begin = p->at;
    bool whole = true, valid;
    take(p, '-');
    valid = take(p, '0') || take_digits(p);
    if (take(p, '.')) {
        whole = false;
        valid = valid && take_digits(p);
    }
    if (take(p, 'e') || take(p, 'E')) {
        whole = false;
        if (!take(p, '-'))
            take(p, '+');
        valid = valid && take_digits(p);
    }
    const size_t size = (size_t)(p->at - begin);
    if (!valid)
        return wrong(p, size ? "not a number" : "no value");
    if (size >= sizeof copy)
        return wrong(p, "a number of more than 511 characters");
    memcpy(copy, begin, size);
    copy[size] = 0;
    if (whole && size < 19)
        return put_int(p, strtoll(copy, NULL, 10));
    return put_real(p, copy);
}

/* ------------------------------------------------------------------------ */
/* Objects and arrays                                                       */

static int compare_keys(const void *a, const void *b, void *out)
{
    llm_str x, y;
    const char *items = out;
    int32_t i, j;
    memcpy(&i, a, sizeof i);
    memcpy(&j, b, sizeof j);
    llm_json_str((const llm_json *)(items + (uint32_t)i), &x);
    llm_json_str((const llm_json *)(items + (uint32_t)j), &y);
    return x.size != y.size ? (x.size > y.size) - (x.size < y.size)
                            : memcmp(x.data, y.data, x.size);
}

/* The names of an object are those from `first` on. */
static clv_status check_keys(const parser *p, uint64_t first)
{
    int32_t *keys = p->keys.items + first;
    const uint64_t n = p->keys.n - first;
    if (n < 2)
        return CLV_OK;
    qsort_r(keys, n, sizeof *keys, compare_keys, p->out.items);
    for (uint64_t i = 1; i < n; i++) {
        if (compare_keys(&keys[i - 1], &keys[i], p->out.items))
            continue;
        llm_str key;
        llm_json_str((const llm_json *)(p->out.items + (uint32_t)keys[i]),
                     &key);
        return clv_error(CLV_ERR_FORMAT,
                         "%s: '%s' occurs twice in an object that ends at byte "
                         "%" PRIu64 "; correct it or download it again",
                         p->name, llm_str_show(key).text,
                         (uint64_t)(p->at - p->text));
    }
    return CLV_OK;
}

static clv_status parse_value(parser *p);

static clv_status parse_key(parser *p)
{
    skip_space(p);
    if (!take(p, '"'))
        return wrong(p, "a member without a name");
    CLV_TRY(llm_ids_append(&p->keys, (int32_t)(uint32_t)p->out.n));
    CLV_TRY(parse_string(p));
    skip_space(p);
    return take(p, ':') ? CLV_OK : wrong(p, "a name without ':'");
}

/* Sets the size of a list. Short ones move over what a long one needs. */
static void end_list(parser *p, uint64_t begin)
{
    char *at = p->out.items + begin;
    const uint32_t size = (uint32_t)(p->out.n - begin - 5);
    memcpy(at + 1, &size, sizeof size);
    if (size > UINT8_MAX)
        return;
    at[0] = (char)(at[0] - LLM_JSON_ITEMS + LLM_JSON_SHORT_ITEMS);
    memmove(at + 2, at + 5, size);
    p->out.n -= 3;
}

/* What is behind the opening bracket. */
static clv_status parse_list(parser *p, llm_json_form form, char close)
{
    const uint64_t begin = p->out.n, first = p->keys.n;
    const uint32_t none = 0;
    if (p->depth == MAX_DEPTH)
        return wrong(p, "nested more than 512 deep");
    p->depth++;
    CLV_TRY(put(p, form, &none, sizeof none));
    skip_space(p);
    for (bool more = !take(p, close); more;) {
        if (form == LLM_JSON_MEMBERS)
            CLV_TRY(parse_key(p));
        CLV_TRY(parse_value(p));
        skip_space(p);
        more = take(p, ',');
        if (!more && !take(p, close))
            return wrong(p, "neither ',' nor an end behind a value");
    }
    p->depth--;
    CLV_TRY(check_keys(p, first));
    p->keys.n = first;
    end_list(p, begin);
    return CLV_OK;
}

static bool take_word(parser *p, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

static clv_status parse_value(parser *p)
{
    skip_space(p);
    if (take(p, '{'))
        return parse_list(p, LLM_JSON_MEMBERS, '}');
    if (take(p, '['))
        return parse_list(p, LLM_JSON_ITEMS, ']');
    if (take(p, '"'))
        return parse_string(p);
    if (take_word(p, "null"))
        return put(p, LLM_JSON_IS_NULL, "", 0);
    if (take_word(p, "true"))
        return put(p, LLM_JSON_IS_TRUE, "", 0);
    if (take_word(p, "false"))
        return put(p, LLM_JSON_IS_FALSE, "", 0);
    return parse_number(p);
}

static clv_status parse_document(parser *p)
{
    take_word(p, "\xef\xbb\xbf");
    CLV_TRY(parse_value(p));
    skip_space(p);
    if (p->at != p->end)
        return wrong(p, "something behind the end of the document");
    if (!llm_json_is((llm_json *)(void *)p->out.items, LLM_JSON_OBJECT))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: its JSON is not an object; download it again",
                         p->name);
    return CLV_OK;
}

clv_status llm_json_parse(const void *data, uint64_t size, const char *name,
                          llm_json **out)
{
    if (size > MAX_TEXT)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: %" PRIu64 " bytes of JSON, at most %d are read",
                         name, size, MAX_TEXT);
    const char *text = size ? data : "";
    parser p = {.name = name, .text = text, .at = text, .end = text + size};
    /* Most documents fit into the size of their text: memory that is moved as
     * it grows leaves holes. */
    p.out.items = llm_array_reserve(NULL, &p.out.capacity, size + 64, 1);
    if (!p.out.items)
        return CLV_ERR_NO_MEMORY;
    clv_status status = parse_document(&p);
    free(p.keys.items);
    if (status) {
        free(p.out.items);
        return status;
    }
    *out = (llm_json *)(void *)p.out.items;
    return CLV_OK;
}
