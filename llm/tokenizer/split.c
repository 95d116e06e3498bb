#include "split.h"
#include "../base/utf8.h"

#include <string.h>

clv_status llm_splitter_add(llm_splitter *splitter, llm_step step)
{
    clv_status status = LLM_ARRAY_ADD(splitter, step);
    if (status)
        llm_regex_destroy(step.pattern);
    return status;
}

clv_status llm_splitter_add_pattern(llm_splitter *splitter, const char *pattern)
{
    llm_step step = {.kind = LLM_STEP_SPLIT};
    CLV_TRY(llm_regex_create(llm_str_of(pattern), false, &step.pattern));
    return llm_splitter_add(splitter, step);
}

void llm_splitter_finish(llm_splitter *splitter)
{
    for (uint64_t i = 0; i < splitter->n; i++)
        llm_regex_destroy(splitter->items[i].pattern);
    free(splitter->items);
    *splitter = (llm_splitter){0};
}

void llm_splitting_finish(llm_splitting *work)
{
    free(work->buffers[0].items);
    free(work->buffers[1].items);
    free(work->valid.items);
    free(work->spelled.items);
    free(work->pieces.items);
    free(work->next.items);
    free(work->matches.items);
    *work = (llm_splitting){0};
}

/* ------------------------------------------------------------------------ */
/* Splitting                                                                */

/* Splits one piece from left to right. */
typedef struct cutter {
    const llm_step *step;
    llm_spans *out;
    uint64_t base;     /* where the piece starts in the text */
    bool any, matched; /* there is a part already; the last was a match */
} cutter;

static clv_status cut(cutter *c, uint64_t start, uint64_t end, bool match)
{
    if (start == end)
        return CLV_OK;
    match = match != c->step->invert;
    bool join = false;
    switch (c->step->mode) {
    case LLM_SPLIT_ISOLATED:
        break;
    case LLM_SPLIT_REMOVED:
        if (match)
            return CLV_OK;
        break;
    case LLM_SPLIT_CONTIGUOUS:
        join = c->any && match && c->matched;
        break;
    case LLM_SPLIT_WITH_PREVIOUS:
        join = c->any && match && !c->matched;
        break;
    case LLM_SPLIT_WITH_NEXT:
        join = c->any && !match && c->matched;
        break;
    }
    c->any = true;
    c->matched = match;
    if (!join)
        return llm_spans_append(c->out, c->base + start, c->base + end);
    c->out->items[c->out->n - 1].size += (uint32_t)(end - start);
    return CLV_OK;
}

/* Converts matches in the spelled text, where each byte is one character, to
 * bytes of the piece. */
static void unspell(const char *spelled, llm_spans *matches)
{
    uint64_t at = 0, byte = 0;
    for (uint64_t i = 0; i < matches->n; i++) {
        llm_span *match = &matches->items[i];
        uint64_t end = (uint64_t)match->start + match->size, start = 0;
        for (; at < match->start; at++)
            byte += (spelled[at] & 0xc0) != 0x80;
        start = byte;
        for (; at < end; at++)
            byte += (spelled[at] & 0xc0) != 0x80;
        *match = (llm_span){(uint32_t)start, (uint32_t)(byte - start)};
    }
}

static clv_status find_matches(const llm_step *step, llm_splitting *work,
                               llm_matcher *matcher, const char *valid,
                               llm_span piece)
{
    if (!step->spelled)
        return llm_regex_all(step->pattern, matcher, valid + piece.start,
                             piece.size, &work->matches);
    work->spelled.n = 0;
    for (uint32_t i = 0; i < piece.size; i++) {
        char text[2];
        uint32_t size =
            llm_vocab_spell_byte((uint8_t)work->text[piece.start + i], text);
        CLV_TRY(llm_bytes_append(&work->spelled, text, size));
    }
    CLV_TRY(llm_regex_all(step->pattern, matcher, work->spelled.items,
                          work->spelled.n, &work->matches));
    unspell(work->spelled.items, &work->matches);
    return CLV_OK;
}

