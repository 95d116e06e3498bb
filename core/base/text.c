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
    static const struct {
        unsigned char mask, lead, low, high; /* bounds of the second byte */
    } forms[] = {{0xff, 0xe0, 0xa0, 0xbf}, {0xff, 0xed, 0x80, 0x9f},
                 {0xf0, 0xe0, 0x80, 0xbf}, {0xff, 0xf0, 0x90, 0xbf},
                 {0xff, 0xf4, 0x80, 0x8f}, {0xf8, 0xf0, 0x80, 0xbf}};
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        return (s[1] & 0xc0) == 0x80 ? 2 : 0;
    if (s[0] > 0xf4)
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if ((s[0] & forms[i].mask) != forms[i].lead)
            continue;
        if (s[1] < forms[i].low || s[1] > forms[i].high ||
            (s[2] & 0xc0) != 0x80)
            return 0;
        if (s[0] < 0xf0)
            return 3;
        return (s[3] & 0xc0) == 0x80 ? 4 : 0;
    }
    return 0;
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
