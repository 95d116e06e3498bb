#include "tensor.h"

#include <math.h>
#include <string.h>

#define MAX_BYTES 256 /* of a block whose integers are asked for */

double npu_dtype_size(uint32_t dtype)
{
    const clv_format *format = clv_format_of(dtype);
    return (double)format->bytes / format->elements;
}

void npu_view_make(const clv_tensor_desc *desc, const int64_t *symbols,
                   npu_view *out)
{
    memset(out, 0, sizeof *out);
    out->dtype = desc->dtype;
    out->rank = desc->rank;
    out->rows = 1;
    for (uint32_t i = 0; i < out->rank; i++) {
        out->dims[i] = clv_dim(desc, i, symbols);
        if (i + 1 < out->rank)
            out->rows *= out->dims[i];
    }
    out->columns = out->dims[out->rank - 1];
    clv_strides(desc, symbols, out->strides);
}

uint8_t *npu_view_row(const npu_view *v, int64_t row)
{
    uint8_t *at = v->data;
    for (uint32_t i = v->rank - 1; i-- > 0;) {
        at += row % v->dims[i] * v->strides[i];
        row /= v->dims[i];
    }
    return at;
}

/* ------------------------------------------------------------------------ */

/* A block's integers are its values with a scale of 1. */
static void block_integers(const clv_format *format, const uint8_t *block,
                           int16_t *out)
{
    const uint16_t one = 0x3c00;
    _Alignas(4) uint8_t copy[MAX_BYTES];
    float values[MAX_BYTES * 2];
    memcpy(copy, block, format->bytes);
    memcpy(copy + format->scale_at, &one, sizeof one);
    format->decode(copy, values, format->elements);
    for (uint32_t i = 0; i < format->elements; i++)
        out[i] = (int16_t)values[i];
}

void npu_get_integers(const npu_view *v, int64_t row, int16_t *out)
{
    const uint8_t *at = npu_view_row(v, row);
    const int64_t stride = v->strides[v->rank - 1];
    if (v->dtype == CLV_DTYPE_I8) {
        for (int64_t i = 0; i < v->columns; i++)
            out[i] = (int8_t)at[i * stride];
        return;
    }
    if (v->dtype == CLV_DTYPE_I4) {
        for (int64_t i = 0; i < v->columns; i++) {
            int nibble = at[i / 2 * stride] >> (i % 2 * 4) & 15;
            out[i] = (int16_t)(nibble - (nibble & 8) * 2);
        }
        return;
    }
    const clv_format *format = clv_format_of(v->dtype);
    for (int64_t i = 0; i < v->columns; i += format->elements, at += stride)
        block_integers(format, at, out + i);
}

/* Blocks at a time: of plain types an element is one. */
void npu_get_row(const npu_view *v, int64_t row, float *out)
{
    const clv_format *format = clv_format_of(v->dtype);
    const uint8_t *at = npu_view_row(v, row);
    const int64_t stride = v->strides[v->rank - 1];
    const bool packed = stride == format->bytes;
    const int64_t step = packed ? v->columns : format->elements;
    for (int64_t i = 0; i < v->columns; i += step, at += stride)
        format->decode(at, out + i, step);
}

void npu_set_row(const npu_view *v, int64_t row, const float *in)
{
    const clv_format *format = clv_format_of(v->dtype);
    uint8_t *at = npu_view_row(v, row);
    const int64_t stride = v->strides[v->rank - 1];
    const bool packed = stride == format->bytes;
    const int64_t step = packed ? v->columns : format->elements;
    for (int64_t i = 0; i < v->columns; i += step, at += stride)
        format->encode(in + i, at, step);
}

int32_t npu_get_index(const npu_view *v, int64_t i)
{
    int32_t value;
    memcpy(&value, v->data + i * v->strides[0], sizeof value);
    return value;
}

/* ------------------------------------------------------------------------ */

float npu_weight_scale(const npu_weight *w, int64_t row, int64_t column)
{
    const npu_view *s = &w->scales;
    const uint8_t *at = s->data;
    const clv_format *format = clv_format_of(w->view.dtype);
    float scale;
    uint16_t half;
    if (format->format_class == CLV_FORMAT_BLOCK) {
        at = npu_view_row(&w->view, row) +
             column / format->elements * w->view.strides[w->view.rank - 1];
        memcpy(&half, at + format->scale_at, sizeof half);
        return clv_f16_to_f32(half);
    }
    if (!at)
        return 1;
    if (w->quant == CLV_QUANT_PER_CHANNEL)
        at += row * s->strides[0];
    else if (w->quant == CLV_QUANT_PER_GROUP)
        at += row * s->strides[0] + column / w->group * s->strides[1];
    memcpy(&scale, at, sizeof scale);
    return scale;
}

void npu_weight_row(const npu_weight *w, int64_t row, float *out)
{
    npu_get_row(&w->view, row, out);
    if (!w->scales.data)
        return;
    for (int64_t i = 0; i < w->view.columns; i += w->group) {
        float scale = npu_weight_scale(w, row, i);
        int64_t end =
            i + w->group < w->view.columns ? i + w->group : w->view.columns;
        for (int64_t j = i; j < end; j++)
            out[j] *= scale;
    }
}
