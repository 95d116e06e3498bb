/*
 * What a device says about the nodes of a graph.
 */
#pragma once

#include "device.h"

/* out: one answer a node, initialised here. */
clv_status core_device_caps(clv_device *dev, const clv_subgraph *graph,
                            clv_op_caps *out);
