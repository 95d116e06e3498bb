#include "merge.h"
#include "../base/utf8.h"

#include <string.h>

/* ------------------------------------------------------------------------ */
/* Table                                                                    */

clv_status llm_merges_init(llm_merges *merges, uint32_t n)
{
    uint64_t size = 16;
    while (size / 4 * 3 < n)
        size *= 2;
    merges->items = malloc((n ? n : 1) * sizeof *merges->items);
    merges->slots = calloc(size, sizeof *merges->slots);
    if (!merges->items || !merges->slots)
        return llm_no_memory("merges");
    merges->mask = (uint32_t)(size - 1);
    return CLV_OK;
}

void llm_merges_finish(llm_merges *merges)
{
    free(merges->items);
    free(merges->slots);
    *merges = (llm_merges){0};
}

static uint32_t *slot_of(const llm_merges *merges, uint32_t left,
                         uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    uint32_t slot = (uint32_t)(h >> 32) & merges->mask;
    for (;; slot = (slot + 1) & merges->mask) {
        uint32_t *found = &merges->slots[slot];
        if (!*found)
            return found;
        const llm_merge *merge = &merges->items[*found - 1];
        if (merge->left == left && merge->right == right)
            return found;
    }
}

void llm_merges_add(llm_merges *merges, llm_merge merge)
{
    uint32_t *slot = slot_of(merges, merge.left, merge.right);
    if (*slot)
        return;
    merges->items[merges->n++] = merge;
    *slot = merges->n;
}

const llm_merge *llm_merges_find(const llm_merges *merges, int32_t left,
                                 int32_t right)
{
    if (left < 0 || right < 0)
        return NULL;
    const uint32_t found = *slot_of(merges, (uint32_t)left, (uint32_t)right);
    return found ? &merges->items[found - 1] : NULL;
}

/* ------------------------------------------------------------------------ */
/* Queue                                                                    */

void llm_merge_work_finish(llm_merge_work *work)
{
    free(work->symbols.items);
    free(work->heap.items);
    llm_unigram_work_finish(&work->unigram);
    *work = (llm_merge_work){0};
}

static clv_status push(llm_merge_work *work, llm_candidate candidate)
{
    CLV_TRY(LLM_ARRAY_ADD(&work->heap, candidate));
    llm_candidate *heap = work->heap.items;
    uint64_t at = work->heap.n - 1;
    for (uint64_t up; at && candidate.order < heap[up = (at - 1) / 2].order;
         at = up)
        heap[at] = heap[up];
    heap[at] = candidate;
    return CLV_OK;
}

static llm_candidate pop(llm_merge_work *work)
{
    llm_candidate *heap = work->heap.items, top = heap[0];
    llm_candidate last = heap[--work->heap.n];
    uint64_t n = work->heap.n, at = 0;
    for (uint64_t down; (down = 2 * at + 1) < n; at = down) {
        if (down + 1 < n && heap[down + 1].order < heap[down].order)
            down++;
        if (last.order <= heap[down].order)
            break;
        heap[at] = heap[down];
    }
    heap[at] = last;
    return top;
}

/* Unsigned numbers in the order of the scores, the highest score first. */
static uint32_t score_order(float score)
{
    uint32_t bits;
    score += 0.0f; /* no negative zero */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7fffffffu - bits;
}

typedef struct merging {
    const llm_vocab *vocab;
    const llm_merge_model *model;
    llm_merge_work *work;
    const char *piece;
} merging;

static clv_status consider(const merging *m, int32_t left, int32_t right)
{
    if (left < 0 || right < 0)
        return CLV_OK;
    const llm_symbol *a = &m->work->symbols.items[left];
    const llm_symbol *b = &m->work->symbols.items[right];
    uint32_t order;
    int32_t id;
    if (m->model->order == LLM_MERGE_RANK) {
        const llm_merge *merge =
            llm_merges_find(&m->model->merges, a->id, b->id);
        if (!merge)
            return CLV_OK;
        order = (uint32_t)(merge - m->model->merges.items);
        id = merge->id;
    } else {
        id = llm_vocab_find(m->vocab, m->piece + a->start,
                            (uint64_t)a->size + b->size);
        if (id < 0 || !llm_token_is_mergeable(&m->vocab->tokens[id]))
            return CLV_OK;
        order = score_order(m->vocab->tokens[id].score);
    }
    return push(m->work,
                (llm_candidate){.order = (uint64_t)order << 32 | (uint32_t)left,
                                .left = left,
                                .right = right,
                                .size = a->size + b->size,
                                .id = id});
}

