#include "tensor.h"
#include "half.h"

#include <math.h>
#include <string.h>

#define BLOCK 32 /* elements of Q8_0 and Q4_0 */

bool npu_dtype_block(uint32_t dtype, uint32_t *elements, uint32_t *bytes)
{
    static const struct {
        uint8_t elements, bytes;
    } blocks[CLV_DTYPE_COUNT] = {
        [CLV_DTYPE_F32] = {1, 4},    [CLV_DTYPE_F16] = {1, 2},
        [CLV_DTYPE_BF16] = {1, 2},   [CLV_DTYPE_I32] = {1, 4},
        [CLV_DTYPE_I8] = {1, 1},     [CLV_DTYPE_I4] = {2, 1},
        [CLV_DTYPE_Q8_0] = {32, 34}, [CLV_DTYPE_Q4_0] = {32, 18},
    };
    if (dtype >= CLV_DTYPE_COUNT || !blocks[dtype].elements)
        return false;
    *elements = blocks[dtype].elements;
    *bytes = blocks[dtype].bytes;
    return true;
}

double npu_dtype_size(uint32_t dtype)
{
    uint32_t elements = 1, bytes = 0;
    npu_dtype_block(dtype, &elements, &bytes);
    return (double)bytes / elements;
}

uint32_t npu_dtype_align(uint32_t dtype)
{
    return dtype == CLV_DTYPE_F32 || dtype == CLV_DTYPE_I32 ? 4
           : dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4 ? 1
                                                            : 2;
}

static bool set_strides(const clv_tensor_desc *desc, uint32_t elements,
                        uint32_t bytes, npu_view *out)
{
    bool given = false;
    int64_t dense = bytes;
    for (uint32_t i = 0; i < out->rank; i++)
        given |= desc->strides[i] != 0;
    for (uint32_t i = out->rank; i-- > 0;) {
        int64_t n = i + 1 == out->rank ? out->dims[i] / elements : out->dims[i];
        out->strides[i] = given ? desc->strides[i] : dense;
        if (out->strides[i] < 0 || __builtin_mul_overflow(dense, n, &dense))
            return false;
    }
    return true;
}

bool npu_view_make(const clv_tensor_desc *desc, const int64_t *symbols,
                   npu_view *out)
{
    uint32_t elements, bytes;
    memset(out, 0, sizeof *out);
    if (desc->rank < 1 || desc->rank > CLV_MAX_RANK ||
        !npu_dtype_block(desc->dtype, &elements, &bytes))
        return false;
    out->dtype = desc->dtype;
    out->rank = desc->rank;
    out->rows = 1;
    for (uint32_t i = 0; i < out->rank; i++) {
        bool symbolic = symbols && desc->symbols[i] > 0;
        int64_t n = symbolic ? symbols[desc->symbols[i] - 1] : desc->dims[i];
        if (n < 0 || (i + 1 < out->rank &&
                      __builtin_mul_overflow(out->rows, n, &out->rows)))
            return false;
        out->dims[i] = n;
    }
    out->columns = out->dims[out->rank - 1];
    return out->columns % elements == 0 &&
           set_strides(desc, elements, bytes, out);
}

uint64_t npu_view_extent(const npu_view *v)
{
    uint32_t elements = 1, bytes = 0;
    uint64_t extent = 0;
    npu_dtype_block(v->dtype, &elements, &bytes);
    for (uint32_t i = 0; i < v->rank; i++) {
        int64_t n = i + 1 == v->rank ? v->dims[i] / elements : v->dims[i];
        uint64_t reach;
        if (!n)
            return 0;
        if (__builtin_mul_overflow((uint64_t)(n - 1), (uint64_t)v->strides[i],
                                   &reach) ||
            __builtin_add_overflow(extent, reach, &extent))
            return UINT64_MAX;
    }
    return extent > UINT64_MAX - bytes ? UINT64_MAX : extent + bytes;
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

static void read_f32(const uint8_t *at, int64_t stride, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(&out[i], at + i * stride, sizeof *out);
}

static void read_half(const uint8_t *at, int64_t stride, int64_t n, float *out,
                      bool brain)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, at + i * stride, sizeof h);
        out[i] = brain ? npu_brain_float(h) : npu_half_float(h);
    }
}

