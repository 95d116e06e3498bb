/*
 * Turns a piece of text into tokens by merging neighbours, the best pair first:
 * by the rank of the pair (byte pair encoding), or by the score of the merged
 * token (SentencePiece). Both take O(n log n) for n bytes.
 */
#pragma once

#include "unigram.h"

/* The token that two tokens merge into. */
typedef struct llm_merge {
    uint32_t left, right;
    int32_t id;
} llm_merge;

typedef struct llm_merges {
    llm_merge *items; /* [n], by rank: the first merges first */
    uint32_t n;
    uint32_t *slots; /* [mask + 1], index + 1 by hash of left and right; 0:
                        free */
    uint32_t mask;
} llm_merges;

clv_status llm_merges_init(llm_merges *merges, uint32_t n);
void llm_merges_finish(llm_merges *merges);
/* The one of the next rank; at most n times, as told to init. A second merge of
 * a pair has no effect. */
void llm_merges_add(llm_merges *merges, llm_merge merge);
/* NULL if the two do not merge. */
const llm_merge *llm_merges_find(const llm_merges *merges, int32_t left,
                                 int32_t right);

typedef enum llm_merge_order {
    LLM_MERGE_RANK = 0,
    LLM_MERGE_SCORE = 1,
    LLM_MERGE_UNIGRAM = 2, /* no merging: unigram.h */
} llm_merge_order;

/* How pieces become tokens. */
typedef struct llm_merge_model {
    llm_merge_order order;
    llm_merges merges; /* by rank only */
    llm_unigram unigram;
    bool whole_first;  /* a piece that is a token is not merged from parts */
    bool fuse_unknown; /* neighbouring unknown characters are one token */
    int32_t unknown;   /* -1: none */
} llm_merge_model;

typedef struct llm_symbol {
    uint32_t start, size; /* bytes of the piece; size 0: merged away */
    int32_t id;           /* -1: no token */
    int32_t prev, next;   /* -1: none */
} llm_symbol;

typedef struct llm_candidate {
    uint64_t order; /* the lowest merges first: rank or score, then position */
    int32_t left, right;
    uint32_t
        size; /* of both; if it has changed, the candidate is out of date */
    int32_t id;
} llm_candidate;

/* Buffers of one thread. They start as zeros. */
typedef struct llm_merge_work {
    struct {
        llm_symbol *items;
        uint64_t n, capacity;
    } symbols;
    struct {
        llm_candidate *items;
        uint64_t n, capacity;
    } heap;
    llm_unigram_work unigram;
} llm_merge_work;

void llm_merge_work_finish(llm_merge_work *work);

/* Appends the tokens of n bytes, any bytes. Text that no token covers
 * becomes the unknown token, or U+FFFD if there is none; CLV_ERR_UNSUPPORTED if
 * there is neither. */
clv_status llm_merge_piece(const llm_vocab *vocab, const llm_merge_model *model,
                           llm_merge_work *work, const char *piece, uint64_t n,
                           llm_ids *out);
