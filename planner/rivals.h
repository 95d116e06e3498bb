/*
 * Plans that the search does not find by itself, or that it finds with other
 * prices. Each is compared with the best plan so far, which it may become.
 */
#pragma once

#include "solver.h"

/* As much as possible on one device, whole, unless the search has much more for
 * it than for the best plan. */
clv_status planner_consider_device(planner_solver *v, uint32_t device);
/* As much as possible on one device, where the best plan is over several and
 * has run (on simulated devices, whose costs are exact: longer than costs
 * said): in place of it, once, if the search has not much more for it. Only a
 * run tells what one device alone takes. */
clv_status planner_consider_alone(planner_solver *v);
/* What a percent of the energy is worth in time: near the best plan so far the
 * search can add both up. */
clv_status planner_consider_energy(planner_solver *v);
/* Where compiling counts, plans of fewer programs may be better. What programs
 * take is spread as it is in the best plan so far, so a better one is asked
 * again. */
clv_status planner_consider_preparation(planner_solver *v);
/* The first nodes on a device whose memory cannot hold all weights, the others
 * on one that can. */
clv_status planner_consider_fronts(planner_solver *v);
/* All nodes on a device that does not hold all weights, and what it lacks of
 * them copied there in each run. */
clv_status planner_consider_streamed(planner_solver *v);
/* Where weights are streamed: with less in rings, and without parts of nodes.
 */
clv_status planner_consider_simpler(planner_solver *v);
/* Where some device's memory cannot hold all weights: with a little of each
 * node on another device than in the best plan so far, less each time. */
clv_status planner_consider_near(planner_solver *v);
/* Each device has some of the nodes that follow one another, for about the same
 * time. So a run needs few exchanges, and devices work on one run each. */
clv_status planner_consider_parts(planner_solver *v);
/* Of runs in flight the busiest device tells how long they take, and of one
 * alone what its steps wait for. */
clv_status planner_consider_flight(planner_solver *v);
