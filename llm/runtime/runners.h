/*
 * The compiled runners of a session, the most recently used ones.
 *
 * Devices that take any shape share graphs for up to 8 tokens, for up to 32,
 * and so on, and for up to n_batch (plus those where all logits are asked for,
 * and one for single tokens). Where a device has static shapes, a runner has
 * one length. choice.h says which runner a batch uses.
 *
 * At most LLM_MAX_RUNNERS are cached; fewer where a device has no more memory
 * or no more space for programs.
 */
#pragma once

#include "lengths.h"
#include "runner.h"

#define LLM_MAX_RUNNERS 8
#define LLM_MAX_CHOICES 32

/* The runner that was chosen for batches of n tokens. */
typedef struct llm_choice {
    uint32_t n;
    bool all_logits, apart, flight;
    bool prepared; /* it has the best plan; existing runners did not count */
    llm_shape shape;
    double waste_ns;  /* of one run, compared with the best plan */
    double wasted_ns; /* of all runs so far */
} llm_choice;

/* Whose weights come first where a device does not hold all of them;
 * residency.h. */
typedef struct llm_lead {
    uint32_t n;         /* tokens of the runs whose plan is made first; 0: that
                           is not chosen yet */
    uint32_t n_tokens;  /* of its graph */
    uint32_t n_choices; /* so far */
} llm_lead;

typedef struct llm_runners {
    clv_model *model;
    const llm_kv_cache *cache;
    uint32_t n_batch;
    uint32_t n_rows; /* tokens of a batch all logits of which are asked for, at
                        most: rows of a vocabulary are long */
    llm_runner_params params; /* devices: owned, those that are not lost, or
                                 NULL: all of the context; plans: the session's
                               */
    uint64_t memory;  /* bytes of the smallest device that does not hold all
                         weights */
    llm_work reserve; /* that the largest batch works on; 0: not known */
    llm_lead lead;
    bool fixed;       /* one of them has static shapes */
    int64_t *lengths; /* of static devices; NULL: not yet asked for */
    uint32_t n_lengths;
    llm_runner *items[LLM_MAX_RUNNERS]; /* the most recently used first */
    uint32_t n;
    double compile_ns; /* of the latest runner of one length */
    llm_choice choices[LLM_MAX_CHOICES]; /* the latest ones */
    uint32_t n_choices;                  /* so far */
} llm_runners;

/* Sets the devices, without those that are lost, and destroys the runners made
 * for others. devices: NULL: all of the context. plans are not copied. */
clv_status llm_runners_reset(llm_runners *r, clv_device *const *devices,
                             uint32_t n_devices, char *const *plans,
                             uint32_t n_plans);
void llm_runners_finish(llm_runners *r);

typedef struct llm_request {
    uint32_t n;      /* tokens, 1..n_batch */
    uint32_t n_free; /* positions left in the cache, at least n */
    bool all_logits;
    bool apart;   /* each token is of another sequence */
    bool prepare; /* use the best plan; existing runners do not count */
    bool flight;  /* several such runs will be under way at once */
} llm_request;

/* clv_session_weigh() of a run. */
clv_status llm_runners_weigh(llm_runners *r, const llm_request *request,
                             const clv_device *dev, uint64_t bytes, double *ns);
/* *out is ready to run, and stays valid until the next call. */
clv_status llm_runners_get(llm_runners *r, const llm_request *request,
                           llm_runner **out);
/* A planned runner that is asked for next becomes one of them. */
void llm_runners_keep(llm_runners *r, llm_runner *runner);
/* NULL if there is none of this shape. */
llm_runner *llm_runners_find(const llm_runners *r, const llm_shape *shape);
bool llm_runners_hold(const llm_runners *r, const llm_runner *runner);