static clv_status split_step(const llm_step *step, llm_splitting *work,
                             llm_matcher *matcher, uint64_t n)
{
    const char *valid = llm_utf8_valid(work->text, n, &work->valid);
    if (!valid)
        return CLV_ERR_NO_MEMORY;
    work->next.n = 0;
    for (uint64_t i = 0; i < work->pieces.n; i++) {
        llm_span piece = work->pieces.items[i];
        CLV_TRY(find_matches(step, work, matcher, valid, piece));
        cutter c = {.step = step, .out = &work->next, .base = piece.start};
        uint64_t at = 0;
        for (uint64_t k = 0; k < work->matches.n; k++) {
            llm_span match = work->matches.items[k];
            uint64_t end = (uint64_t)match.start + match.size;
            CLV_TRY(cut(&c, at, match.start, false));
            CLV_TRY(cut(&c, match.start, end, true));
            at = end;
        }
        CLV_TRY(cut(&c, at, piece.size, false));
    }
    llm_spans swap = work->pieces;
    work->pieces = work->next;
    work->next = swap;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Rewriting                                                                */

static clv_status rewrite_piece(const llm_step *step, llm_splitting *work,
                                llm_matcher *matcher, llm_str piece,
                                bool at_start, llm_bytes *out)
{
    llm_str content = step->content;
    if (step->kind == LLM_STEP_PREPEND) {
        bool there = piece.size >= content.size &&
                     !memcmp(piece.data, content.data, content.size);
        if (!there && (at_start || !step->first_only))
            CLV_TRY(llm_bytes_append(out, content.data, content.size));
        return llm_bytes_append(out, piece.data, piece.size);
    }
    const char *valid = llm_utf8_valid(piece.data, piece.size, &work->valid);
    if (!valid)
        return CLV_ERR_NO_MEMORY;
    CLV_TRY(llm_regex_all(step->pattern, matcher, valid, piece.size,
                          &work->matches));
    return llm_replace(piece, &work->matches, content, out);
}

/* Rewrites all pieces into the buffer that does not hold them now. */
static clv_status rewrite_step(const llm_step *step, llm_splitting *work,
                               llm_matcher *matcher, bool at_start, uint64_t *n)
{
    llm_bytes *to = &work->buffers[work->text == work->buffers[0].items];
    to->n = 0;
    for (uint64_t i = 0; i < work->pieces.n; i++) {
        llm_span *piece = &work->pieces.items[i];
        uint64_t start = to->n;
        CLV_TRY(rewrite_piece(step, work, matcher,
                              (llm_str){work->text + piece->start, piece->size},
                              at_start && piece->start == 0, to));
        if (to->n > INT32_MAX)
            return clv_error(CLV_ERR_LIMIT,
                             "text of more than %d bytes once "
                             "its spaces are spelled out; give it in smaller "
                             "parts",
                             INT32_MAX);
        *piece = (llm_span){(uint32_t)start, (uint32_t)(to->n - start)};
    }
    work->text = to->items;
    *n = to->n;
    return CLV_OK;
}

clv_status llm_split(const llm_splitter *splitter, llm_splitting *work,
                     llm_matcher *matcher, llm_str text, bool at_start)
{
    work->text = text.data;
    work->pieces.n = 0;
    if (!text.size)
        return CLV_OK;
    uint64_t n = text.size;
    CLV_TRY(llm_spans_append(&work->pieces, 0, n));
    for (uint64_t i = 0; i < splitter->n; i++) {
        const llm_step *step = &splitter->items[i];
        if (step->kind == LLM_STEP_SPLIT)
            CLV_TRY(split_step(step, work, matcher, n));
        else
            CLV_TRY(rewrite_step(step, work, matcher, at_start, &n));
    }
    return CLV_OK;
}
