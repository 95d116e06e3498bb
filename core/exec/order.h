/*
 * What order runs have to keep that are in flight together. It follows from
 * the regions of states that their steps read and write, which the graph tells:
 *
 *   SET_ROWS    writes the rows of its indices. Where these are an input of the
 *               graph, they are known once the run is submitted; else it may
 *               write all rows.
 *   ATTENTION   reads the rows before the symbol that bounds them
 *   copies      read and write the boxes that they copy
 *   others      read the part of the state that they are given
 *
 * A step waits for the latest step on each queue of an older run that touches
 * the same elements of the same tensor, if one of the two writes them. Behind a
 * step of the same queue it only has to be submitted: queues work in order.
 */
#pragma once

#include "run.h"
#include "../plan/accesses.h"

/* Finds the accesses of the exec's steps. */
clv_status core_order_begin(clv_exec *exec);
/* Whether runs of both use a state together. */
bool core_order_related(const clv_exec *a, const clv_exec *b);
/* Adds to the run's needs what it needs of an older one; both have their
 * symbols and inputs. */
clv_status core_order_after(clv_run *run, clv_run *older);
/* Whether the need is met once its step is behind what it needs in a queue;
 * else that has to be done. The older run has not ended. */
bool core_need_is_queued(const clv_run *run, const core_need *need);
/* Once they are all there. */
void core_order_finish(clv_run *run);
