#include "internal.h"

#include <string.h>

/* One call's work. */
typedef struct encoder {
    const clv_tokenizer *tok;
    bool control; /* special tokens are recognised */
    llm_matcher matcher;
    llm_rewriting rewriting;
    llm_splitting splitting;
    llm_merge_work merging;
    llm_ids ids;
} encoder;

/* at_start: where the whole text starts. */
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

/* The special tokens of a set, and with encode what lies between them. */
static clv_status encode_between(encoder *e, const llm_specials *specials,
                                 llm_str text, bool at_start, encode_fn encode)
{
    clv_status status = CLV_OK;
    uint64_t at = 0;
    while (status == CLV_OK) {
        llm_span taken = {(uint32_t)text.size, 0};
        int32_t id;
        bool found = llm_specials_next(specials, text.data, text.size, at,
                                       e->control, &taken, &id);
        if (taken.start > at)
            status = encode(e, (llm_str){text.data + at, taken.start - at},
                            at_start && at == 0);
        if (!found)
            break;
        if (!status)
            status = llm_ids_append(&e->ids, id);
        at = (uint64_t)taken.start + taken.size;
    }
    return status;
}

static clv_status encode_fragment(encoder *e, llm_str text, bool at_start)
{
    CLV_TRY(llm_normalize(&e->tok->normalizer, &e->rewriting, &e->matcher, text,
                          &text));
    return encode_between(e, &e->tok->normalized, text, at_start, encode_plain);
}

clv_status clv_tokenize(const clv_tokenizer *tok, const char *text,
                        uint64_t length, uint32_t flags, int32_t **ids,
                        uint64_t *n)
{
    if (length > INT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "text of %llu bytes: at most %d are "
                         "tokenized at once; give it in smaller parts",
                         (unsigned long long)length, INT32_MAX);
    encoder e = {.tok = tok, .control = flags & CLV_TOKENIZE_SPECIAL};
    int32_t *room =
        llm_array_reserve(NULL, &e.ids.capacity, length / 4 + 16, sizeof *room);
    if (!room)
        return CLV_ERR_NO_MEMORY;
    e.ids.items = room;
    clv_status status = CLV_OK;
    if (flags & CLV_TOKENIZE_BOS && tok->bos >= 0)
        status = llm_ids_append(&e.ids, tok->bos);
    if (!status)
        status = encode_between(&e, &tok->specials, (llm_str){text, length},
                                true, encode_fragment);
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
