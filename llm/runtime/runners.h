/*
 * The runners of a session: which one a batch of n tokens runs by, and which
 * are kept.
 *
 * Devices that take any shape share one graph of up to n_batch tokens (one more
 * where all logits are wanted, and one for single tokens). Where a device has
 * static shapes, a run has one length: n, or n rounded up to lengths that such
 * devices have or to a sum of two or three of them, whichever plan has the
 * least predicted time; without predictions n itself, or the first of the
 * others that can be planned at all. Saved plans decide where one was made for
 * one of these graphs.
 *
 * Texts have a different length each time, and making a runner costs: planning,
 * compiling, programs and memory. So
 *
 *   - a runner that is there is used without planning if it pads n by no more
 *     than a sixteenth;
 *   - else the lengths are planned, and a runner that is there, however long,
 *     goes on being used for n until what it wasted against the best plan is
 *     what compiling took last time (rent or buy: at most twice the cost of
 *     having known);
 *   - long texts run in whole batches, all by one runner, and then the rest;
 *   - LLM_MAX_RUNNERS are kept, the latest used; fewer where a device refuses
 *     more for want of memory or room for programs.
 */
#pragma once

#include "lengths.h"
#include "runner.h"

#define LLM_MAX_RUNNERS 8
#define LLM_MAX_CHOICES 32

/* By what a batch of n tokens runs. */
typedef struct llm_choice {
    uint32_t n;
    bool all_logits;
    bool prepared; /* the best plan, whatever was there */
    llm_shape shape;
    double waste_ns;  /* of each run against the best plan, */
    double wasted_ns; /* and of all of them */
} llm_choice;

typedef struct llm_runners {
    clv_model *model;
    const llm_kv_cache *cache;
    uint32_t n_batch;
    llm_runner_params params; /* devices: owned, those left, or NULL: all of the
                                 context; plans: the session's */
    bool fixed;               /* a device has static shapes */
    int64_t *lengths; /* that static devices have; NULL: not asked yet */
    uint32_t n_lengths;
    llm_runner *items[LLM_MAX_RUNNERS]; /* the latest used first */
    uint32_t n;
    double compile_ns; /* of the latest runner of one length */
    llm_choice choices[LLM_MAX_CHOICES];
    uint32_t n_choices; /* so far; the latest LLM_MAX_CHOICES are kept */
} llm_runners;

/* Sets the devices, of which lost ones are left out, and forgets all that was
 * made for others. devices: NULL: all of the context. plans are not copied. */
clv_status llm_runners_reset(llm_runners *r, clv_device *const *devices,
                             uint32_t n_devices, char *const *plans,
                             uint32_t n_plans);
void llm_runners_finish(llm_runners *r);

typedef struct llm_request {
    uint32_t n;    /* tokens, 1..n_batch */
    uint32_t room; /* positions left in the cache, at least n */
    bool all_logits;
    bool prepare; /* by the best plan, whatever is there */
} llm_request;

/* *out is ready to run, and stays until the next call. */
clv_status llm_runners_get(llm_runners *r, const llm_request *request,
                           llm_runner **out);
/* *out is one of the runners, or a new one that is planned but not compiled:
 * the caller's. */
clv_status llm_runners_choose(llm_runners *r, const llm_request *request,
                              llm_runner **out);
/* Shapes of one length that may serve the request, best guess first. */
clv_status llm_runners_fixed_shapes(llm_runners *r, const llm_request *request,
                                    llm_shape shapes[LLM_MAX_TRIED],
                                    uint32_t *n);
/* clv_session_profile() for lengths of 1..n_batch. */
clv_status llm_runners_profile(llm_runners *r, const uint32_t *lengths,
                               uint32_t n, uint32_t room,
                               const clv_profile_params *params);
/* NULL: none of this shape is there. */
llm_runner *llm_runners_find(const llm_runners *r, const llm_shape *shape);
bool llm_runners_hold(const llm_runners *r, const llm_runner *runner);
