#include "schema_internal.h"

#include "../base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void llm_put(llm_writer *w, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!w->status && n > 0)
        w->status = llm_bytes_append(&w->text, text, (uint64_t)n);
}

void llm_put_point(llm_writer *w, uint32_t point)
{
    char text[5] = {0};
    if (point < 0x20 || point == 0x7f) {
        llm_put(w, "\\x%02X", point);
        return;
    }
    llm_utf8_encode(point, text);
    llm_put(w, "%s%s",
            point < 0x80 && strchr("\"\\[]-^", (int)point) ? "\\" : "", text);
}

void llm_put_literal(llm_writer *w, const char *text)
{
    const char *end = text + strlen(text);
    llm_put(w, "\"");
    while (text < end) {
        uint32_t size = llm_utf8_size(text, (uint64_t)(end - text));
        size = size ? size : 1;
        llm_put_point(w,
                      size == 1 ? (uint8_t)*text : llm_utf8_decode(text, size));
        text += size;
    }
    llm_put(w, "\"");
}
