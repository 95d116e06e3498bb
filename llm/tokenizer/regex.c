#define PCRE2_CODE_UNIT_WIDTH 8

#include "regex.h"
#include "../base/utf8.h"
#include "regex_translate.h"

#include <pcre2.h>
#include <string.h>

#define MAX_PATTERN 65536
#define STACK_START (32 * 1024)
#define STACK_MAX (64 * 1024 * 1024)
#define HEAP_LIMIT_KIB (256 * 1024)
/* The most steps of a search: enough for ordinary patterns, which need a few
 * for each byte, and a limit for those that backtrack without end. */
#define BASE_STEPS 10000000u
#define STEPS_PER_BYTE 64u

struct llm_regex {
    pcre2_code *code;
    llm_shown shown; /* the pattern, for messages */
};

clv_status llm_regex_create(llm_str pattern, bool literal, llm_regex **out)
{
    /* In a text of spaces PCRE2 would try every start to the end of the spaces;
     * only the first can match. */
    static const char slow[] = "\\s+$", quick[] = "(?<!\\s)\\s++$";
    llm_bytes translated = {0};
    pcre2_compile_context *context = NULL;
    llm_regex *regex = NULL;
    clv_status status = CLV_OK;

    if (!literal && llm_str_equal(pattern, llm_str_of(slow)))
        pattern = llm_str_of(quick);
    if (pattern.size > MAX_PATTERN)
        return clv_error(CLV_ERR_LIMIT,
                         "regular expression of %llu bytes: at "
                         "most %d are supported",
                         (unsigned long long)pattern.size, MAX_PATTERN);
    if (literal)
        status = llm_bytes_append(&translated, pattern.data, pattern.size);
    else
        status = llm_regex_translate(pattern, &translated);
    if (status)
        goto done;

    regex = calloc(1, sizeof *regex);
    context = pcre2_compile_context_create(NULL);
    if (!regex || !context) {
        status = llm_no_memory("a regular expression");
        goto done;
    }
    regex->shown = llm_str_show(pattern);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);

    uint32_t options = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C;
    /* $ ends a line in Oniguruma. */
    options |= literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE;
    if (literal)
        options &= ~(uint32_t)PCRE2_NEVER_BACKSLASH_C;
    int code;
    PCRE2_SIZE offset;
    regex->code = pcre2_compile((PCRE2_SPTR)translated.items, translated.n,
                                options, &code, &offset, context);
    if (!regex->code) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        status = clv_error(CLV_ERR_UNSUPPORTED,
                           "regular expression '%s' is not understood: %s",
                           regex->shown.text, (const char *)why);
        goto done;
    }
    /* Without a compiler for this machine matching is interpreted. */
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    *out = regex;
    regex = NULL;
done:
    pcre2_compile_context_free(context);
    llm_regex_destroy(regex);
    free(translated.items);
    return status;
}

void llm_regex_destroy(llm_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    free(regex);
}

void llm_matcher_finish(llm_matcher *matcher)
{
    pcre2_match_data_free(matcher->match_data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    *matcher = (llm_matcher){0};
}

static clv_status prepare(llm_matcher *matcher)
{
    if (!matcher->match_data)
        matcher->match_data = pcre2_match_data_create(1, NULL);
    if (!matcher->context)
        matcher->context = pcre2_match_context_create(NULL);
    if (!matcher->stack) /* stays NULL where there is no JIT */
        matcher->stack = pcre2_jit_stack_create(STACK_START, STACK_MAX, NULL);
    if (!matcher->match_data || !matcher->context)
        return llm_no_memory("regular expressions");
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
    return CLV_OK;
}

static int match(const llm_regex *regex, llm_matcher *matcher, const char *text,
                 uint64_t n, uint64_t from)
{
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int count = pcre2_match(regex->code, (PCRE2_SPTR)text, n, from, options,
                            matcher->match_data, matcher->context);
    /* The interpreter has its state on the heap, which is larger. */
    if (count == PCRE2_ERROR_JIT_STACKLIMIT)
        count = pcre2_match(regex->code, (PCRE2_SPTR)text, n, from,
                            options | PCRE2_NO_JIT, matcher->match_data,
                            matcher->context);
    return count;
}

clv_status llm_regex_all(const llm_regex *regex, llm_matcher *matcher,
                         const char *text, uint64_t n, llm_spans *out)
{
    out->n = 0;
    CLV_TRY(prepare(matcher));
    uint64_t steps = BASE_STEPS + STEPS_PER_BYTE * n;
    pcre2_set_match_limit(matcher->context,
                          steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(matcher->match_data);

    uint64_t from = 0, last = UINT64_MAX;
    while (from <= n) {
        int count = match(regex, matcher, text, n, from);
        if (count == PCRE2_ERROR_NOMATCH)
            return CLV_OK;
        if (count < 0)
            return clv_error(CLV_ERR_LIMIT,
                             "splitting the text with '%s' "
                             "takes too many steps (PCRE2 error %d); give the "
                             "text in smaller parts",
                             regex->shown.text, count);
        uint64_t start = found[0], end = found[1];
        if (end > start || start != last) {
            /* \K can move a start past its end or before the last match. */
            if (start < (last == UINT64_MAX ? 0 : last) || end < start)
                return clv_error(CLV_ERR_UNSUPPORTED,
                                 "regular expression '%s' "
                                 "matches outside of its text",
                                 regex->shown.text);
            CLV_TRY(llm_spans_append(out, start, end));
        }
        last = end;
        from = end;
        if (end == start)
            from += end < n ? llm_utf8_size(text + end, n - end) : 1;
    }
    return CLV_OK;
}
