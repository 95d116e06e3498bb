/*
 * SentencePiece's unigram model: of all ways to divide a text into tokens, the
 * one with the highest sum of scores. Takes O(n) for n bytes and tokens of
 * bounded length.
 */
#pragma once

#include "vocab.h"

typedef struct llm_unigram {
    uint32_t *ids; /* [n], of tokens that a text can have, sorted by text */
    uint32_t n;
    double unknown; /* the score of a character without a token */
} llm_unigram;

/* Of an indexed vocabulary. */
clv_status llm_unigram_init(llm_unigram *unigram, const llm_vocab *vocab);
void llm_unigram_finish(llm_unigram *unigram);

/* How the best division of a text up to some byte ends. */
typedef struct llm_unigram_end {
    double score;
    uint32_t size; /* bytes of the last part; 0: none ends here */
    int32_t id;    /* -1: a character without a token */
} llm_unigram_end;

/* Buffers of one thread. They start as zeros. */
typedef struct llm_unigram_work {
    struct {
        llm_unigram_end *items;
        uint64_t n, capacity;
    } ends; /* [bytes + 1] */
} llm_unigram_work;

void llm_unigram_work_finish(llm_unigram_work *work);

/* Sets work->ends. Where a part of the best division begins, ends[begin].size
 * becomes that part's size and ends[begin].id its token. */
clv_status llm_unigram_split(const llm_unigram *unigram, const llm_vocab *vocab,
                             llm_unigram_work *work, const char *text,
                             uint64_t n);
