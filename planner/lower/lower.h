/*
 * Plans over several memories. Devices with memory of their own
 * (device/memory.h) keep there what they work on; all others share the host's.
 * Memory 0 is the host's, memory 1 + d that of device d of the plan.
 *
 * A value that one memory's devices use alone lies there. Any other one lies in
 * the host's memory and has a mirror, a value of its own, in each other memory
 * that it is needed in; nodes that copy between the two stand in the graph like
 * any others, of the parts that are needed only and once for each write. So
 * steps, waits, lifetimes and forecasts follow as they do for other nodes. A
 * copy runs on the device whose memory it reads or writes.
 *
 * A state in a layout of its own (layouts.c) lies apart from the host's
 * even where its device uses the host's memory; it has the device's memory
 * then, too.
 *
 * States keep their contents from run to run, in whatever memories they are
 * used in; what a run needs where, and what it leaves where, is listed, and the
 * executor brings it there before the run, if another run left it elsewhere.
 */
#pragma once

#include "../../core/plan/plan.h"

/* Finds the devices among those of the pieces that have memory of their own,
 * and whether any has. */
bool planner_find_local(clv_plan *plan);
/* layouts.c: gives what the plan's graph has, which becomes a cut one, the
 * layouts that devices prefer (clv_op_caps), where one device alone uses it and
 * all its nodes ask for the same: states, if they may have layouts, as a whole,
 * and weights and their views, in memory of the device's own. *any: there is
 * such a state. caps as planner_memory() takes them; those of nodes that use
 * what has another layout are the answers for it. */
clv_status planner_layouts(clv_plan *plan, clv_op_caps *caps, bool states,
                           bool *any);
/* Adds mirrors and copies to the plan's cut graph, with their parts and
 * answers; *caps as planner_memory() takes them. */
typedef struct planner_streams planner_streams;
clv_status planner_transfers(clv_plan *plan, const planner_streams *streams,
                             clv_op_caps **caps);

/* The stages between pieces and a plan, in this order; each fills its arrays.
 * all[d * n_nodes + i] is what device d answered for node i of the source;
 * caps[i] what the device of node i of plan->graph answered for it. */
clv_status planner_place(clv_plan *plan, const clv_op_caps *all);
clv_status planner_steps(clv_plan *plan);
/* Of planner_steps(): puts the steps into the order of submission. */
clv_status planner_order(clv_plan *plan);
clv_status planner_waits(clv_plan *plan);
/* Whether the host waits where a device needs something of another one, as it
 * cannot wait by itself. */
bool planner_host_waits(const clv_plan *plan, uint32_t device, uint32_t on);
