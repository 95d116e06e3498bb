#include "escape.h"

#include "lexer.h"

#include "../base/utf8.h"

#include <string.h>

/* Whatever the locale. */
static bool is_hex(char c)
{
    return c && strchr("0123456789abcdefABCDEF", c);
}

clv_status llm_unescape(uint32_t line, const char **at, const char *end,
                        char **out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = **at;
    const char *found = strchr(from, c);
    uint32_t point = 0;
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == '\n') {
        (*at)++;
    } else if (found && c) {
        *(*out)++ = to[found - from];
        (*at)++;
    } else if (digits) {
        (*at)++;
        for (int i = 0; i < digits; i++, (*at)++) {
            const char digit = *at < end ? **at : 0;
            if (!is_hex(digit))
                return llm_lex_error(line, "an escape lacks digits");
            point =
                point * 16 + (uint32_t)(digit <= '9' ? digit - '0'
                                                     : (digit | 32) - 'a' + 10);
        }
        if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
            return llm_lex_error(line, "escape U+%04X is no character", point);
        (*out) += llm_utf8_encode(point, (*out));
    } else if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && *at < end && **at >= '0' && **at <= '7'; i++)
            point = point * 8 + (uint32_t)(*(*at)++ - '0');
        (*out) += llm_utf8_encode(point, (*out));
    } else if (c == 'N' || (uint8_t)c >= 0x80) {
        return llm_lex_error(line, "a backslash has no known escape");
    } else {
        *(*out)++ = '\\';
    }
    return CLV_OK;
}
