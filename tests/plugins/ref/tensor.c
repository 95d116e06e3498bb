#include "ref.h"

#include <math.h>
#include <string.h>

bool ref_view_make(const clv_tensor_desc *desc, const int64_t *symbols,
                   ref_view *out)
{
    int64_t elements, bytes;
    memset(out, 0, sizeof *out);
    if (desc->rank < 1 || desc->rank > CLV_MAX_RANK ||
        !clv_block(desc->dtype, &elements, &bytes))
        return false;
    out->dtype = desc->dtype;
    out->rank = desc->rank;
    out->rows = 1;
    for (uint32_t i = 0; i < out->rank; i++) {
        out->dims[i] = clv_dim(desc, i, symbols);
        if (out->dims[i] < 0 ||
            (i + 1 < out->rank &&
             __builtin_mul_overflow(out->rows, out->dims[i], &out->rows)))
            return false;
    }
    out->columns = out->dims[out->rank - 1];
    out->is_private = desc->layout == CLV_LAYOUT_PRIVATE;
    if (out->is_private && out->rows % REF_PRIVATE_ROWS)
        return false;
    if (desc->layout != CLV_LAYOUT_LINEAR && !out->is_private)
        return elements == 1 && clv_layout_strides(desc, bytes, out->strides);
    clv_strides(desc, symbols, out->strides);
    return out->columns % elements == 0;
}

uint64_t ref_view_extent(const ref_view *v)
{
    int64_t elements, bytes;
    uint64_t extent = 0;
    clv_block(v->dtype, &elements, &bytes);
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
    return extent > INT64_MAX ? UINT64_MAX : extent + (uint64_t)bytes;
}

uint8_t *ref_view_row(const ref_view *v, int64_t row)
{
    uint8_t *at = v->data;
    if (v->is_private)
        row += REF_PRIVATE_ROWS - 1 - row % REF_PRIVATE_ROWS * 2;
    for (uint32_t i = v->rank - 1; i-- > 1;) {
        at += row % v->dims[i] * v->strides[i];
        row /= v->dims[i];
    }
    return v->rank > 1 ? at + row * v->strides[0] : at;
}

/* ------------------------------------------------------------------------ */

static double half_to_double(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double x;
    if (exponent == 31)
        x = mantissa ? NAN : INFINITY;
    else /* exact, and without a call: models have many of them */
        x = exponent
                ? (double)((uint64_t)(1024 + mantissa) << exponent) * 0x1p-25
                : mantissa * 0x1p-24;
    return h & 0x8000 ? -x : x;
}

/* To the nearest, ties to even; a carry out of the mantissa is the next
 * exponent's. */
static uint16_t half_from_double(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    x = fabs(x);
    if (isnan(x))
        return 0x7e00;
    if (x >= 65520)
        return sign | 0x7c00;
    if (x < ldexp(1, -14))
        return sign | (uint16_t)nearbyint(ldexp(x, 24));
    frexp(x, &exponent);
    int mantissa = (int)nearbyint(ldexp(x, 11 - exponent));
    return (uint16_t)(sign + ((exponent + 14) << 10) + mantissa - 1024);
}

static uint16_t bf16_from_double(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double bf16_to_double(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double get_block(const ref_view *v, const uint8_t *row, int64_t column)
{
    const uint8_t *block = row + column / 32 * v->strides[v->rank - 1];
    uint32_t i = (uint32_t)(column % 32);
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    const uint8_t *q = block + sizeof scale;
    int value = v->dtype == CLV_DTYPE_Q8_0
                    ? (int8_t)q[i]
                    : (i < 16 ? q[i] & 15 : q[i - 16] >> 4) - 8;
    return half_to_double(scale) * value;
}

/* By the table's function, which decodes a whole block: the latest one is kept,
 * since columns are asked for in turn. */
static double get_listed(const ref_view *v, const uint8_t *row, int64_t column)
{
    static _Thread_local struct {
        uint32_t dtype;
        uint8_t bytes[256];
        float values[256];
    } last;
    const clv_format *f = clv_format_of(v->dtype);
    const uint8_t *block = row + column / f->elements * v->strides[v->rank - 1];
    if (last.dtype != v->dtype || memcmp(last.bytes, block, f->bytes)) {
        f->decode(block, last.values, f->elements);
        memcpy(last.bytes, block, f->bytes);
        last.dtype = v->dtype;
    }
    return last.values[column % f->elements];
}

static double get_scaled(const ref_view *v, const uint8_t *row, int64_t i,
                         int64_t column)
{
    int64_t stride = v->strides[v->rank - 1];
    int value;
    if (v->dtype == CLV_DTYPE_I4) {
        value = row[column / 2 * stride] >> column % 2 * 4 & 15;
        value -= value < 8 ? 0 : 16;
    } else {
        value = (int8_t)row[column * stride];
    }
    switch (v->quant) {
    case CLV_QUANT_PER_CHANNEL:
        return value * ref_get(v->scales, 0, i);
    case CLV_QUANT_PER_GROUP:
        return value * ref_get(v->scales, i, column / v->quant_group);
    }
    return value * ref_get(v->scales, 0, 0);
}

double ref_decode(const ref_view *v, int64_t row, int64_t column)
{
    const uint8_t *at = ref_view_row(v, row);
    if (v->quant)
        return get_scaled(v, at, row, column);
    if (v->dtype == CLV_DTYPE_Q8_0 || v->dtype == CLV_DTYPE_Q4_0)
        return get_block(v, at, column);
    if (clv_format_of(v->dtype)->format_class == CLV_FORMAT_BLOCK)
        return get_listed(v, at, column);
    at += column * v->strides[v->rank - 1];
    if (v->dtype == CLV_DTYPE_F32) {
        float x;
        memcpy(&x, at, sizeof x);
        return x;
    }
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return v->dtype == CLV_DTYPE_F16 ? half_to_double(h) : bf16_to_double(h);
}

void ref_set(const ref_view *v, int64_t row, int64_t column, double value)
{
    uint8_t *at = ref_view_row(v, row) + column * v->strides[v->rank - 1];
    if (v->dtype == CLV_DTYPE_F32) {
        float x = (float)value;
        memcpy(at, &x, sizeof x);
        return;
    }
    uint16_t h = v->dtype == CLV_DTYPE_F16 ? half_from_double(value)
                                           : bf16_from_double(value);
    memcpy(at, &h, sizeof h);
}

int32_t ref_get_index_at(const ref_view *v, int64_t row, int64_t column)
{
    int32_t value;
    memcpy(&value, ref_view_row(v, row) + column * v->strides[v->rank - 1],
           sizeof value);
    return value;
}

void ref_set_index(const ref_view *v, int64_t row, int64_t column,
                   int32_t value)
{
    memcpy(ref_view_row(v, row) + column * v->strides[v->rank - 1], &value,
           sizeof value);
}

int32_t ref_get_index(const ref_view *v, int64_t i)
{
    int32_t value;
    memcpy(&value, v->data + i * v->strides[0], sizeof value);
    return value;
}
