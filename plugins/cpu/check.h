/*
 * A node, and whether it can be run here. op_caps and compilation both ask
 * cpu_check_node(), so that a yes binds.
 */
#pragma once

#include "kernels.h"
#include "tensor.h"

typedef struct cpu_op cpu_op;

typedef struct cpu_check {
    const cpu_kernels *kernels;
    const cpu_op *op;
    clv_checked_node n;
    clv_op_caps caps; /* the answer */
} cpu_check;

/* The graph's arrays are there (clv_check_graph). */
void cpu_check_node(const cpu_kernels *kernels, const clv_subgraph *graph,
                    uint32_t node, cpu_check *check);
