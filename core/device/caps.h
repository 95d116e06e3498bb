/*
 * What a device says about the nodes of a graph.
 */
#pragma once

#include "device.h"

/* out: one answer a node, initialised here. */
clv_status core_device_caps(clv_device *dev, const clv_subgraph *graph,
                            clv_op_caps *out);
/* The variant of that id that the answer lists; NULL: there is none. */
const clv_variant *core_caps_variant(const clv_op_caps *caps, uint32_t id);
