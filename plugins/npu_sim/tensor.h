/* Tensors in memory. */
#pragma once

#include <cleave/plugin_node.h>

#include <stdbool.h>

/* Rows of elements, where rows counts all dimensions but the last. */
typedef struct npu_view {
    uint8_t *data; /* NULL: an optional operand that is absent */
    uint32_t dtype, rank;
    int64_t dims[CLV_MAX_RANK];
    int64_t strides[CLV_MAX_RANK]; /* bytes; of the last dimension, an
                                      element's or block's */
    int64_t rows, columns;
} npu_view;

/* Of a checked tensor, with the symbols' values; NULL: their upper bounds. */
void npu_view_make(const clv_tensor_desc *desc, const int64_t *symbols,
                   npu_view *out);
uint8_t *npu_view_row(const npu_view *v, int64_t row);
/* A row as floats and back; integers without their scales. Set takes F32, F16
 * and BF16 only. out, in: [columns] */
void npu_get_row(const npu_view *v, int64_t row, float *out);
void npu_set_row(const npu_view *v, int64_t row, const float *in);
/* A row of I8, I4 or blocks with one scale as the integers that it holds. */
void npu_get_integers(const npu_view *v, int64_t row, int16_t *out);
int32_t npu_get_index(const npu_view *v, int64_t i);

/* To the nearest F16, as a float. */
static inline float npu_round_half(float f)
{
    return clv_f16_to_f32(clv_f32_to_f16(f));
}

/* Bytes an element, on average. */
double npu_dtype_size(uint32_t dtype);

/* A weight: elements, and the scales of integers. */
typedef struct npu_weight {
    npu_view view, scales; /* scales.data NULL: there are none */
    uint32_t quant;        /* clv_quant */
    int64_t group;         /* of a row, elements with one scale */
} npu_weight;

/* The scale of the group of elements around a column. */
float npu_weight_scale(const npu_weight *w, int64_t row, int64_t column);
/* A row as reals. */
void npu_weight_row(const npu_weight *w, int64_t row, float *out);
