#include "unigram.h"

#include "../base/utf8.h"

#include <string.h>

/* What SentencePiece takes off the lowest score for an unknown character. */
#define UNKNOWN_PENALTY 10.0

static llm_str key_of(const llm_vocab *vocab, uint32_t id)
{
    const llm_token *token = &vocab->tokens[id];
    return vocab->byte_level ? llm_token_bytes(token) : llm_token_text(token);
}

static int compare(const void *a, const void *b, void *arg)
{
    const llm_vocab *vocab = arg;
    const llm_str x = key_of(vocab, *(const uint32_t *)a);
    const llm_str y = key_of(vocab, *(const uint32_t *)b);
    const uint64_t n = x.size < y.size ? x.size : y.size;
    const int order = memcmp(x.data, y.data, n);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

clv_status llm_unigram_init(llm_unigram *u, const llm_vocab *vocab)
{
    double least = 0;
    u->ids = malloc((vocab->n ? vocab->n : 1) * sizeof *u->ids);
    if (!u->ids)
        return llm_no_memory("tokens");
    for (uint32_t id = 0; id < vocab->n; id++) {
        const llm_token *token = &vocab->tokens[id];
        if (!token->text_size || !llm_token_is_mergeable(token))
            continue;
        if (token->score < least)
            least = token->score;
        u->ids[u->n++] = id;
    }
    u->unknown = least - UNKNOWN_PENALTY;
    qsort_r(u->ids, u->n, sizeof *u->ids, compare, (void *)(uintptr_t)vocab);
    return CLV_OK;
}

void llm_unigram_finish(llm_unigram *u)
{
    free(u->ids);
    *u = (llm_unigram){0};
}

void llm_unigram_work_finish(llm_unigram_work *work)
{
    free(work->ends.items);
    *work = (llm_unigram_work){0};
}

/* The first of ids[low..high) whose byte at depth is at least `byte`. All are
 * longer than depth and have the bytes before it in common. */
static uint32_t bound(const llm_unigram *u, const llm_vocab *vocab,
                      uint32_t low, uint32_t high, uint64_t depth, int byte)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)key_of(vocab, u->ids[middle]).data[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void offer(llm_unigram_work *work, uint64_t from, uint32_t size,
                  double score, int32_t id)
{
    llm_unigram_end *end = &work->ends.items[from + size];
    score += work->ends.items[from].score;
    if (!end->size || score > end->score)
        *end = (llm_unigram_end){score, size, id};
}

/* Offers every token that text begins with, and its first character where that
 * is none. */
static void offer_all(const llm_unigram *u, const llm_vocab *vocab,
                      llm_unigram_work *work, const char *text, uint64_t n,
                      uint64_t from)
{
    uint32_t low = 0, high = u->n;
    uint32_t character = llm_utf8_size(text + from, n - from);
    bool single = false;
    if (!character)
        character = 1;
    for (uint64_t depth = 0; from + depth < n; depth++) {
        const int byte = (uint8_t)text[from + depth];
        low = bound(u, vocab, low, high, depth, byte);
        high = bound(u, vocab, low, high, depth, byte + 1);
        if (low == high)
            break;
        const uint32_t id = u->ids[low];
        const uint32_t size = (uint32_t)depth + 1;
        if (key_of(vocab, id).size != size)
            continue;
        offer(work, from, size, vocab->tokens[id].score, (int32_t)id);
        single = single || size == character;
        while (low < high && key_of(vocab, u->ids[low]).size == size)
            low++; /* longer ones remain */
    }
    if (!single)
        offer(work, from, character, u->unknown, -1);
}

clv_status llm_unigram_split(const llm_unigram *u, const llm_vocab *vocab,
                             llm_unigram_work *work, const char *text,
                             uint64_t n)
{
    llm_unigram_end *ends =
        llm_array_reserve(work->ends.items, &work->ends.capacity, n + 1,
                          sizeof *work->ends.items);
    if (!ends)
        return CLV_ERR_NO_MEMORY;
    work->ends.items = ends;
    memset(ends, 0, (n + 1) * sizeof *ends);
    for (uint64_t at = 0; at < n; at++)
        if (!at || ends[at].size)
            offer_all(u, vocab, work, text, n, at);
    /* Backwards: each part moves from its end to its beginning. */
    llm_unigram_end part = ends[n];
    for (uint64_t at = n; at;) {
        at -= part.size;
        const llm_unigram_end before = ends[at];
        ends[at] = part;
        part = before;
    }
    return CLV_OK;
}
