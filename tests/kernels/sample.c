#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

const gpu_target sample_target = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
    .units = 2,
};

const gpu_target sample_warp_groups = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 48 * 1024,
    .max_binding = 128 << 20,
    .units = 2,
    .plain_matrix = true,
    .wgmma_bytes = 96 * 1024,
};

static uint32_t seed = 1;

static uint32_t random_bits(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

float sample_random(void)
{
    return (float)(random_bits() & 0xffff) / 32768.0f - 1.0f;
}

static uint16_t half_of(float x) /* of what halves hold exactly or nearly */
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    int32_t e = (int32_t)(u >> 23 & 255) - 112;
    if (e <= 0)
        return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u >> 16 & 0x8000) | (uint32_t)e << 10 |
                      (u >> 13 & 1023));
}

uint32_t sample_add(sample *b, uint32_t dtype, uint32_t usage, int64_t rows,
                    int64_t channels, int64_t stride)
{
    int64_t elements, bytes;
    uint32_t t = graph_tensor(&b->g, dtype, usage, rows, channels);
    clv_block(dtype, &elements, &bytes);
    int64_t row = channels / elements * bytes;
    if (stride) {
        b->g.tensors[t].strides[0] = stride;
        b->g.tensors[t].strides[1] = bytes;
    } else {
        stride = row;
    }
    b->size[t] = (size_t)((rows ? rows - 1 : 0) * stride + row);
    b->data[t] = calloc(1, b->size[t]);
    assert_non_null(b->data[t]);
    for (size_t i = 0; i < b->size[t]; i++)
        ((uint8_t *)b->data[t])[i] = (uint8_t)random_bits();
    return t;
}

void sample_free(sample *b)
{
    for (uint32_t i = 0; i < b->g.sub.n_tensors; i++)
        free(b->data[i]);
}

const uint8_t *sample_row(const sample *b, uint32_t t, int64_t i)
{
    const clv_tensor_desc *d = &b->g.tensors[t];
    int64_t elements, bytes;
    clv_block(d->dtype, &elements, &bytes);
    int64_t row = d->dims[d->rank - 1] / elements * bytes;
    return (const uint8_t *)b->data[t] +
           i * (d->strides[0] ? d->strides[0] : row);
}

/* The number in row i, channel c, but for scales that lie beside it. */
double sample_value(const sample *b, uint32_t t, int64_t i, int64_t c)
{
    const uint8_t *row = sample_row(b, t, i);
    uint32_t bits = 0;
    float x;
    uint16_t h;
    switch (b->g.tensors[t].dtype) {
    case CLV_DTYPE_F32:
        memcpy(&x, row + 4 * c, 4);
        return x;
    case CLV_DTYPE_F16:
        memcpy(&h, row + 2 * c, 2);
        return clv_f16_to_f32(h);
    case CLV_DTYPE_BF16:
        memcpy((uint8_t *)&bits + 2, row + 2 * c, 2);
        memcpy(&x, &bits, 4);
        return x;
    case CLV_DTYPE_I8:
        return (int8_t)row[c];
    case CLV_DTYPE_I4:
        return (int)((row[c / 2] >> c % 2 * 4 & 15) ^ 8) - 8;
    case CLV_DTYPE_Q8_0:
        memcpy(&h, row + c / 32 * 34, 2);
        return clv_f16_to_f32(h) * (int8_t)row[c / 32 * 34 + 2 + c % 32];
    case CLV_DTYPE_Q4_0:
        memcpy(&h, row + c / 32 * 18, 2);
        return (double)clv_f16_to_f32(h) *
               ((row[c / 32 * 18 + 2 + c % 16] >> c % 32 / 16 * 4 & 15) - 8);
    }
    /* The first written by hand, of the others the reference's. */
    const clv_format *f = clv_format_of(b->g.tensors[t].dtype);
    float block[256];
    assert_non_null(f);
    assert_true(f->elements <= 256);
    f->decode(row + c / f->elements * f->bytes, block, f->elements);
    return block[c % f->elements];
}

/* Numbers in place of random bytes, where those may be NaN or huge. */
void sample_fill(sample *b, uint32_t t)
{
    const clv_tensor_desc *d = &b->g.tensors[t];
    const clv_format *f = clv_format_of(d->dtype);
    const int64_t rows = d->rank < 2 ? 1 : d->dims[0];
    const int64_t channels = d->dims[d->rank - 1];
    for (int64_t i = 0; i < rows; i++) {
        uint8_t *row = (uint8_t *)(uintptr_t)sample_row(b, t, i);
        for (int64_t c = 0; c < channels; c++) {
            float x = sample_random();
            uint16_t h = half_of(x);
            if (d->dtype == CLV_DTYPE_F32)
                memcpy(row + 4 * c, &x, 4);
            else if (d->dtype == CLV_DTYPE_F16)
                memcpy(row + 2 * c, &h, 2);
            else if (d->dtype == CLV_DTYPE_BF16)
                memcpy(row + 2 * c, (uint8_t *)&x + 2, 2);
            else if (f->scale_at >= 0 && c % f->elements == 0)
                memcpy(row + c / f->elements * f->bytes + f->scale_at, &h, 2);
            if (f->minimum_at >= 0 && c % f->elements == 0)
                memcpy(row + c / f->elements * f->bytes + f->minimum_at, &h, 2);
        }
    }
}

void judge_expect(judge *j, double got, double want)
{
    j->error += (got - want) * (got - want);
    j->norm += want * want;
}

void judge_conclude(const judge *j, double tolerance, const char *what)
{
    if (!(j->error <= tolerance * j->norm))
        fail_msg("%s: normalised mean square error %g", what,
                 j->error / j->norm);
}
