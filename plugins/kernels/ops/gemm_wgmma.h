/* GEMM by matrix instructions of warp groups, on devices that have them: a way
 * of gemm_tensor.c, with the same tiles. gemm_wgmma_fused.c has groups of
 * products. */
#pragma once

#include "lower/fused.h"
#include "ops/gemm_tensor.h"

#define GPU_WGMMA_BM 128 /* output channels of a group: two of warps, of 64 */

/* The rows that groups multiply, in blocks of a shape's bn. */
typedef struct gpu_wgmma_blocks {
    const char *rows; /* template that says which rows are in a block */
    gpu_expr n;       /* blocks, */
    gpu_expr items;   /* places for rows in them, */
    int64_t most;     /* and blocks at the most */
} gpu_wgmma_blocks;

typedef struct gpu_wgmma_call {
    gpu_call call;
    gpu_text words; /* of the instruction */
} gpu_wgmma_call;

/* Whether there is such an instruction for weights of these formats and
 * channels. */
bool gpu_wgmma_takes(const gpu_node *node);
/* The shape, with undivided sums, for `sets` products of so many rows and
 * output channels at once; bn 0: none. */
gpu_tensor_shape gpu_wgmma_shape_for(const gpu_node *node, int64_t sets,
                                     int64_t rows, int64_t out);
/* Rows of the node's x, block after block. */
gpu_wgmma_blocks gpu_wgmma_all_rows(const gpu_node *node,
                                    const gpu_tensor_shape *s);
/* Scratch for x as halves in these blocks, and the call that makes it of
 * `from`, but for what blocks->rows reads and NORM. */
clv_status gpu_wgmma_share(gpu_lowering *lowering, const gpu_node *node,
                           const gpu_tensor_shape *s,
                           const gpu_wgmma_blocks *blocks, gpu_tensor_x *out);
void gpu_wgmma_halves_call(gpu_call *call, const gpu_node *node,
                           const gpu_tensor *from, const gpu_tensor_shape *s,
                           const gpu_wgmma_blocks *blocks,
                           const gpu_tensor_x *x);
/* Begins the product; its weights in tiles, what it writes, and what
 * blocks->rows reads, are to be added before it ends. groups: of output
 * channels. text: what says where they are (gemm_wgmma_opencl.clt); NULL: of
 * one product. */
clv_status gpu_wgmma_begin(gpu_wgmma_call *c, gpu_lowering *lowering,
                           const gpu_node *node, const gpu_tensor_shape *s,
                           const gpu_wgmma_blocks *blocks,
                           const gpu_tensor_x *x, const char *text);
clv_status gpu_wgmma_end(gpu_wgmma_call *c, gpu_lowering *lowering,
                         int64_t groups);

/* Whether x becomes bytes: with integers as weights that have a scale for a row
 * or all, and a scale of x that is known. Else it becomes halves. */
bool gpu_wgmma_has_bytes(const gpu_node *node);
/* Of its kernel. */
const char *gpu_wgmma_name(const gpu_node *node);
/* Whether this node's product is made so. */
bool gpu_wgmma_suits(const gpu_node *node);
/* Without tuning; and others. */
gpu_tensor_shape gpu_wgmma_preferred(const gpu_node *node);
void gpu_wgmma_shapes(const gpu_node *node, gpu_variants *out);
/* x as halves, or bytes, in blocks of the shape's rows. fused: the group whose
 * norm is applied on the way, if it has one; or NULL. */
clv_status gpu_wgmma_halves(gpu_lowering *lowering, const gpu_node *node,
                            const gpu_tensor_shape *s, const gpu_fused *fused,
                            gpu_tensor_x *out);
/* The product for output channels that lie in tiles. sums: where it goes, if
 * s->split > 1. */
clv_status gpu_wgmma_lower(gpu_lowering *lowering, const gpu_node *node,
                           const gpu_tensor_shape *s, const gpu_tensor_part *p,
                           const gpu_tensor_x *x, uint32_t sums);

/* Whether a product can be fused with the first, which may be itself; and the
 * group as one kernel, with its norm in the one that makes halves. */
bool gpu_wgmma_fused_takes(const gpu_node *product, const gpu_node *first);
clv_status gpu_wgmma_fused_lower(gpu_lowering *lowering,
                                 const gpu_fused *fused);
