#include "text.h"

#include "../base/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define MAX_TEXT (64u << 20)

bool llm_text_is_space(uint32_t point)
{
    return (point >= 9 && point <= 13) || (point >= 28 && point <= 32) ||
           point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
           point == 0x2029 || point == 0x202f || point == 0x205f ||
           point == 0x3000;
}

static bool is_start(char byte)
{
    return ((uint8_t)byte & 0xc0) != 0x80;
}

uint64_t llm_text_length(llm_text text)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < text.size; i++)
        n += is_start(text.data[i]);
    return n;
}

uint64_t llm_text_next(llm_text text, uint64_t at)
{
    do
        at++;
    while (at < text.size && !is_start(text.data[at]));
    return at;
}

uint64_t llm_text_offset(llm_text text, uint64_t index)
{
    uint64_t at = 0;
    while (index-- && at < text.size)
        at = llm_text_next(text, at);
    return at;
}

llm_text llm_text_part(llm_text text, uint64_t begin, uint64_t end)
{
    return (llm_text){text.data + begin, text.marks ? text.marks + begin : NULL,
                      end - begin};
}

uint32_t llm_text_point(llm_text text, uint64_t at)
{
    return llm_utf8_decode(text.data + at,
                           (uint32_t)(llm_text_next(text, at) - at));
}

uint64_t llm_text_find(llm_text text, llm_text part, uint64_t from)
{
    if (from > text.size || part.size > text.size - from)
        return UINT64_MAX;
    if (!part.size)
        return from;
    const char *found =
        memmem(text.data + from, text.size - from, part.data, part.size);
    return found ? (uint64_t)(found - text.data) : UINT64_MAX;
}

uint64_t llm_text_find_last(llm_text text, llm_text part, uint64_t end)
{
    for (uint64_t at = end; at >= part.size; at--) {
        if (!part.size ||
            !memcmp(text.data + at - part.size, part.data, part.size))
            return at - part.size;
        if (!at)
            break;
    }
    return UINT64_MAX;
}

bool llm_text_starts(llm_text text, llm_text part)
{
    return part.size <= text.size &&
           (!part.size || !memcmp(text.data, part.data, part.size));
}

bool llm_text_ends(llm_text text, llm_text part)
{
    return part.size <= text.size &&
           (!part.size ||
            !memcmp(text.data + text.size - part.size, part.data, part.size));
}

static bool is_stripped(llm_text text, uint64_t at, const llm_text *set)
{
    if (!set)
        return llm_text_is_space(llm_text_point(text, at));
    return llm_text_find(*set, llm_text_part(text, at, llm_text_next(text, at)),
                         0) != UINT64_MAX;
}

llm_text llm_text_strip(llm_text text, const llm_text *set, bool left,
                        bool right)
{
    uint64_t begin = 0, end = text.size;
    while (left && begin < end && is_stripped(text, begin, set))
        begin = llm_text_next(text, begin);
    while (right && end > begin) {
        uint64_t last = end - 1;
        while (last > begin && !is_start(text.data[last]))
            last--;
        if (!is_stripped(text, last, set))
            break;
        end = last;
    }
    return llm_text_part(text, begin, end);
}

/* ------------------------------------------------------------------------ */

uint64_t llm_text_begin(const llm_jinja *j)
{
    return j->text.n;
}

clv_status llm_text_add(llm_jinja *j, llm_text part)
{
    if (part.size > MAX_TEXT || j->text.n > MAX_TEXT - part.size)
        return llm_jinja_error(
            j, CLV_ERR_LIMIT, "its text is longer than %u MiB", MAX_TEXT >> 20);
    CLV_TRY(llm_jinja_work(j, part.size / 64));
    CLV_TRY(llm_bytes_append(&j->text, part.data, part.size));
    if (part.marks)
        return llm_bytes_append(&j->marks, part.marks, part.size);
    char *marks = llm_array_reserve(j->marks.items, &j->marks.capacity,
                                    j->marks.n + part.size, 1);
    if (!marks)
        return CLV_ERR_NO_MEMORY;
    j->marks.items = marks;
    memset(marks + j->marks.n, 0, part.size);
    j->marks.n += part.size;
    return CLV_OK;
}

clv_status llm_text_add_word(llm_jinja *j, const char *word)
{
    return llm_text_add(j, (llm_text){word, NULL, strlen(word)});
}

clv_status llm_text_add_point(llm_jinja *j, uint32_t point, bool marked)
{
    static const char marks[4] = {1, 1, 1, 1};
    char bytes[4];
    const uint32_t n = llm_utf8_encode(point, bytes);
    return llm_text_add(j, (llm_text){bytes, marked ? marks : NULL, n});
}

clv_status llm_text_end(llm_jinja *j, uint64_t begin, llm_text *out)
{
    const uint64_t n = j->text.n - begin;
    const char *marks = j->marks.items + begin;
    const bool marked = n && memchr(marks, 1, n);
    char *copy = llm_jinja_alloc(j, marked ? 2 * n : n, 1);
    if (!copy)
        return CLV_ERR_LIMIT;
    if (n)
        memcpy(copy, j->text.items + begin, n);
    if (marked)
        memcpy(copy + n, marks, n);
    j->text.n = j->marks.n = begin;
    *out = (llm_text){copy, marked ? copy + n : NULL, n};
    return CLV_OK;
}

clv_status llm_text_end_value(llm_jinja *j, uint64_t begin, llm_value *out)
{
    llm_text text;
    CLV_TRY(llm_text_end(j, begin, &text));
    *out = llm_value_text(text);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* Those of Unicode's SpecialCasing, and the digraphs with a title case. */
static bool is_special_case(uint32_t p)
{
    return p == 0xdf || p == 0x130 || p == 0x149 || p == 0x1f0 || p == 0x390 ||
           p == 0x3b0 || p == 0x3a3 || p == 0x587 ||
           (p >= 0x1c4 && p <= 0x1cc) || (p >= 0x1f1 && p <= 0x1f3) ||
           (p >= 0x1e96 && p <= 0x1e9a) || (p >= 0x1f50 && p <= 0x1ffc) ||
           (p >= 0xfb00 && p <= 0xfb17);
}

bool llm_text_is_cased(uint32_t point, bool *upper)
{
    const utf8proc_category_t category =
        utf8proc_category((utf8proc_int32_t)point);
    *upper = category == UTF8PROC_CATEGORY_LU;
    return *upper || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

static uint32_t change_case(uint32_t point, llm_text_case to)
{
    const utf8proc_int32_t p = (utf8proc_int32_t)point;
    return (uint32_t)(to == LLM_CASE_UPPER   ? utf8proc_toupper(p)
                      : to == LLM_CASE_LOWER ? utf8proc_tolower(p)
                                             : utf8proc_totitle(p));
}

clv_status llm_text_add_case(llm_jinja *j, llm_text text, llm_text_case to)
{
    CLV_TRY(llm_jinja_work(j, text.size / 8));
    for (uint64_t at = 0; at < text.size; at = llm_text_next(text, at)) {
        const uint32_t point = llm_text_point(text, at);
        if (is_special_case(point))
            return llm_jinja_unknown(j, "changing the case of U+%04X", point);
        CLV_TRY(llm_text_add_point(j, change_case(point, to),
                                   text.marks && text.marks[at]));
    }
    return CLV_OK;
}
