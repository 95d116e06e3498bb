/*
 * Tensors: descriptions that were checked when a graph was asked about or
 * compiled, and what they become when a run gives the values of symbols and the
 * memory.
 */
#pragma once

#include <cleave/plugin_node.h>

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

/* The unit of storage: one element of the plain dtypes. */
typedef struct cpu_block {
    int64_t elements, bytes;
} cpu_block;

static inline cpu_block cpu_dtype_block(uint32_t dtype)
{
    const clv_format *format = clv_format_of(dtype);
    return (cpu_block){format->elements, format->bytes};
}

/* Elements of a row that share a scale. */
static inline int64_t cpu_tensor_group(const cpu_tensor *t)
{
    return t->quant == CLV_QUANT_PER_GROUP ? t->quant_group
                                           : t->dims[t->rank - 1];
}

static inline void cpu_tensor_shape(const cpu_tensor *t, const int64_t *symbols,
                                    cpu_shape *out)
{
    *out = (cpu_shape){.dtype = t->dtype, .rank = t->rank};
    for (uint32_t i = 0; i < t->rank; i++)
        out->dims[i] = clv_dim(t, i, symbols);
    clv_strides(t, symbols, out->strides);
}

/* Of a tensor that is rows. */
static inline cpu_rows cpu_shape_rows(const cpu_shape *shape, void *data)
{
    uint32_t last = shape->rank - 1;
    cpu_rows rows = {.data = data, .n = 1, .c = shape->dims[last]};
    for (uint32_t i = 0; i < last; i++)
        rows.n *= shape->dims[i];
    if (last)
        rows.stride = shape->strides[last - 1];
    return rows;
}
