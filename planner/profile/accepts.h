/* Whether a device takes a node as it is, by what it answered. */
#pragma once

#include "../../core/device/device.h"
#include "../../core/graph/graph.h"

/* If not, why not. */
#define PLANNER_REASON_SIZE 320
bool planner_accepts(const clv_graph *graph, const clv_node *node,
                     const clv_device *dev, const clv_op_caps *caps,
                     char reason[PLANNER_REASON_SIZE]);
