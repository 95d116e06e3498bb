#include "special.h"
#include "../base/utf8.h"

#include <string.h>
#include <utf8proc.h>

clv_status llm_specials_add(llm_specials *specials, llm_special special)
{
    if (!special.text.size)
        return CLV_OK;
    return LLM_ARRAY_ADD(specials, special);
}

static int compare(const void *a, const void *b)
{
    llm_str x = ((const llm_special *)a)->text;
    llm_str y = ((const llm_special *)b)->text;
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

void llm_specials_seal(llm_specials *specials)
{
    if (!specials->n)
        return;
    qsort(specials->items, specials->n, sizeof *specials->items, compare);
    uint32_t at = 0;
    for (uint32_t byte = 0; byte <= 256; byte++) {
        while (at < specials->n &&
               (uint8_t)specials->items[at].text.data[0] < byte)
            at++;
        specials->first[byte] = at;
    }
}

void llm_specials_finish(llm_specials *specials)
{
    free(specials->items);
    *specials = (llm_specials){0};
}

/* The code point that ends at `at`; 0: none. */
static uint32_t point_before(const char *text, uint64_t at)
{
    for (uint32_t size = 1; size <= 4 && size <= at; size++)
        if (llm_utf8_size(text + at - size, size) == size)
            return llm_utf8_decode(text + at - size, size);
    return 0;
}

static uint32_t point_after(const char *text, uint64_t n, uint64_t at)
{
    uint32_t size = at < n ? llm_utf8_size(text + at, n - at) : 0;
    return size ? llm_utf8_decode(text + at, size) : 0;
}

/* \w of Rust's regular expressions: Alphabetic, marks, digits, connectors and
 * joiners. */
static bool is_word(uint32_t point)
{
    if (point == 0x200c || point == 0x200d ||
        (point >= 0x24b6 && point <= 0x24e9) ||
        (point >= 0x1f130 && point <= 0x1f149) ||
        (point >= 0x1f150 && point <= 0x1f169) ||
        (point >= 0x1f170 && point <= 0x1f189))
        return true;
    switch (utf8proc_category((utf8proc_int32_t)point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

bool llm_specials_is_plain(const llm_specials_wanted *wanted, const char *begin,
                           uint64_t size)
{
    uint64_t low = 0, high = wanted->n_plain;
    if (!high)
        return false;
    const uint64_t at = (uint64_t)(begin - wanted->base);
    while (low < high) { /* the first range that ends behind at */
        const uint64_t middle = low + (high - low) / 2;
        const clv_text_range *range = &wanted->plain[middle];
        if (range->start + range->size <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < wanted->n_plain && wanted->plain[low].start < at + size;
}

static bool is_allowed(const llm_special *special, const char *text, uint64_t n,
                       uint64_t at, const llm_specials_wanted *wanted)
{
    if (special->control &&
        (!wanted->control ||
         llm_specials_is_plain(wanted, text + at, special->text.size)))
        return false;
    return !special->single_word ||
           (!is_word(point_before(text, at)) &&
            !is_word(point_after(text, n, at + special->text.size)));
}

/* The longest one that starts at `at`. Items with a common start are
 * neighbours, so each byte of the text narrows the range of matching items. */
static const llm_special *longest_at(const llm_specials *specials,
                                     const char *text, uint64_t n, uint64_t at,
                                     const llm_specials_wanted *wanted)
{
    const llm_special *items = specials->items, *best = NULL;
    uint32_t low = specials->first[(uint8_t)text[at]];
    uint32_t high = specials->first[(uint8_t)text[at] + 1];
    for (uint64_t depth = 1; low < high; depth++) {
        for (; low < high && items[low].text.size == depth; low++)
            if (is_allowed(&items[low], text, n, at, wanted))
                best = &items[low];
        if (at + depth >= n)
            break;
        uint8_t byte = (uint8_t)text[at + depth];
        for (uint32_t end = high; low < end;) { /* first of at least byte */
            uint32_t middle = low + (end - low) / 2;
            if ((uint8_t)items[middle].text.data[depth] < byte)
                low = middle + 1;
            else
                end = middle;
        }
        uint32_t end = low;
        for (uint32_t top = high; end < top;) { /* first beyond byte */
            uint32_t middle = end + (top - end) / 2;
            if ((uint8_t)items[middle].text.data[depth] <= byte)
                end = middle + 1;
            else
                top = middle;
        }
        high = end;
    }
    return best;
}

static uint64_t strip_left(const char *text, uint64_t from, uint64_t at)
{
    while (at > from) {
        uint32_t point = point_before(text + from, at - from);
        char bytes[4];
        if (!point || !llm_utf8_is_space(point))
            break;
        at -= llm_utf8_encode(point, bytes);
    }
    return at;
}

static uint64_t strip_right(const char *text, uint64_t n, uint64_t at)
{
    while (at < n) {
        uint32_t point = point_after(text, n, at);
        char bytes[4];
        if (!point || !llm_utf8_is_space(point))
            break;
        at += llm_utf8_encode(point, bytes);
    }
    return at;
}

bool llm_specials_next(const llm_specials *specials, const char *text,
                       uint64_t n, uint64_t from,
                       const llm_specials_wanted *wanted, llm_span *taken,
                       int32_t *id)
{
    if (!specials->n)
        return false;
    for (uint64_t at = from; at < n; at++) {
        uint8_t byte = (uint8_t)text[at];
        if (specials->first[byte] == specials->first[byte + 1])
            continue;
        const llm_special *found = longest_at(specials, text, n, at, wanted);
        if (!found)
            continue;
        uint64_t start = at, end = at + found->text.size;
        if (found->lstrip)
            start = strip_left(text, from, start);
        if (found->rstrip)
            end = strip_right(text, n, end);
        *taken = (llm_span){(uint32_t)start, (uint32_t)(end - start)};
        *id = found->id;
        return true;
    }
    return false;
}
