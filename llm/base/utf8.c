#include "utf8.h"

#include <stdlib.h>
#include <string.h>

static const char replacement[3] = {'\xef', '\xbf', '\xbd'};

typedef struct sequence {
    uint32_t length; /* bytes looked at, at least 1 */
    enum { WHOLE, UNFINISHED, WRONG } state;
} sequence;

/* The sequence at s, n > 0 bytes: whole, a beginning that the end of the data
 * cuts off, or bytes that begin none (then as many as could have). */
static sequence scan(const uint8_t *s, uint64_t n)
{
    const uint8_t lead = s[0];
    uint8_t low = 0x80, high = 0xbf; /* of the second byte */
    uint32_t length;
    if (lead < 0x80)
        return (sequence){1, WHOLE};
    if (lead < 0xc2 || lead > 0xf4)
        return (sequence){1, WRONG};
    length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead == 0xe0)
        low = 0xa0; /* shorter forms exist */
    else if (lead == 0xed)
        high = 0x9f; /* surrogates */
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f; /* past U+10FFFF */
    for (uint32_t i = 1; i < length; i++) {
        if (i == n)
            return (sequence){i, UNFINISHED};
        if (s[i] < low || s[i] > high)
            return (sequence){i, WRONG};
        low = 0x80;
        high = 0xbf;
    }
    return (sequence){length, WHOLE};
}

static clv_status reserve(llm_utf8 *utf8, uint64_t size)
{
    if (size <= utf8->capacity)
        return CLV_OK;
    char *text = realloc(utf8->text, size);
    if (!text)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "out of memory for %llu bytes of text",
                         (unsigned long long)size);
    utf8->text = text;
    utf8->capacity = size;
    return CLV_OK;
}

/* Appends what s completes to text at *at. Returns the bytes left over. */
static uint32_t convert(const uint8_t *s, uint64_t n, char *text, uint64_t *at)
{
    while (n) {
        const sequence seq = scan(s, n);
        if (seq.state == UNFINISHED)
            return seq.length;
        const void *from = seq.state == WHOLE ? (const void *)s : replacement;
        const uint32_t length =
            seq.state == WHOLE ? seq.length : sizeof(replacement);
        memcpy(text + *at, from, length);
        *at += length;
        s += seq.length;
        n -= seq.length;
    }
    return 0;
}

clv_status llm_utf8_feed(llm_utf8 *utf8, const char *bytes, uint32_t n,
                         const char **text, uint32_t *length)
{
    /* A wrong byte grows to three. */
    const uint64_t most = 3 * ((uint64_t)n + sizeof(utf8->pending)) + 1;
    if (most > UINT32_MAX)
        return clv_error(CLV_ERR_LIMIT, "a token of %u bytes is too long", n);
    clv_status status = reserve(utf8, most);
    if (status)
        return status;

    uint64_t at = 0;
    /* Finish the pending sequence byte by byte; it is at most four long. */
    while (utf8->n_pending && n) {
        utf8->pending[utf8->n_pending++] = (uint8_t)*bytes++;
        n--;
        const uint32_t had = utf8->n_pending;
        const uint32_t left = convert(utf8->pending, had, utf8->text, &at);
        memmove(utf8->pending, utf8->pending + had - left, left);
        utf8->n_pending = left;
    }
    const uint32_t left = convert((const uint8_t *)bytes, n, utf8->text, &at);
    if (left) {
        memcpy(utf8->pending, bytes + n - left, left);
        utf8->n_pending = left;
    }
    utf8->text[at] = '\0';
    *text = utf8->text;
    *length = (uint32_t)at;
    return CLV_OK;
}

clv_status llm_utf8_end(llm_utf8 *utf8, const char **text, uint32_t *length)
{
    clv_status status = reserve(utf8, sizeof(replacement) + 1);
    if (status)
        return status;
    *length = utf8->n_pending ? sizeof(replacement) : 0;
    memcpy(utf8->text, replacement, *length);
    utf8->text[*length] = '\0';
    utf8->n_pending = 0;
    *text = utf8->text;
    return CLV_OK;
}

void llm_utf8_finish(llm_utf8 *utf8)
{
    free(utf8->text);
    *utf8 = (llm_utf8){0};
}
