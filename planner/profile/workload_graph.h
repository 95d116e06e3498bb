/* From work back to a graph that does it, to be compiled and timed. */
#pragma once

#include "workload.h"

/* Nodes of that work with fixed shapes. Weights have no tensors: they, and all
 * inputs and outputs, are bound by hand. Node i has operands of its own, or,
 * with fewer sets than nodes, shares those of node i - sets. CLV_ERR_INVALID:
 * there is no such work. */
clv_status planner_workload_graph(const planner_workload *workload,
                                  uint32_t nodes, uint32_t sets,
                                  clv_graph **out);
/* Rows of the table of GET_ROWS and of the state of SET_ROWS. */
int64_t planner_workload_table_rows(const planner_workload *workload);
/* Ids of GET_ROWS, SET_ROWS and MATMUL_EXPERTS, positions of the others. */
int64_t planner_workload_n_ids(const planner_workload *workload);
/* Fills them in: ids [planner_workload_n_ids()]. list 1 of ATTENTION: the first
 * rows that queries see. */
void planner_workload_ids(const planner_workload *workload, uint32_t list,
                          int32_t *ids);
