#include "normalize.h"
#include "../base/utf8.h"

#include <utf8proc.h>

clv_status llm_normalizer_add(llm_normalizer *normalizer, llm_rewrite rewrite)
{
    clv_status status = LLM_ARRAY_ADD(normalizer, rewrite);
    if (status)
        llm_regex_destroy(rewrite.pattern);
    return status;
}

void llm_normalizer_finish(llm_normalizer *normalizer)
{
    for (uint64_t i = 0; i < normalizer->n; i++)
        llm_regex_destroy(normalizer->items[i].pattern);
    free(normalizer->items);
    *normalizer = (llm_normalizer){0};
}

void llm_rewriting_finish(llm_rewriting *work)
{
    free(work->buffers[0].items);
    free(work->buffers[1].items);
    free(work->valid.items);
    free(work->matches.items);
    *work = (llm_rewriting){0};
}

clv_status llm_replace(llm_str text, const llm_spans *matches, llm_str content,
                       llm_bytes *out)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < matches->n; i++) {
        llm_span match = matches->items[i];
        CLV_TRY(llm_bytes_append(out, text.data + at, match.start - at));
        CLV_TRY(llm_bytes_append(out, content.data, content.size));
        at = (uint64_t)match.start + match.size;
    }
    return llm_bytes_append(out, text.data + at, text.size - at);
}

static clv_status compose_valid(utf8proc_option_t form, llm_str text,
                                llm_bytes *out)
{
    utf8proc_uint8_t *form_text = NULL;
    utf8proc_ssize_t n = utf8proc_map(
        (const utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)text.size,
        &form_text, (utf8proc_option_t)(UTF8PROC_STABLE | form));
    if (n < 0)
        return clv_error(n == UTF8PROC_ERROR_NOMEM ? CLV_ERR_NO_MEMORY
                                                   : CLV_ERR_LIMIT,
                         "normalising %llu bytes of text: %s",
                         (unsigned long long)text.size, utf8proc_errmsg(n));
    clv_status status = llm_bytes_append(out, (char *)form_text, (uint64_t)n);
    free(form_text);
    return status;
}

/* Normalises each range between bytes that are not UTF-8. */
static clv_status compose(llm_rewrite_kind kind, llm_str text, llm_bytes *out)
{
    static const utf8proc_option_t forms[] = {
        [LLM_REWRITE_NFC] = UTF8PROC_COMPOSE,
        [LLM_REWRITE_NFD] = UTF8PROC_DECOMPOSE,
        [LLM_REWRITE_NFKC] =
            (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_COMPAT),
        [LLM_REWRITE_NFKD] =
            (utf8proc_option_t)(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT),
    };
    for (uint64_t at = 0; at < text.size;) {
        uint64_t end = at;
        bool ascii = true;
        for (uint32_t size; end < text.size; end += size) {
            size = llm_utf8_size(text.data + end, text.size - end);
            if (!size)
                break;
            ascii = ascii && size == 1;
        }
        llm_str valid = {text.data + at, end - at};
        if (ascii)
            CLV_TRY(llm_bytes_append(out, valid.data, valid.size));
        else
            CLV_TRY(compose_valid(forms[kind], valid, out));
        if (end < text.size)
            CLV_TRY(llm_bytes_append(out, text.data + end++, 1));
        at = end;
    }
    return CLV_OK;
}

static clv_status strip(const llm_rewrite *rewrite, llm_str text,
                        llm_bytes *out)
{
    uint64_t start = text.size, end = 0;
    for (uint64_t at = 0; at < text.size;) {
        uint32_t size = llm_utf8_size(text.data + at, text.size - at);
        bool space =
            size && llm_utf8_is_space(llm_utf8_decode(text.data + at, size));
        uint64_t next = at + (size ? size : 1);
        if (!space && start == text.size)
            start = at;
        if (!space)
            end = next;
        at = next;
    }
    if (!rewrite->left)
        start = 0;
    if (!rewrite->right || end < start)
        end = rewrite->right ? start : text.size;
    return llm_bytes_append(out, text.data + start, end - start);
}

static clv_status rewrite_once(const llm_rewrite *rewrite, llm_rewriting *work,
                               llm_matcher *matcher, llm_str text, bool front,
                               llm_bytes *out)
{
    const char *valid;
    switch (rewrite->kind) {
    case LLM_REWRITE_PREPEND:
        if (text.size && front)
            CLV_TRY(llm_bytes_append(out, rewrite->content.data,
                                     rewrite->content.size));
        return llm_bytes_append(out, text.data, text.size);
    case LLM_REWRITE_REPLACE:
        valid = llm_utf8_valid(text.data, text.size, &work->valid);
        if (!valid)
            return CLV_ERR_NO_MEMORY;
        CLV_TRY(llm_regex_all(rewrite->pattern, matcher, valid, text.size,
                              &work->matches));
        return llm_replace(text, &work->matches, rewrite->content, out);
    case LLM_REWRITE_STRIP:
        return strip(rewrite, text, out);
    default:
        return compose(rewrite->kind, text, out);
    }
}

clv_status llm_normalize(const llm_normalizer *normalizer, llm_rewriting *work,
                         llm_matcher *matcher, llm_str text, bool front,
                         llm_str *out)
{
    for (uint64_t i = 0; i < normalizer->n; i++) {
        llm_bytes *to = &work->buffers[i & 1];
        to->n = 0;
        CLV_TRY(rewrite_once(&normalizer->items[i], work, matcher, text, front,
                             to));
        text = (llm_str){to->items, to->n};
        if (to->n > INT32_MAX)
            return clv_error(CLV_ERR_LIMIT,
                             "text of more than %d bytes once "
                             "normalised; give it in smaller parts",
                             INT32_MAX);
    }
    *out = text;
    return CLV_OK;
}
