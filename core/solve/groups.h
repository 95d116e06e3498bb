/* Groups: members of a link that a team divides at the same fractions. */
#pragma once

#include "drafts.h"

#define CORE_GROUP_MEMBERS 64

typedef struct core_group {
    const core_team *team;
    const core_member *members[CORE_GROUP_MEMBERS];
    uint32_t n, index;
    int64_t unit; /* extents are multiples of it */
    int64_t step; /* fractions are multiples of step / unit */
    uint32_t steps;
    bool hybrid;
    core_layout layout;
} core_group;

int64_t core_sequence_of(const core_maker *m, uint32_t kind);
/* Whether all of the team take pieces of the member along its axis. */
bool core_takes_part(const core_maker *m, const core_member *member,
                     const core_team *team);
/* The place in the team of a device that needs a length; team->n: none. */
uint32_t core_find_static(const core_maker *m, uint32_t kind,
                          const core_team *team);
/* The unit and the steps; false if nothing can be cut. */
bool core_group_set_steps(const core_maker *m, core_group *g);
/* Whether part of the sequence can be divided, by lengths that one has. */
bool core_group_hybrid(const core_maker *m, const core_group *g);
/* Ways to do that: how many of the two there are. */
uint32_t core_group_layouts(const core_maker *m, const core_group *g,
                            core_layout out[2]);

/* Adds what a piece costs, count times; no cost is INFINITY. */
void core_add_cost(const core_maker *m, const core_piece *piece, uint32_t count,
                   core_demand *to);
/* What the device at a place of the team takes for 0 .. steps steps. */
void core_group_table(const core_maker *m, const core_group *g, uint32_t at,
                      core_demand *table);
/* What the device with any length has to do beside: the rest of the rows. */
core_demand core_group_rest(const core_maker *m, const core_group *g);
