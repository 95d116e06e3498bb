#include "ref.h"
#include "../half.h"

#include <math.h>

static void f32_copy(const void *src, float *dst, int64_t n)
{
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void f32_store(const float *src, void *dst, int64_t n)
{
    memcpy(dst, src, (size_t)n * sizeof *src);
}

static void f16_to_f32(const void *src, float *dst, int64_t n)
{
    const uint16_t *h = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = cpu_f16_to_f32(h[i]);
}

static void f16_from_f32(const float *src, void *dst, int64_t n)
{
    uint16_t *h = dst;
    for (int64_t i = 0; i < n; i++)
        h[i] = cpu_f32_to_f16(src[i]);
}

static void bf16_to_f32(const void *src, float *dst, int64_t n)
{
    const uint16_t *h = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = cpu_bf16_to_f32(h[i]);
}

static void bf16_from_f32(const float *src, void *dst, int64_t n)
{
    uint16_t *h = dst;
    for (int64_t i = 0; i < n; i++)
        h[i] = cpu_f32_to_bf16(src[i]);
}

static void q8_0_to_f32(const void *src, float *dst, int64_t n)
{
    const cpu_block_q8_0 *b = src;
    for (int64_t i = 0; i < n; i += CPU_QK, b++, dst += CPU_QK) {
        float d = cpu_f16_to_f32(b->d);
        for (int j = 0; j < CPU_QK; j++)
            dst[j] = d * (float)b->q[j];
    }
}

static void i8_to_f32(const void *src, float *dst, int64_t n)
{
    const int8_t *q = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)q[i];
}

static void i4_to_f32(const void *src, float *dst, int64_t n)
{
    const uint8_t *q = src;
    for (int64_t i = 0; i < n; i += 2) {
        dst[i] = (float)(((q[i / 2] & 15) ^ 8) - 8);
        dst[i + 1] = (float)(((q[i / 2] >> 4) ^ 8) - 8);
    }
}

/* The nearest integer inside limit; zero for NaN. */
static int round_within(float x, int limit)
{
    if (!(fabsf(x) < (float)limit))
        return isnan(x) ? 0 : x > 0 ? limit : -limit;
    return (int)roundf(x);
}

static void q8_0_from_f32(const float *src, void *dst, int64_t n)
{
    cpu_block_q8_0 *b = dst;
    for (int64_t i = 0; i < n; i += CPU_QK, b++, src += CPU_QK) {
        float top = 0;
        for (int j = 0; j < CPU_QK; j++)
            if (fabsf(src[j]) > top) /* fmaxf would take a signalling NaN */
                top = fabsf(src[j]);
        float d = top / 127, inverse = d ? 1 / d : 0;
        b->d = cpu_f32_to_f16(d);
        for (int j = 0; j < CPU_QK; j++)
            b->q[j] = (int8_t)round_within(src[j] * inverse, 127);
    }
}

static void q4_0_to_f32(const void *src, float *dst, int64_t n)
{
    const cpu_block_q4_0 *b = src;
    for (int64_t i = 0; i < n; i += CPU_QK, b++, dst += CPU_QK) {
        float d = cpu_f16_to_f32(b->d);
        for (int j = 0; j < CPU_QK / 2; j++) {
            dst[j] = d * (float)((b->q[j] & 15) - 8);
            dst[j + CPU_QK / 2] = d * (float)((b->q[j] >> 4) - 8);
        }
    }
}

/* The scale puts the value of largest magnitude on -8, the end of the range
 * that has one step more. */
static void q4_0_from_f32(const float *src, void *dst, int64_t n)
{
    cpu_block_q4_0 *b = dst;
    for (int64_t i = 0; i < n; i += CPU_QK, b++, src += CPU_QK) {
        float top = 0;
        for (int j = 0; j < CPU_QK; j++)
            if (fabsf(src[j]) > fabsf(top))
                top = src[j];
        float d = top / -8, inverse = d ? 1 / d : 0;
        b->d = cpu_f32_to_f16(d);
        for (int j = 0; j < CPU_QK / 2; j++) {
            int low = round_within(src[j] * inverse, 8);
            int high = round_within(src[j + CPU_QK / 2] * inverse, 8);
            low = low > 7 ? 15 : low + 8;
            high = high > 7 ? 15 : high + 8;
            b->q[j] = (uint8_t)(low | high << 4);
        }
    }
}

void cpu_ref_convert(cpu_kernels *table)
{
    table->to_f32[CLV_DTYPE_F32] = f32_copy;
    table->to_f32[CLV_DTYPE_F16] = f16_to_f32;
    table->to_f32[CLV_DTYPE_BF16] = bf16_to_f32;
    table->to_f32[CLV_DTYPE_Q8_0] = q8_0_to_f32;
    table->to_f32[CLV_DTYPE_Q4_0] = q4_0_to_f32;
    table->to_f32[CLV_DTYPE_I8] = i8_to_f32;
    table->to_f32[CLV_DTYPE_I4] = i4_to_f32;
    table->from_f32[CLV_DTYPE_F32] = f32_store;
    table->from_f32[CLV_DTYPE_F16] = f16_from_f32;
    table->from_f32[CLV_DTYPE_BF16] = bf16_from_f32;
    table->from_f32[CLV_DTYPE_Q8_0] = q8_0_from_f32;
    table->from_f32[CLV_DTYPE_Q4_0] = q4_0_from_f32;
}
