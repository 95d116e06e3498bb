#include "text.h"
#include "grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes space for n more bytes and a NUL. */
static bool reserve(core_text *text, size_t n)
{
    text->failed |= !core_grow(&text->data, &text->capacity,
                               (uint64_t)text->size + n + 1, 1);
    return !text->failed;
}

static void add_bytes(core_text *text, const char *bytes, size_t n)
{
    if (!reserve(text, n))
        return;
    memcpy(text->data + text->size, bytes, n);
    text->size += n;
    text->data[text->size] = 0;
}

void core_text_add(core_text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !reserve(text, (size_t)n))
        return;
    va_start(args, fmt);
    vsnprintf(text->data + text->size, (size_t)n + 1, fmt, args);
    va_end(args);
    text->size += (size_t)n;
}

/* Bytes of the UTF-8 sequence at s, 0 if it is none. */
static size_t utf8_length(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = s[0] < 0x80   ? 1
                     : s[0] < 0xc0 ? 0
                     : s[0] < 0xe0 ? 2
                     : s[0] < 0xf0 ? 3
                     : s[0] < 0xf8 ? 4
                                   : 0;
    uint32_t c = n > 1 ? s[0] & 0x7fu >> n : s[0];
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    return c >= least[n] && c <= 0x10ffff && c >> 11 != 0xd800 >> 11 ? n : 0;
}

void core_text_add_json(core_text *text, const char *string)
{
    const unsigned char *s = (const unsigned char *)string;
    add_bytes(text, "\"", 1);
    while (*s) {
        size_t n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            core_text_add(text, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            core_text_add(text, "\\u%04x", *s);
        else if (n)
            add_bytes(text, (const char *)s, n);
        else
            add_bytes(text, "\xef\xbf\xbd", 3);
        s += n ? n : 1;
    }
    add_bytes(text, "\"", 1);
}

void core_text_clear(core_text *text)
{
    text->size = 0;
    if (text->data)
        text->data[0] = 0;
}

void core_text_finish(core_text *text)
{
    free(text->data);
    *text = (core_text){0};
}

clv_status core_text_take(core_text *text, char **out)
{
    if (!text->data && !text->failed)
        add_bytes(text, "", 0);
    if (text->failed) {
        clv_error(CLV_ERR_NO_MEMORY, "no memory for %zu bytes of text",
                  text->size);
        core_text_finish(text);
        return CLV_ERR_NO_MEMORY;
    }
    *out = text->data;
    *text = (core_text){0};
    return CLV_OK;
}

void clv_string_free(char *string)
{
    free(string);
}
