/*
 * What a node asks for, checked: its operands as tensors, whether it can be
 * lowered, and the answer for op_caps. An op is a row of the list in check.c.
 */
#pragma once

#include "code/code.h"
#include "lower/variant.h"

typedef struct gpu_tensor {
    clv_tensor_desc d;
    uint32_t index;         /* in the graph; CLV_NO_TENSOR: absent */
    bool dense;             /* strides follow from the dimensions */
    bool is_weights_layout; /* a state in CLV_LAYOUT_WEIGHTS: its strides are in
                               d */
} gpu_tensor;

typedef struct gpu_op gpu_op;

typedef struct gpu_node {
    const gpu_target *target;
    const gpu_op *op;
    clv_node node;
    uint32_t index;
    gpu_tensor in[CLV_MAX_INPUTS], scales[CLV_MAX_INPUTS], out;
    clv_op_caps caps;
} gpu_node;

/* Code being made of a graph; lower.h. */
typedef struct gpu_lowering gpu_lowering;

struct gpu_op {
    uint32_t op;
    bool any_strides; /* operands need not be rows at one stride */
    uint32_t blocks;  /* bit i: input i may be written in blocks of Q8_0 */
    uint32_t parts;   /* bit i: input i is read in parts, and may be larger than
                         what a binding reaches */
    /* Limits beyond those of every op; completes caps; false after gpu_no().
     * NULL: there are none. */
    bool (*check)(gpu_node *node);
    clv_status (*lower)(gpu_lowering *lowering, const gpu_node *node);
    bool fuses; /* elementwise ops may follow in its kernel: each element of
                   node->out is written once, by Write or WriteScalar of an
                   operand named dst, whose offset, if any, is that of its
                   first channel */
    /* Lists the variants of a node that check() took; NULL: there is one.
     */
    void (*variants)(const gpu_node *node, gpu_variants *out);
    /* Bytes, at most, that its kernels take in scratch, beside parts of
     * weights. NULL: none. */
    uint64_t (*scratch)(const gpu_node *node);
    /* What may lie in slices: bit i: input i, GPU_SLICES_OUT: the output, which
     * is then written by Write alone. NULL: nothing. */
    uint32_t (*slices)(const gpu_node *node);
    /* Bytes of the second copy of its weights that a program keeps where memory
     * is not scarce. NULL: none. */
    uint64_t (*repacked)(const gpu_node *node);
    /* Rows of a block of CLV_LAYOUT_PRIVATE, in which its kernels can read the
     * weights that an input is; 0, or NULL: they cannot. */
    uint32_t (*private_rows)(const gpu_node *node);
    uint32_t private_input;
};
#define GPU_SLICES_OUT 0x80000000u

/* Of an input in another form in scratch, at most at once. */
#define GPU_PART_BYTES ((int64_t)64 << 20)

/* Of sums in up to so many parts: there are many only where the output is
 * small, as they are there to keep the device busy. */
#define GPU_MAX_PARTS 32
uint64_t gpu_parts_bytes(const gpu_node *node);

#define GPU_MAX_GROUPS 65535 /* in each direction, that all devices take */

extern const gpu_op gpu_op_get_rows, gpu_op_set_rows, gpu_op_add, gpu_op_mul,
    gpu_op_silu, gpu_op_gelu, gpu_op_glu, gpu_op_rms_norm, gpu_op_layer_norm,
    gpu_op_rope, gpu_op_softmax, gpu_op_convert, gpu_op_matmul,
    gpu_op_attention, gpu_op_top_k, gpu_op_matmul_experts, gpu_op_sigmoid,
    gpu_op_scale, gpu_op_softcap, gpu_op_head_norm, gpu_op_sparse_mixer,
    gpu_op_round, gpu_op_excess, gpu_op_nonzero;
/* CONVERT to CLV_LAYOUT_PRIVATE. */
extern const gpu_op gpu_op_convert_private;

/* NULL: not known here. */
const gpu_op *gpu_op_find(uint32_t op);
/* node->caps.answer says whether it can be lowered, and why not. */
void gpu_check_node(const gpu_target *target, const clv_subgraph *graph,
                    uint32_t index, gpu_node *node);

/* Writes the reason; false. */
__attribute__((format(printf, 2, 3))) bool gpu_no(gpu_node *node,
                                                  const char *format, ...);

/* Says that there are more than a dispatch takes; false. */
bool gpu_no_more(gpu_node *node, const char *what, int64_t n, int64_t most);
/* Whether a grid has a group for so many rows and channels of the output each;
 * says why not. */
bool gpu_fits_grid(gpu_node *node, int64_t rows, int64_t channels);
/* Prefers the layout of weights for an input, if it is a state. */
void gpu_prefer_layout(gpu_node *node, uint32_t input);
/* Bytes that an operand may have. */
int64_t gpu_reach(const gpu_target *target);
/* Whether the setup may bring the node's weights into another layout. */
static inline bool gpu_may_repack(const gpu_node *node)
{
    return node->in[1].d.usage == CLV_USAGE_WEIGHT &&
           (!node->target->scarce || node->index < node->target->n_repacked);
}

static inline bool gpu_has(const gpu_tensor *t)
{
    return t->index != CLV_NO_TENSOR;
}

/* Whether the channels of a row lie apart: of v in the layout of weights. */
bool gpu_is_transposed(const gpu_tensor *t);

/* Whether t is rows of contiguous elements at one stride, of which no more than
 * one dimension is symbolic. */
bool gpu_is_rows(const gpu_tensor *t);
/* Of a tensor that is rows. */
bool gpu_rows_extent(const gpu_tensor *t, gpu_expr *rows, gpu_expr *channels,
                     gpu_expr *stride);
/* Its rows alone. */
gpu_expr gpu_rows(const gpu_tensor *t);
/* Bytes from its first to its last, at its largest. */
uint64_t gpu_extent(const gpu_tensor *t);
/* Rows of it, at the most. */
int64_t gpu_max_rows(const gpu_tensor *t);
/* Bytes an index step of dimension i; false: it depends on two symbols. */
bool gpu_stride(const gpu_tensor *t, uint32_t i, gpu_expr *out);
/* Bytes from one index of dimension 0 to the next, where that is fixed; of one
 * alone, whose stride says nothing, all that it has. */
static inline int64_t gpu_step_bytes(const gpu_tensor *t)
{
    gpu_expr step;
    if (t->d.dims[0] == 1)
        return (int64_t)gpu_extent(t);
    gpu_stride(t, 0, &step);
    return step.constant;
}
