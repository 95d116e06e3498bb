/*
 * Plans over several memories. Devices with memory of their own
 * (device_memory.h) keep there what they work on; all others share the host's.
 * Memory 0 is the host's, memory 1 + d that of device d of the plan.
 *
 * A value that one memory's devices use alone lies there. Any other one lies in
 * the host's memory and has a mirror, a value of its own, in each other memory
 * that it is needed in; nodes that copy between the two stand in the graph like
 * any others, of the parts that are needed only and once for each write. So
 * steps, waits, lifetimes and forecasts follow as they do for other nodes. A
 * copy runs on the device whose memory it reads or writes.
 *
 * A state in a layout of its own (plan_layouts.c) lies apart from the host's
 * even where its device uses the host's memory; it has the device's memory
 * then, too.
 *
 * States keep their contents from run to run, in whatever memories they are
 * used in; what a run needs where, and what it leaves where, is listed, and the
 * executor brings it there before the run, if another run left it elsewhere.
 */
#pragma once

#include "plan.h"

/* Nodes that copy input 0 to output 0, boxes of equal shape. */
#define CORE_OP_COPY CLV_OP_NONE

/* Finds the devices among those of the pieces that have memory of their own,
 * and whether any has. */
bool core_plan_find_local(clv_plan *plan);
/* plan_layouts.c: gives states of the plan's graph, which becomes a cut one,
 * the layouts that their devices wish for (clv_op_caps), where one device alone
 * uses them, whole, and all its nodes ask for the same; *any: there is one.
 * caps as core_plan_memory() takes them; those of nodes that use such states
 * are the answers for them. */
clv_status core_plan_layouts(clv_plan *plan, clv_op_caps *caps, bool *any);
/* Adds mirrors and copies to the plan's cut graph, with their parts and
 * answers; *caps as core_plan_memory() takes them. */
clv_status core_plan_transfers(clv_plan *plan, clv_op_caps **caps);
/* Once places are known: where bytes pass that a device cannot fetch from the
 * host's memory itself. */
clv_status core_plan_staging(clv_plan *plan);
/* Stretches of a copy's bytes in the base of `value`, for these symbols (NULL:
 * the largest). */
clv_status core_plan_copy_runs(const clv_plan *plan, clv_value value,
                               const int64_t *symbols, core_runs *out);

static inline bool core_part_copies(const clv_plan *plan, uint32_t part)
{
    return plan->graph->nodes[plan->parts[part].node].op == CORE_OP_COPY;
}

/* Whether a value is a state that lies on a device in a layout of its own. */
static inline bool core_plan_laid_on(const clv_plan *plan, clv_value value,
                                     uint32_t device)
{
    return plan->graph->tensors[value].layout &&
           plan->places[value].memory == 1 + device;
}

/* Whether a copying part leaves its device's memory. */
static inline bool core_part_copies_out(const clv_plan *plan, uint32_t part)
{
    const clv_node *node = &plan->graph->nodes[plan->parts[part].node];
    return !plan->places[plan->graph->values[node->outputs[0]].base].memory;
}
