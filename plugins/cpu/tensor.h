/*
 * Tensors as the plugin sees them: descriptions that are checked once, when a
 * graph is asked about or compiled, and made concrete when a run gives the
 * values of symbols and the memory.
 */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

typedef clv_tensor_desc cpu_tensor;

/* A tensor with its dimensions known. */
typedef struct cpu_shape {
    uint32_t dtype, rank;
    int64_t dims[CLV_MAX_RANK];
    int64_t strides[CLV_MAX_RANK]; /* bytes; of a block dtype the last one
                                      is a block's */
} cpu_shape;

/* Rows of contiguous elements. */
typedef struct cpu_rows {
    char *data;
    int64_t n, c;   /* rows, elements in one */
    int64_t stride; /* bytes between rows */
} cpu_rows;

/* Reads tensor `index` of a graph. False, with a reason of that size, if it
 * breaks the rules or is of a form not offered here. */
bool cpu_tensor_read(const clv_subgraph *graph, uint32_t index, cpu_tensor *out,
                     char *reason, size_t size);

/* Reads the scales of t, the quantised tensor `index`. The same answers. */
bool cpu_scales_read(const clv_subgraph *graph, uint32_t index,
                     const cpu_tensor *t, cpu_tensor *out, char *reason,
                     size_t size);
/* Elements of a row that share a scale. */
int64_t cpu_tensor_group(const cpu_tensor *t);

/* The unit of storage: one element of the plain dtypes. */
typedef struct cpu_block {
    int64_t elements; /* 0: a dtype not offered here */
    int64_t bytes;
} cpu_block;

cpu_block cpu_dtype_block(uint32_t dtype);
/* Alignment the elements need. */
uint64_t cpu_dtype_align(uint32_t dtype);
const char *cpu_dtype_name(uint32_t dtype);

/* Whether it is rows of contiguous elements at one stride. */
bool cpu_tensor_is_rows(const cpu_tensor *t);
/* Whether both have the same dimensions, for all values of the symbols. */
bool cpu_tensor_same_dims(const cpu_tensor *a, const cpu_tensor *b);
/* Whether dimension i of a is dimension j of b. */
bool cpu_tensor_same_dim(const cpu_tensor *a, uint32_t i, const cpu_tensor *b,
                         uint32_t j);

void cpu_tensor_shape(const cpu_tensor *t, const int64_t *symbols,
                      cpu_shape *out);
/* Of a tensor that is rows. */
cpu_rows cpu_shape_rows(const cpu_shape *shape, void *data);
