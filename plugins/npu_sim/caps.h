/* What a device takes. */
#pragma once

#include "cost.h"
#include "device.h"

/* The node's answer. */
void npu_answer(const npu_settings *s, const clv_subgraph *graph, uint32_t node,
                clv_op_caps *out);
clv_status npu_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride);
