/* Answers about a graph, before it is compiled. */
#pragma once

#include <cleave/plugin.h>

clv_status cpu_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride);
