/*
 * Divides work over devices so that all are done at the same time: HeteroLLM's
 * objective (section 4.3), min max(T_1(part 1), T_2(part 2), ...), for any
 * number of devices. Devices share the memory's bandwidth.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PLANNER_SHARE_DEVICES 4

/* Work of one device: alone, and what it moves. */
typedef struct planner_demand {
    double ns, bytes;
} planner_demand;

/* How long each takes while all run at once: they get the shares of bandwidth
 * (bytes/ns; 0: no limit) that are max-min fair, and what they do not need goes
 * to the others. */
void planner_contend(const planner_demand *demands, uint32_t n,
                     double bandwidth, double *ns);

/* tables[d][j]: what device d takes for j of `steps` steps; ns INFINITY
 * where it cannot. */
typedef struct planner_shares {
    const planner_demand *tables[PLANNER_SHARE_DEVICES];
    double late[PLANNER_SHARE_DEVICES];         /* ns before it can begin */
    double slowdown[PLANNER_SHARE_DEVICES];     /* while all work; >= 1 */
    double scale[PLANNER_SHARE_DEVICES];        /* times are scaled by it, for
                                                   devices that may not work all
                                                   the time; >= 1 */
    planner_demand base[PLANNER_SHARE_DEVICES]; /* work that it has beside */
    double bandwidth;
    uint32_t n, steps;
} planner_shares;

/* The best division with at least a step for each, and until when it takes;
 * false if there is none. */
bool planner_shares_balance(const planner_shares *shares,
                            uint32_t parts[PLANNER_SHARE_DEVICES], double *ns);
/* Until when a division takes. */
double planner_shares_time(const planner_shares *shares, const uint32_t *parts);
