/*
 * The ops: what each accepts, and how it divides its work over the threads.
 */
#pragma once

#include "check.h"
#include "pool.h"

/* A node of a program. */
typedef struct cpu_step {
    const cpu_op *op;
    const char *name; /* of the op */
    clv_op_attr attr;
    uint32_t variant;             /* clv_node.variant */
    uint32_t node;                /* in the subgraph */
    uint32_t in[CLV_OP_OPERANDS]; /* tensors; CLV_NO_TENSOR: absent */
    uint32_t out[1];
    bool reuse; /* what the op shares was made by an earlier step */
} cpu_step;

/* What steps share: inputs brought into a form that several want. Each kind has
 * one region of memory, which holds the latest. */
typedef enum cpu_region {
    CPU_REGION_MATMUL,  /* prepared rows of x */
    CPU_REGION_ROPE,    /* sines and cosines */
    CPU_REGION_EXPERTS, /* rows of x by expert, prepared */
    CPU_REGION_COUNT
} cpu_region;

/* What the content of a region depends on. */
typedef struct cpu_share {
    uint32_t region;         /* CPU_REGION_COUNT: the step shares nothing */
    uint32_t tensors[2];     /* CLV_NO_TENSOR: fewer */
    uint64_t variant, shape; /* form of the content */
    uint64_t first;          /* expert of those in it */
} cpu_share;

/* A program while it runs. */
typedef struct cpu_run {
    const cpu_kernels *kernels;
    cpu_pool *pool;
    const cpu_tensor *tensors;
    void *const *data; /* by tensor */
    const int64_t *symbols;
    void *regions[CPU_REGION_COUNT];
} cpu_run;

struct cpu_op {
    /* Checks limits of its own, with clv_node_no(); changes caps where they are
     * not as usual. NULL: neither. */
    bool (*check)(cpu_check *check);
    void (*run)(const cpu_run *run, const cpu_step *step);
    /* NULL, with the next one: shares nothing. */
    void (*share)(const cpu_kernels *kernels, const cpu_tensor *tensors,
                  const cpu_step *step, cpu_share *out);
    uint64_t (*share_size)(const cpu_run *run, const cpu_step *step);
};

/* NULL for an op not known here. */
const cpu_op *cpu_op_find(uint32_t op);

extern const cpu_op cpu_op_get_rows, cpu_op_set_rows, cpu_op_convert;
extern const cpu_op cpu_op_matmul, cpu_op_matmul_experts;
extern const cpu_op cpu_op_top_k, cpu_op_nonzero;
extern const cpu_op cpu_op_add, cpu_op_mul, cpu_op_silu, cpu_op_gelu,
    cpu_op_glu, cpu_op_sigmoid, cpu_op_scale, cpu_op_softcap, cpu_op_round,
    cpu_op_excess;
extern const cpu_op cpu_op_rms_norm, cpu_op_layer_norm, cpu_op_head_norm,
    cpu_op_softmax, cpu_op_sparse_mixer;
extern const cpu_op cpu_op_rope, cpu_op_attention;

static inline void cpu_run_shape(const cpu_run *run, uint32_t tensor,
                                 cpu_shape *out)
{
    cpu_tensor_shape(&run->tensors[tensor], run->symbols, out);
}

static inline cpu_rows cpu_run_rows(const cpu_run *run, uint32_t tensor)
{
    cpu_shape shape;
    cpu_run_shape(run, tensor, &shape);
    return cpu_shape_rows(&shape, run->data[tensor]);
}

/* Scales of a quantised tensor, NULL for others; stride: elements between those
 * of two rows. */
static inline const float *cpu_run_scales(const cpu_run *run, uint32_t tensor,
                                          int64_t *stride)
{
    const cpu_tensor *t = &run->tensors[tensor];
    cpu_shape shape;
    *stride = 0;
    if (!t->quant)
        return NULL;
    cpu_run_shape(run, t->quant_scales - 1, &shape);
    if (t->quant != CLV_QUANT_PER_TENSOR)
        *stride = shape.strides[0] / (int64_t)sizeof(float);
    return run->data[t->quant_scales - 1];
}

/* Row i of rows, as floats. */
static inline float *cpu_row_f32(const cpu_rows *rows, int64_t i)
{
    return (float *)(void *)(rows->data + i * rows->stride);
}

/* Part `index` of n things in steps of `step`. */
typedef struct cpu_range {
    int64_t begin, end;
} cpu_range;

static inline cpu_range cpu_part(int64_t n, int64_t step, uint32_t index)
{
    int64_t begin = (int64_t)index * step;
    return (cpu_range){begin, n - begin < step ? n : begin + step};
}

static inline int64_t cpu_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}
