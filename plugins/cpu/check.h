/*
 * One node of a graph, read and judged. op_caps and compilation share this, so
 * that a yes binds.
 */
#pragma once

#include "kernels.h"
#include "tensor.h"

typedef struct cpu_op cpu_op;

typedef struct cpu_check {
    const cpu_kernels *kernels;
    const cpu_op *op;
    clv_node node;
    cpu_tensor in[CLV_MAX_INPUTS], out[CLV_MAX_OUTPUTS];
    bool has[CLV_MAX_INPUTS];          /* which inputs are there */
    cpu_tensor scales[CLV_MAX_INPUTS]; /* of the quantised ones */
    uint32_t n_symbols;                /* of the graph */
    clv_op_caps caps;
} cpu_check;

/* Answers in check->caps. The graph is of this plugin's version of the struct
 * (cpu_read). */
void cpu_check_node(const cpu_kernels *kernels, const clv_subgraph *graph,
                    uint32_t node, cpu_check *check);

/* For ops: a "no" with its reason; false. */
bool cpu_no(cpu_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* For ops: tensor must be rows of one of these dtypes (bits by clv_dtype) and
 * of that rank (0: any); else a "no". what: "input 0". */
bool cpu_need(cpu_check *check, const cpu_tensor *t, const char *what,
              uint32_t dtypes, uint32_t rank);

#define CPU_BIT(dtype) (1u << (dtype))
#define CPU_FLOATS                                                             \
    (CPU_BIT(CLV_DTYPE_F32) | CPU_BIT(CLV_DTYPE_F16) | CPU_BIT(CLV_DTYPE_BF16))
#define CPU_REALS                                                              \
    (CPU_FLOATS | CPU_BIT(CLV_DTYPE_Q8_0) | CPU_BIT(CLV_DTYPE_Q4_0))
/* Weights and tables: integers with scales too. */
#define CPU_WEIGHTS (CPU_REALS | CPU_BIT(CLV_DTYPE_I8) | CPU_BIT(CLV_DTYPE_I4))
/* Which of these have scales beside them. */
#define CPU_SCALED (CPU_BIT(CLV_DTYPE_I8) | CPU_BIT(CLV_DTYPE_I4))
