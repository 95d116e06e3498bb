/*
 * How a long text is divided into batches: how many tokens each has, and how
 * many are in flight at once. What the caller did not ask for is chosen by the
 * forecast, for the text at hand:
 *
 *   - batches of LLM_SPLIT_BATCH tokens, of twice or four times as many, or of
 *     half as many. Where a device has static shapes, those that it has
 *     programs for. Where none has, shorter ones share a graph, so there are no
 *     half batches; of longer ones none is planned of which the text would need
 *     less than half;
 *   - one, two or four of them in flight, where several devices work for them;
 *   - for the length that is best so, a plan that is made for runs in flight.
 *
 * What takes more memory has to be 3% faster for it, and on devices in real
 * time 10%, as profiles are less sure there, unless both ways have run. Once
 * the plain one has, longer batches get a trial if they should not take over
 * 10% longer: models know little of what fills a device. Batches in flight that
 * then take longer than is forecast for one of LLM_SPLIT_BATCH at a time are
 * not used again. Beside all this a device that holds all weights has to hold
 * them still.
 *
 * Choices are kept for texts of about the same length and position.
 */
#pragma once

#include "runners.h"

#define LLM_SPLIT_BATCH 512u
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
/* The longest batch that may be chosen. */
uint32_t llm_split_most(const llm_splits *s);
/* Where nothing can be forecast it is the plain one. */
clv_status llm_split_choose(llm_splits *s, llm_runners *r,
                            const llm_split_text *text, llm_split *out);
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
