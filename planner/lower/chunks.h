/*
 * Large weights that pass through a ring are copied in several parts where
 * these overwrite what is read at different times: each waits only for what
 * reads the bytes that it overwrites.
 */
#pragma once

#include "stream.h"

/* Divides the list's entries from the first on into parts of at most so many
 * bytes, about, by the first dimension of which there is more than one. */
clv_status planner_streams_divide(const clv_graph *graph,
                                  planner_streams *streams, uint32_t first,
                                  uint64_t most);
/* Joins parts of a weight that may be copied at the same time, and adds the
 * values of those that are left to the graph. */
clv_status planner_streams_join(clv_graph *graph, planner_streams *streams,
                                uint32_t first);
