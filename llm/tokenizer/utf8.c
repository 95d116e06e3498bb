#include "utf8.h"

#define SUBSTITUTE 0x1a

uint32_t llm_utf8_size(const char *s, uint64_t n)
{
    const uint8_t *b = (const uint8_t *)s;
    if (b[0] < 0x80)
        return 1;
    uint32_t size = b[0] < 0xc2   ? 0
                    : b[0] < 0xe0 ? 2
                    : b[0] < 0xf0 ? 3
                    : b[0] < 0xf5 ? 4
                                  : 0;
    if (!size || size > n)
        return 0;
    for (uint32_t i = 1; i < size; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    bool overlong =
        (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
    bool surrogate = b[0] == 0xed && b[1] >= 0xa0;
    bool beyond = b[0] == 0xf4 && b[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : size;
}

uint32_t llm_utf8_decode(const char *s, uint32_t size)
{
    const uint8_t *b = (const uint8_t *)s;
    switch (size) {
    case 1:
        return b[0];
    case 2:
        return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    case 3:
        return (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    default:
        return (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 |
               (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    }
}

uint32_t llm_utf8_encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    uint32_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (uint32_t i = size; i-- > 1; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00 >> size) | point);
    return size;
}

bool llm_utf8_is_space(uint32_t point)
{
    return (point >= 9 && point <= 13) || point == 0x20 || point == 0x85 ||
           point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
           point == 0x2029 || point == 0x202f || point == 0x205f ||
           point == 0x3000;
}

const char *llm_utf8_valid(const char *text, uint64_t n, llm_bytes *scratch)
{
    bool copied = false;
    for (uint64_t i = 0; i < n;) {
        uint32_t size = llm_utf8_size(text + i, n - i);
        if (size) {
            i += size;
            continue;
        }
        if (!copied) {
            scratch->n = 0;
            if (llm_bytes_append(scratch, text, n) != CLV_OK)
                return NULL;
            copied = true;
        }
        scratch->items[i++] = SUBSTITUTE;
    }
    return copied ? scratch->items : text;
}
