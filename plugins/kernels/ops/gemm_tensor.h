/* Products by tensor cores, on devices that have them: GEMM, and the choice
 * between it and GEMV. matmul.c asks here first. */
#pragma once

#include "lower/lower.h"

/* Whether this node's product is made so. */
bool gpu_tensor_suits(const gpu_node *node);
/* GEMV is as exact as with floats, GEMM rounds to halves or bytes. */
uint32_t gpu_tensor_error_class(const gpu_node *node);
/* Variants: shapes of tiles, depths, parts; those of GEMV. */
void gpu_tensor_variants(const gpu_node *node, gpu_variants *out);
clv_status gpu_tensor_lower(gpu_lowering *lowering, const gpu_node *node);

/* bm output channels of bn rows by wm x wn warps, stages blocks under way; in
 * GLSL two in local memory, the others in registers. split: parts of the input
 * channels, summed apart. */
typedef struct gpu_tensor_shape {
    int64_t bm, bn, wm, wn, stages, split;
} gpu_tensor_shape;

/* Output channels, in private memory in tiles. */
typedef struct gpu_tensor_part {
    int64_t first, count;
    uint32_t tiles;
} gpu_tensor_part;

/* x as halves with a scale a row, or as bytes; products of the same x share
 * them. */
typedef struct gpu_tensor_x {
    uint32_t q, scale; /* private buffers; bytes have their scales in q */
} gpu_tensor_x;

/* What lowering->halves_of says of the node's x: in rows, bn 0, or in blocks of
 * bn rows. */
uint32_t gpu_halves_form(const gpu_node *node, int64_t bn);
/* A variant's id: four bits for each number. */
uint32_t gpu_tensor_id(const gpu_tensor_shape *s);
/* The part's bias and result; with s->split > 1 its sums. */
void gpu_tensor_output(gpu_call *call, const gpu_node *node,
                       const gpu_tensor_shape *s, const gpu_tensor_part *p,
                       uint32_t sums);
/* For products of about so many rows. */
gpu_tensor_shape gpu_tensor_shape_for(const gpu_node *node, int64_t rows);
/* Whether a group has the local memory for it. */
bool gpu_tensor_fits(const gpu_node *node, const gpu_tensor_shape *s);
/* Makes x into halves in private buffers. */
clv_status gpu_tensor_halves(gpu_lowering *lowering, const gpu_node *node,
                             gpu_tensor_x *out);
/* Begins the call of the kernel, but for its result: with x and so many output
 * channels in tiles. rows: the template that says which rows a group takes. */
void gpu_tensor_call(gpu_call *call, const gpu_node *node,
                     const gpu_tensor_shape *s, const char *rows,
                     const gpu_tensor_x *x, uint32_t tiles, int64_t channels);
