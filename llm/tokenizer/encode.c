#include "tokenizer.h"

#include <string.h>

/* The state of one call. */
typedef struct encoder {
    const clv_tokenizer *tok;
    llm_specials_wanted wanted;
    const char *goes_on; /* no front space is put here; NULL: nowhere */
    llm_matcher matcher;
    llm_rewriting rewriting;
    llm_splitting splitting;
    llm_merge_work merging;
    llm_ids ids;
} encoder;

/* at_start: text is the start of the whole text. */
static clv_status encode_plain(encoder *e, llm_str text, bool at_start)
{
    const clv_tokenizer *tok = e->tok;
    CLV_TRY(
        llm_split(&tok->splitter, &e->splitting, &e->matcher, text, at_start));
    for (uint64_t i = 0; i < e->splitting.pieces.n; i++) {
        llm_span piece = e->splitting.pieces.items[i];
        CLV_TRY(llm_merge_piece(&tok->vocab, &tok->model, &e->merging,
                                e->splitting.text + piece.start, piece.size,
                                &e->ids));
    }
    return CLV_OK;
}

typedef clv_status (*encode_fn)(encoder *e, llm_str text, bool at_start);

/* Adds the special tokens of a set, and calls encode for the text between them.
 */
static clv_status encode_between(encoder *e, const llm_specials *specials,
                                 llm_specials_wanted wanted, llm_str text,
                                 bool at_start, encode_fn encode)
{
    uint64_t at = 0;
    while (true) {
        llm_span taken = {(uint32_t)text.size, 0};
        int32_t id;
        bool found = llm_specials_next(specials, text.data, text.size, at,
                                       &wanted, &taken, &id);
        if (taken.start > at)
            CLV_TRY(encode(e, (llm_str){text.data + at, taken.start - at},
                           at_start && at == 0));
        if (!found)
            return CLV_OK;
        CLV_TRY(llm_ids_append(&e->ids, id));
        at = (uint64_t)taken.start + taken.size;
    }
}

static clv_status encode_fragment(encoder *e, llm_str text, bool at_start)
{
    llm_specials_wanted wanted = e->wanted;
    llm_str rewritten;
    CLV_TRY(llm_normalize(&e->tok->normalizer, &e->rewriting, &e->matcher, text,
                          text.data != e->goes_on, &rewritten));
    /* Once it is rewritten, nobody knows which part was plain. */
    if (rewritten.data != text.data) {
        wanted.control &=
            !llm_specials_is_plain(&e->wanted, text.data, text.size);
        wanted.n_plain = 0;
    }
    return encode_between(e, &e->tok->normalized, wanted, rewritten, at_start,
                          encode_plain);
}

static clv_status encode_all(encoder *e, llm_str text, bool bos)
{
    e->ids.items = llm_array_reserve(NULL, &e->ids.capacity, text.size / 4 + 16,
                                     sizeof *e->ids.items);
    if (!e->ids.items)
        return CLV_ERR_NO_MEMORY;
    if (bos)
        CLV_TRY(llm_ids_append(&e->ids, e->tok->bos));
    return encode_between(e, &e->tok->specials, e->wanted, text,
                          e->goes_on == NULL, encode_fragment);
}

/* In order, apart and inside the text. */
static clv_status check_ranges(const clv_text_range *ranges, uint64_t n,
                               uint64_t length)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (ranges[i].start < at || ranges[i].start > length ||
            ranges[i].size > length - ranges[i].start)
            return clv_error(CLV_ERR_INVALID,
                             "range %llu of a text is not behind the one "
                             "before it and inside the text",
                             (unsigned long long)i);
        at = ranges[i].start + ranges[i].size;
    }
    return CLV_OK;
}

clv_status clv_tokenize(const clv_tokenizer *tok, const char *text,
                        uint64_t length, uint32_t flags, int32_t **ids,
                        uint64_t *n)
{
    return clv_tokenize_ranges(tok, text, length, flags, NULL, 0, ids, n);
}

clv_status clv_tokenize_ranges(const clv_tokenizer *tok, const char *text,
                               uint64_t length, uint32_t flags,
                               const clv_text_range *plain, uint64_t n_plain,
                               int32_t **ids, uint64_t *n)
{
    if (length > INT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "text of %llu bytes: at most %d are tokenized at "
                         "once; give it in smaller parts",
                         (unsigned long long)length, INT32_MAX);
    CLV_TRY(check_ranges(plain, n_plain, length));
    encoder e = {.tok = tok,
                 .wanted = {.control = flags & CLV_TOKENIZE_SPECIAL,
                            .plain = plain,
                            .n_plain = n_plain,
                            .base = text},
                 .goes_on = flags & CLV_TOKENIZE_CONTINUE ? text : NULL};
    clv_status status = encode_all(&e, (llm_str){text, length},
                                   flags & CLV_TOKENIZE_BOS && tok->bos >= 0);
    llm_matcher_finish(&e.matcher);
    llm_rewriting_finish(&e.rewriting);
    llm_splitting_finish(&e.splitting);
    llm_merge_work_finish(&e.merging);
    if (status) {
        free(e.ids.items);
        return status;
    }
    *ids = e.ids.items;
    *n = e.ids.n;
    return CLV_OK;
}

void clv_tokens_free(int32_t *ids)
{
    free(ids);
}
