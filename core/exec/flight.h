/*
 * Runs in flight: those of a context that were submitted and have not ended,
 * the oldest first.
 *
 * A run's steps are submitted in the plan's order. So each run has one step
 * that comes next, and the dispatcher chooses among these: one whose waits by
 * the host are over, which needs nothing more of older runs, and whose queue
 * takes it. A run that is waited for alone fills queues as far as they go.
 * Else a queue holds two steps at most, the one that it works on and the next
 * one, so that what becomes ready meanwhile still has a choice before it.
 *
 * A run is held back, and none of its steps is submitted, until older ones in
 * the same workspace have ended, and, where states have to move to other
 * memories for it, those that use the same states.
 *
 * There is no thread for it. Whoever submits a run or waits for one submits
 * the steps of all that can go; and who waits blocks for the first of its own
 * runs that can go on. A thread begins and ends its own runs only.
 *
 * A line is what a queue was given, and is checked for what is done in that
 * order. On simulated devices it is what is done at the simulated time, so the
 * same calls see the same times.
 */
#pragma once

#include "run.h"

typedef struct core_entry {
    clv_run *run;
    uint32_t device; /* of its plan */
    uint64_t value;
} core_entry;

/* A queue of a device. */
typedef struct core_line {
    struct core_line *next;
    const clv_device *dev;
    uint32_t queue;
    core_entry *entries; /* [first .. first + n): submitted, not seen as done */
    uint32_t first, n, capacity;
    uint32_t n_runs; /* that are going and use it */
    bool seen;       /* what it has done, since core_flight_look_again() */
    double left_ns;  /* of their work, not submitted yet */
} core_line;

/* Who shares devices with others: choice.h of plans. */
typedef struct core_session {
    struct core_session *next;
    const void *key;
    double served_ns;
    uint32_t n_runs; /* in flight */
} core_session;

typedef struct core_flight {
    pthread_mutex_t mutex; /* recursive; of all below and of runs in flight */
    pthread_cond_t unwatched;
    core_line *lines;
    core_session *sessions;
    bool by_age; /* core.dispatch */
    clv_run *first;
    uint64_t n_submits;
} core_flight;

/* The context's; made by the first call, NULL without memory. */
core_flight *core_flight_of(clv_context *ctx);
void core_flight_lock(clv_context *ctx);
void core_flight_unlock(clv_context *ctx);
/* Gives the run's queues their lines. */
clv_status core_flight_join(clv_run *run);
/* Before the run is destroyed: it is not in flight, and nobody watches it. */
void core_flight_leave(clv_run *run);

/* The rest is called with the lock held. */
/* Whether the run's queue has reached the value. */
bool core_flight_done(clv_run *run, uint32_t device, uint64_t value);
/* Queues may have done more: each is asked once from here on. */
void core_flight_look_again(core_flight *flight);
/* Room for one more entry, */
clv_status core_line_reserve(core_line *line);
/* which then is there: the step that was submitted. */
void core_line_add(core_line *line, clv_run *run, uint32_t device,
                   uint64_t value);
void core_line_forget(core_line *line, const clv_run *run);
core_block core_flight_block(clv_run *run);