static void unpack_q8(const uint8_t *block, int16_t *out)
{
    for (int i = 0; i < BLOCK; i++)
        out[i] = (int8_t)block[2 + i];
}

static void unpack_q4(const uint8_t *block, int16_t *out)
{
    for (int i = 0; i < BLOCK / 2; i++) {
        out[i] = (int16_t)((block[2 + i] & 15) - 8);
        out[i + BLOCK / 2] = (int16_t)((block[2 + i] >> 4) - 8);
    }
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
    for (int64_t i = 0; i < v->columns; i += BLOCK, at += stride)
        if (v->dtype == CLV_DTYPE_Q8_0)
            unpack_q8(at, out + i);
        else
            unpack_q4(at, out + i);
}

static float block_scale(const npu_view *v, const uint8_t *row, int64_t block)
{
    uint16_t h;
    memcpy(&h, row + block * v->strides[v->rank - 1], sizeof h);
    return npu_half_float(h);
}

static void read_blocks(const npu_view *v, const uint8_t *at, float *out)
{
    const int64_t stride = v->strides[v->rank - 1];
    for (int64_t i = 0; i < v->columns; i += BLOCK) {
        const uint8_t *block = at + i / BLOCK * stride;
        float scale = block_scale(v, at, i / BLOCK);
        int16_t q[BLOCK];
        if (v->dtype == CLV_DTYPE_Q8_0)
            unpack_q8(block, q);
        else
            unpack_q4(block, q);
        for (int j = 0; j < BLOCK; j++)
            out[i + j] = scale * q[j];
    }
}

static void read_small(const npu_view *v, const uint8_t *at, float *out)
{
    const int64_t stride = v->strides[v->rank - 1];
    for (int64_t i = 0; i < v->columns; i++) {
        if (v->dtype == CLV_DTYPE_I8) {
            out[i] = (int8_t)at[i * stride];
            continue;
        }
        int nibble = at[i / 2 * stride] >> (i % 2 * 4) & 15;
        out[i] = (float)(nibble - (nibble & 8) * 2);
    }
}

void npu_get_row(const npu_view *v, int64_t row, float *out)
{
    const uint8_t *at = npu_view_row(v, row);
    const int64_t stride = v->strides[v->rank - 1];
    switch (v->dtype) {
    case CLV_DTYPE_F32:
        if (stride == sizeof *out && v->columns)
            memcpy(out, at, (size_t)v->columns * sizeof *out);
        else
            read_f32(at, stride, v->columns, out);
        break;
    case CLV_DTYPE_F16:
    case CLV_DTYPE_BF16:
        read_half(at, stride, v->columns, out, v->dtype == CLV_DTYPE_BF16);
        break;
    case CLV_DTYPE_Q8_0:
    case CLV_DTYPE_Q4_0:
        read_blocks(v, at, out);
        break;
    default:
        read_small(v, at, out);
    }
}

void npu_set_row(const npu_view *v, int64_t row, const float *in)
{
    uint8_t *at = npu_view_row(v, row);
    const int64_t stride = v->strides[v->rank - 1];
    for (int64_t i = 0; i < v->columns; i++) {
        if (v->dtype == CLV_DTYPE_F32) {
            memcpy(at + i * stride, &in[i], sizeof in[i]);
            continue;
        }
        uint16_t h = v->dtype == CLV_DTYPE_F16 ? npu_float_half(in[i])
                                               : npu_float_brain(in[i]);
        memcpy(at + i * stride, &h, sizeof h);
    }
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
    float scale;
    if (w->view.dtype == CLV_DTYPE_Q8_0 || w->view.dtype == CLV_DTYPE_Q4_0)
        return block_scale(&w->view, npu_view_row(&w->view, row),
                           column / BLOCK);
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
