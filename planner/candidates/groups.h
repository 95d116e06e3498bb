/* Groups: members of a link that a team divides at the same fractions. */
#pragma once

#include "drafts.h"

#define PLANNER_GROUP_MEMBERS 64

typedef struct planner_group {
    const planner_team *team;
    const planner_member *members[PLANNER_GROUP_MEMBERS];
    uint32_t n, index;
    int64_t unit; /* extents are multiples of it */
    int64_t step; /* fractions are multiples of step / unit */
    uint32_t steps;
    bool hybrid;
    planner_layout layout;
} planner_group;

int64_t planner_sequence_of(const planner_maker *m, uint32_t kind);
/* Whether all of the team take pieces of the member along its axis. */
bool planner_takes_part(const planner_maker *m, const planner_member *member,
                        const planner_team *team);
/* The place in the team of a device that needs a length; team->n: none. */
uint32_t planner_find_static(const planner_maker *m, uint32_t kind,
                             const planner_team *team);
/* The unit and the steps; false if nothing can be cut. */
bool planner_group_set_steps(const planner_maker *m, planner_group *g);
/* Whether part of the sequence can be divided, by lengths that one has. */
bool planner_group_hybrid(const planner_maker *m, const planner_group *g);
/* Ways to do that: how many of the two there are. */
uint32_t planner_group_layouts(const planner_maker *m, const planner_group *g,
                               planner_layout out[2]);

/* Adds what a piece costs, count times; no cost is INFINITY. */
void planner_add_cost(const planner_maker *m, const core_piece *piece,
                      uint32_t count, planner_demand *to);
/* What the device at a place of the team takes for 0 .. steps steps. */
void planner_group_table(const planner_maker *m, const planner_group *g,
                         uint32_t at, planner_demand *table);
/* What the device with any length has to do beside: the rest of the rows. */
planner_demand planner_group_rest(const planner_maker *m,
                                  const planner_group *g);
