#include "utf8.h"

#include <string.h>
#include <utf8proc.h>

#define SUBSTITUTE 0x1a
#define REPLACEMENT "\xef\xbf\xbd"

typedef struct sequence {
    uint32_t length; /* bytes looked at, at least 1 */
    enum { WHOLE, UNFINISHED, WRONG } state;
} sequence;

/* The sequence at s, n > 0 bytes: whole, a beginning that the end of the data
 * cuts off, or bytes that begin none (then as many as could have). */
static sequence scan(const char *s, uint64_t n)
{
    const uint8_t *b = (const uint8_t *)s;
    const uint8_t lead = b[0];
    if (lead < 0x80)
        return (sequence){1, WHOLE};
    if (lead < 0xc2 || lead > 0xf4)
        return (sequence){1, WRONG};
    const uint32_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    /* The second byte: no shorter form, no surrogate, not past U+10FFFF. */
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (uint32_t i = 1; i < length; i++) {
        if (i == n)
            return (sequence){i, UNFINISHED};
        if (b[i] < low || b[i] > high)
            return (sequence){i, WRONG};
        low = 0x80;
        high = 0xbf;
    }
    return (sequence){length, WHOLE};
}

uint32_t llm_utf8_size(const char *s, uint64_t n)
{
    const sequence found = scan(s, n);
    return found.state == WHOLE ? found.length : 0;
}

uint32_t llm_utf8_decode(const char *s, uint32_t size)
{
    utf8proc_int32_t point;
    utf8proc_iterate((const utf8proc_uint8_t *)s, size, &point);
    return (uint32_t)point;
}

uint32_t llm_utf8_encode(uint32_t point, char out[4])
{
    return (uint32_t)utf8proc_encode_char((utf8proc_int32_t)point,
                                          (utf8proc_uint8_t *)out);
}

bool llm_utf8_is_space(uint32_t point)
{
    const utf8proc_category_t category =
        utf8proc_category((utf8proc_int32_t)point);
    return (point >= 9 && point <= 13) || point == 0x85 ||
           category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
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
            if (llm_bytes_append(scratch, text, n))
                return NULL;
            copied = true;
        }
        scratch->items[i++] = SUBSTITUTE;
    }
    return copied ? scratch->items : text;
}

/* ------------------------------------------------------------------------ */
/* Streams                                                                  */

/* Appends what n bytes complete; the beginning that is left becomes pending. */
static clv_status take(llm_utf8 *utf8, const char *s, uint64_t n)
{
    utf8->n_pending = 0;
    while (n) {
        const sequence found = scan(s, n);
        if (found.state == UNFINISHED) {
            utf8->n_pending = found.length;
            memmove(utf8->pending, s, found.length);
            return CLV_OK;
        }
        CLV_TRY(found.state == WHOLE
                    ? llm_bytes_append(&utf8->text, s, found.length)
                    : llm_bytes_append(&utf8->text, REPLACEMENT, 3));
        s += found.length;
        n -= found.length;
    }
    return CLV_OK;
}

static clv_status answer(llm_utf8 *utf8, const char **text, uint32_t *length)
{
    if (utf8->text.n >= UINT32_MAX)
        return clv_error(CLV_ERR_LIMIT, "a token of %llu bytes is too long",
                         (unsigned long long)utf8->text.n);
    *length = (uint32_t)utf8->text.n;
    CLV_TRY(llm_bytes_append(&utf8->text, "", 1));
    *text = utf8->text.items;
    return CLV_OK;
}

clv_status llm_utf8_feed(llm_utf8 *utf8, const char *bytes, uint32_t n,
                         const char **text, uint32_t *length)
{
    utf8->text.n = 0;
    /* The pending sequence ends byte by byte; it is at most four long. */
    for (; utf8->n_pending && n; n--) {
        utf8->pending[utf8->n_pending++] = *bytes++;
        CLV_TRY(take(utf8, utf8->pending, utf8->n_pending));
    }
    if (n)
        CLV_TRY(take(utf8, bytes, n));
    return answer(utf8, text, length);
}

clv_status llm_utf8_end(llm_utf8 *utf8, const char **text, uint32_t *length)
{
    utf8->text.n = 0;
    if (utf8->n_pending)
        CLV_TRY(llm_bytes_append(&utf8->text, REPLACEMENT, 3));
    utf8->n_pending = 0;
    return answer(utf8, text, length);
}

void llm_utf8_finish(llm_utf8 *utf8)
{
    free(utf8->text.items);
    *utf8 = (llm_utf8){0};
}
