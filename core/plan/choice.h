/*
 * Which of several steps a device queue gets next: of several runs in flight,
 * the next steps of those that can go on.
 *
 * One that can begin goes before one that its device would have to wait for.
 * Then priorities count. Then the session that devices have worked least for,
 * so that sessions get equal parts of them. Within a session it is, with
 * core.dispatch = unlock, the step with the largest gain, which is llm.npu's C
 * (its equation 6): the time of the work on the critical device that can begin
 * once this step is done; for a step of the critical device itself, less the
 * time of what can begin on others. The critical device is the one with the
 * most work left, so that it has as few gaps as possible. Of equal ones, and
 * with core.dispatch = age, it is the oldest run's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct core_candidate {
    bool waits; /* the device for another one, once it has the step */
    int32_t priority;
    double served_ns; /* by all devices, of its session */
    double gain_ns;
    uint64_t age; /* lower: older */
} core_candidate;

/* A run that goes on, and its next step. Queues are told apart by pointers. */
typedef struct core_turn {
    struct core_turn *next; /* in a list of all */
    void *run;
    bool ready; /* to be submitted */
    const void *queue;
    double ns;
    const void *then_queue; /* of the run's step after that; NULL: none */
    double then_ns;
    struct core_turn *on; /* whose next step lets this one begin; NULL: none */
    core_candidate candidate;                       /* but for its gain */
    double unlocked_critical_ns, unlocked_other_ns; /* set by the choice */
} core_turn;

/* Of those that are ready; NULL: none is. */
core_turn *core_turn_choose(core_turn *first, const void *critical_queue,
                            bool by_age);

/* Steps that a queue holds while several runs want it: the one that it works on
 * and the next one, so that what becomes ready meanwhile has a choice. */
#define CORE_LINE_DEPTH 2

/* Whether a comes before b. */
bool core_candidate_before(const core_candidate *a, const core_candidate *b);
/* How far a full queue has to get before it is given more, between what it has
 * done and what was submitted: a quarter makes room for more than one step, and
 * the device has work while more of it comes. */
uint64_t core_queue_room_at(uint64_t done, uint64_t submitted);
/* C of a step; unlocked: the work that can begin once it is done, on the
 * critical device and on the others. */
double core_candidate_gain(bool critical, double unlocked_critical_ns,
                           double unlocked_other_ns);
