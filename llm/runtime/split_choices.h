/*
 * Choices of how to divide texts that a session has made. They are kept for
 * texts of about the same length and position, until runs show other costs.
 */
#pragma once

#include "runner.h"

#define LLM_SPLIT_BATCH 512u
/* What lengths of texts are counted in: half a batch. */
#define LLM_SPLIT_UNIT (LLM_SPLIT_BATCH / 2)
#define LLM_MAX_SPLITS 16

typedef struct llm_split {
    uint32_t length;   /* tokens of a batch, at most */
    uint32_t n_flight; /* whole batches at once */
    bool planned;      /* with a plan for several runs in flight */
    double plain_ns;   /* what llm_split_plain() should take; 0: not known */
} llm_split;

typedef struct llm_split_text {
    uint32_t n, position; /* tokens, and of the first */
    uint32_t n_ctx;
    bool far;
} llm_split_text;

typedef struct llm_split_choice {
    uint32_t n, whole, position; /* of a text, in units */
    llm_split split;
} llm_split_choice;

typedef struct llm_splits {
    uint32_t n_batch, n_flight; /* as asked for; 0: to be chosen */
    llm_split_choice choices[LLM_MAX_SPLITS]; /* the latest ones */
    uint32_t n_choices;                       /* so far */
} llm_splits;

/* Without choosing: what was asked for, or one batch at a time. */
llm_split llm_split_plain(const llm_splits *s);
/* False if none is kept for such texts; *out is set only if one is. */
bool llm_split_find(llm_splits *s, const llm_split_text *text, llm_split *out);
void llm_split_keep(llm_splits *s, const llm_split_text *text,
                    const llm_split *split);
/* Runs showed other costs. */
void llm_split_forget(llm_splits *s);
/* A text ran so, one batch at a time, and took so long. steady: its runs taught
 * nothing new. If they did, or longer batches than the plain ones took longer
 * than those should, choices are made again. */
void llm_split_review(llm_splits *s, const llm_split *split,
                      const llm_runner *runner, bool steady, double ns);
/* Batches of the text that were in flight took so long. */
void llm_split_judge(llm_splits *s, const llm_split_text *text,
                     const llm_runner *runner, double ns);
