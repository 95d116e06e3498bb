/*
 * What a plan is searched for with: the candidates, and the best plan so far.
 * solve.c goes through the ways to find plans; rivals.h has those that the
 * search does not find by itself.
 */
#pragma once

#include "candidates/candidates.h"
#include "planner.h"
#include "refine.h"

typedef struct planner_solver {
    planner_profile *profile;
    const clv_plan *plan; /* devices, and what is to be planned */
    clv_graph *graph;
    const clv_op_caps *caps; /* as planner_candidates_make() */
    planner_strategy strategy;
    clv_device **devices;
    planner_candidates c;
    planner_solution s;      /* the search's best, with its alternatives */
    uint32_t *trial;         /* [n_nodes] options */
    uint32_t *chosen;        /* [n_nodes] those of the best plan */
    uint32_t halvings;       /* as planner_candidates_make() */
    uint32_t *searches;      /* for this plan, so far */
    clv_plan *best;          /* NULL: none yet */
    bool known;              /* the best one is of the cache, not of options */
    bool equal;              /* chances of experts in costs of candidates */
    planner_refined refined; /* by measuring what rivals rely on, */
    bool measures;           /* if that is still done */
} planner_solver;

/* Another solver of the same problem, without candidates and plans;
 * planner_solver_end() frees what it has, also after an error. */
clv_status planner_solver_begin_other(const planner_solver *v,
                                      planner_solver *out);
void planner_solver_exchange(planner_solver *v, planner_solver *other);
void planner_solver_end(planner_solver *v);

/* Makes candidates, maybe near a plan. */
clv_status planner_solver_make(const planner_solver *v,
                               const planner_near *near,
                               planner_candidates *out);
/* Whether the device's own memory cannot hold all weights. */
bool planner_solver_scarce(const planner_solver *v, uint32_t device);
/* A plan of these options, [n_nodes]. */
clv_status planner_solver_plan(const planner_solver *v, const uint32_t *options,
                               clv_plan **out);
/* Takes the plan that an earlier search found for the question, if it keeps to
 * memory and max_share; else there is none yet. */
clv_status planner_solver_find(planner_solver *v, uint64_t question);
/* Compares the plan that did best in runs, if there is one. */
clv_status planner_solver_recall(planner_solver *v);
/* Takes over the plan, which is of the trial's options, if it is better than
 * the best one; ends it otherwise. Whether it was. */
bool planner_solver_adopt(planner_solver *v, clv_plan *plan, const char *what);
/* Compares what the search found, which is taken over, with the best plan. The
 * forecast, which knows more, decides. */
clv_status planner_solver_take(planner_solver *v, planner_solution *s);
/* Whether weights may pass through a device's memory. */
bool planner_solver_streams(const planner_candidates *c);
/* Searches, and takes what is found. Where weights are streamed, what limits
 * make of a choice takes the time, and both beams begin alike: they are one
 * search. */
clv_status planner_solver_search(planner_solver *v);
/* The same, until a plan keeps to memory and max_share. */
clv_status planner_solver_search_tighter(planner_solver *v);
bool planner_is_whole_option(const planner_solver *v, uint32_t option);
/* The option of a node: whole on the device if it takes the node, else where it
 * is fastest. A node that no device takes whole has its first option. */
uint32_t planner_whole_option(const planner_solver *v, uint32_t node,
                              uint32_t device);
/* *all: the most that was measured for any plan. */
void planner_note_refined(planner_refined *all, planner_refined one);
/* Makes a plan of the trial's options, and adopts it. It is known as well as
 * the plan that it is compared with. */
clv_status planner_solver_compare(planner_solver *v, const char *what);
/* Sets the trial's options: as much as possible on one device, whole. *ns: what
 * the search has for them. */
clv_status planner_whole_device(planner_solver *v, uint32_t device, double *ns);
/* Ends the best plan, the solution and the candidates. */
void planner_solver_forget(planner_solver *v);