static clv_status merge_all(const merging *m)
{
    llm_symbol *symbols = m->work->symbols.items;
    while (m->work->heap.n) {
        llm_candidate best = pop(m->work);
        llm_symbol *left = &symbols[best.left], *right = &symbols[best.right];
        if (!left->size || !right->size ||
            left->size + right->size != best.size)
            continue;
        left->size = best.size;
        left->id = best.id;
        left->next = right->next;
        right->size = 0;
        if (left->next >= 0)
            symbols[left->next].prev = best.left;
        CLV_TRY(consider(m, left->prev, best.left));
        CLV_TRY(consider(m, best.left, left->next));
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Pieces                                                                   */

static clv_status add_symbol(llm_merge_work *work, uint32_t start,
                             uint32_t size, int32_t id)
{
    const int32_t n = (int32_t)work->symbols.n;
    const llm_symbol symbol = {start, size, id, n - 1, n + 1};
    return LLM_ARRAY_ADD(&work->symbols, symbol);
}

/* Adds the character at `at`, or its bytes if the vocabulary has tokens for
 * these only. */
static clv_status add_character(const merging *m, uint64_t n, uint32_t at,
                                uint32_t *size)
{
    const llm_vocab *vocab = m->vocab;
    const uint8_t *text = (const uint8_t *)m->piece + at;
    *size = vocab->byte_level ? 1 : llm_utf8_size(m->piece + at, n - at);
    if (!*size)
        *size = 1;
    int32_t id = vocab->byte_level
                     ? vocab->byte_ids[*text]
                     : llm_vocab_find(vocab, m->piece + at, *size);
    if (id >= 0 && !llm_token_is_mergeable(&vocab->tokens[id]))
        id = -1;
    bool spelled = id < 0;
    for (uint32_t i = 0; i < *size; i++)
        spelled = spelled && vocab->byte_ids[text[i]] >= 0;
    /* By score, characters without a token may still merge into one. */
    if (!spelled || m->model->order == LLM_MERGE_SCORE)
        return add_symbol(m->work, at, *size, id);
    for (uint32_t i = 0; i < *size; i++)
        CLV_TRY(add_symbol(m->work, at + i, 1, vocab->byte_ids[text[i]]));
    return CLV_OK;
}

static clv_status add_missing(const merging *m, const llm_symbol *symbol,
                              bool *unknown, llm_ids *out)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const int32_t *byte_ids = m->vocab->byte_ids;
    const uint8_t *text = (const uint8_t *)m->piece + symbol->start;
    uint32_t n = symbol->size;
    bool fuse = *unknown && m->model->fuse_unknown;
    bool spelled = true;
    *unknown = false;
    for (uint32_t i = 0; i < n; i++)
        spelled = spelled && byte_ids[text[i]] >= 0;
    if (!spelled && m->model->unknown >= 0) {
        *unknown = true;
        return fuse ? CLV_OK : llm_ids_append(out, m->model->unknown);
    }
    if (!spelled) {
        int32_t id = m->vocab->byte_level
                         ? -1
                         : llm_vocab_find(m->vocab, replacement, 3);
        if (id >= 0)
            return llm_ids_append(out, id);
        text = (const uint8_t *)replacement;
        n = 3;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (byte_ids[text[i]] < 0)
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "the vocabulary has no token "
                             "for byte 0x%02x, and none for unknown text",
                             (uint8_t)m->piece[symbol->start]);
        CLV_TRY(llm_ids_append(out, byte_ids[text[i]]));
    }
    return CLV_OK;
}

/* The symbols of a piece, once all is merged. */
static clv_status find_symbols(const merging *m, uint64_t n)
{
    llm_merge_work *work = m->work;
    work->symbols.n = work->heap.n = 0;
    if (m->model->order == LLM_MERGE_UNIGRAM) {
        CLV_TRY(llm_unigram_split(&m->model->unigram, m->vocab, &work->unigram,
                                  m->piece, n));
        const llm_unigram_end *parts = work->unigram.ends.items;
        for (uint64_t at = 0; at < n; at += parts[at].size)
            CLV_TRY(
                add_symbol(work, (uint32_t)at, parts[at].size, parts[at].id));
    } else {
        for (uint32_t at = 0, size; at < n; at += size)
            CLV_TRY(add_character(m, n, at, &size));
    }
    const int32_t count = (int32_t)work->symbols.n;
    work->symbols.items[count - 1].next = -1;
    if (m->model->order == LLM_MERGE_UNIGRAM)
        return CLV_OK;
    for (int32_t i = 1; i < count; i++)
        CLV_TRY(consider(m, i - 1, i));
    return merge_all(m);
}

clv_status llm_merge_piece(const llm_vocab *vocab, const llm_merge_model *model,
                           llm_merge_work *work, const char *piece, uint64_t n,
                           llm_ids *out)
{
    if (!n)
        return CLV_OK;
    if (model->whole_first) {
        int32_t id = llm_vocab_find(vocab, piece, n);
        if (id >= 0 && llm_token_is_mergeable(&vocab->tokens[id]))
            return llm_ids_append(out, id);
    }

    merging m = {vocab, model, work, piece};
    CLV_TRY(find_symbols(&m, n));

    bool unknown = false;
    for (int32_t i = 0; i >= 0;) {
        const llm_symbol *symbol = &work->symbols.items[i];
        if (symbol->id < 0) {
            CLV_TRY(add_missing(&m, symbol, &unknown, out));
        } else {
            unknown = false;
            CLV_TRY(llm_ids_append(out, symbol->id));
        }
        i = symbol->next;
    }
    return CLV_OK;
}
