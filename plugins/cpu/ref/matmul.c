#include "ref.h"
#include "../half.h"

/* Sums run over lanes that a compiler may keep in one vector register. */
#define LANES 8

static float sum_lanes(const float *lanes)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

static float dot(const float *a, const float *b, int64_t k)
{
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += a[i + j] * b[i + j];
    for (; i < k; i++)
        lanes[i % LANES] += a[i] * b[i];
    return sum_lanes(lanes);
}

/* Pieces of a weight row that are widened to f32 at a time. */
#define PIECE 1024

typedef void (*widen_fn)(const void *src, int64_t begin, float *dst, int64_t n);

static void widen_f16(const void *src, int64_t begin, float *dst, int64_t n)
{
    const uint16_t *h = (const uint16_t *)src + begin;
    for (int64_t i = 0; i < n; i++)
        dst[i] = cpu_f16_to_f32(h[i]);
}

static void widen_bf16(const void *src, int64_t begin, float *dst, int64_t n)
{
    const uint16_t *h = (const uint16_t *)src + begin;
    for (int64_t i = 0; i < n; i++)
        dst[i] = cpu_bf16_to_f32(h[i]);
}

static void widen_q8_0(const void *src, int64_t begin, float *dst, int64_t n)
{
    const cpu_block_q8_0 *b = (const cpu_block_q8_0 *)src + begin / CPU_QK;
    for (int64_t i = 0; i < n; i += CPU_QK, b++, dst += CPU_QK) {
        float d = cpu_f16_to_f32(b->d);
        for (int j = 0; j < CPU_QK; j++)
            dst[j] = d * (float)b->q[j];
    }
}

static void widen_q4_0(const void *src, int64_t begin, float *dst, int64_t n)
{
    const cpu_block_q4_0 *b = (const cpu_block_q4_0 *)src + begin / CPU_QK;
    for (int64_t i = 0; i < n; i += CPU_QK, b++, dst += CPU_QK) {
        float d = cpu_f16_to_f32(b->d);
        for (int j = 0; j < CPU_QK / 2; j++) {
            dst[j] = d * (float)((b->q[j] & 15) - 8);
            dst[j + CPU_QK / 2] = d * (float)((b->q[j] >> 4) - 8);
        }
    }
}

static void widen_i8(const void *src, int64_t begin, float *dst, int64_t n)
{
    const int8_t *q = (const int8_t *)src + begin;
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)q[i];
}

static void widen_i4(const void *src, int64_t begin, float *dst, int64_t n)
{
    const uint8_t *q = (const uint8_t *)src + begin / 2;
    for (int64_t i = 0; i < n; i += 2) {
        dst[i] = (float)(((q[i / 2] & 15) ^ 8) - 8);
        dst[i + 1] = (float)(((q[i / 2] >> 4) ^ 8) - 8);
    }
}

/* A piece of a row of integers, whose scales lie beside it. */
static void scale_piece(const cpu_matmul_args *a, int64_t o, int64_t begin,
                        float *w, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t end = ((begin + i) / a->group + 1) * a->group - begin;
        float scale = cpu_scale(a, o, begin + i);
        for (end = end < n ? end : n; i < end; i++)
            w[i] *= scale;
    }
}

/* One output column, a piece of the weight row after the other. */
static void column(const cpu_matmul_args *a, int64_t o, widen_fn widen)
{
    const char *row = (const char *)a->w + o * a->w_stride;
    float *w = a->scratch;
    for (int64_t i = 0; i < a->n; i++)
        a->y[i * a->y_stride + o] = a->bias ? a->bias[o] : 0;
    for (int64_t begin = 0; begin < a->k; begin += PIECE) {
        int64_t n = a->k - begin < PIECE ? a->k - begin : PIECE;
        widen(row, begin, w, n);
        if (a->scales)
            scale_piece(a, o, begin, w, n);
        for (int64_t i = 0; i < a->n; i++)
            a->y[i * a->y_stride + o] +=
                dot(a->x + i * a->x_stride + begin, w, n);
    }
}

static void matmul_f32(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        const float *w = (const float *)((const char *)a->w + o * a->w_stride);
        float bias = a->bias ? a->bias[o] : 0;
        for (int64_t i = 0; i < a->n; i++)
            a->y[i * a->y_stride + o] =
                dot(a->x + i * a->x_stride, w, a->k) + bias;
    }
}

static void matmul_f16(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++)
        column(a, o, widen_f16);
}

static void matmul_bf16(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++)
        column(a, o, widen_bf16);
}

static void matmul_q8_0(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++)
        column(a, o, widen_q8_0);
}

static void matmul_q4_0(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++)
        column(a, o, widen_q4_0);
}

static void matmul_i8(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++)
        column(a, o, widen_i8);
}

static void matmul_i4(const cpu_matmul_args *a)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++)
        column(a, o, widen_i4);
}

void cpu_ref_matmul(cpu_kernels *table)
{
    table->matmul[CLV_DTYPE_F32] = matmul_f32;
    table->matmul[CLV_DTYPE_F16] = matmul_f16;
    table->matmul[CLV_DTYPE_BF16] = matmul_bf16;
    table->matmul[CLV_DTYPE_Q8_0] = matmul_q8_0;
    table->matmul[CLV_DTYPE_Q4_0] = matmul_q4_0;
    table->matmul[CLV_DTYPE_I8] = table->matmul_odd[CLV_DTYPE_I8] = matmul_i8;
    table->matmul[CLV_DTYPE_I4] = table->matmul_odd[CLV_DTYPE_I4] = matmul_i4;
}
