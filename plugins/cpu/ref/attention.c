#include "ref.h"

#include <math.h>
#include <string.h>

/* Cache rows scored at a time. */
#define BLOCK 128

typedef struct state {
    float *acc; /* [head_dim], the weighted sum of rows so far */
    float scores[BLOCK];
    float top, sum; /* maximum so far, sum of exp(score - top) */
} state;

/* Element i of a row. */
static float load(const uint8_t *row, int64_t i, uint32_t dtype)
{
    if (dtype == CLV_DTYPE_F32)
        return ((const float *)(const void *)row)[i];
    if (dtype == CLV_DTYPE_F16)
        return clv_f16_to_f32(((const uint16_t *)(const void *)row)[i]);
    const uint8_t *block = row + i / 32 * 34; /* Q8_0 */
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    return clv_f16_to_f32(scale) * (float)(int8_t)block[2 + i % 32];
}

/* Scores of cache rows begin..end, and the running maximum. */
static float score(const cpu_attention_args *a, const float *q, int64_t column,
                   int64_t begin, int64_t end, uint32_t dtype, state *s)
{
    float top = s->top;
    for (int64_t j = begin; j < end; j++) {
        const uint8_t *k = (const uint8_t *)a->k + j * a->kv_stride;
        float dot = 0;
        for (int64_t d = 0; d < a->head_dim; d++)
            dot += q[d] * load(k, column + d, dtype);
        dot *= a->scale;
        if (a->softcap)
            dot = a->softcap * tanhf(dot / a->softcap);
        s->scores[j - begin] = dot;
        top = fmaxf(top, dot);
    }
    return top;
}

static void add_block(const cpu_attention_args *a, const float *q,
                      int64_t column, int64_t begin, int64_t end,
                      uint32_t dtype, state *s)
{
    float top = score(a, q, column, begin, end, dtype, s);
    if (top == -INFINITY) {
        /* Nothing but NaN must not get lost. */
        for (int64_t j = begin; j < end; j++)
            if (isnan(s->scores[j - begin]))
                s->sum = NAN;
        return;
    }
    float rescale = expf(s->top - top);
    s->top = top;
    s->sum *= rescale;
    for (int64_t d = 0; d < a->head_dim; d++)
        s->acc[d] *= rescale;
    for (int64_t j = begin; j < end; j++) {
        const uint8_t *v = (const uint8_t *)a->v + j * a->kv_stride;
        float p = expf(s->scores[j - begin] - top);
        s->sum += p;
        for (int64_t d = 0; d < a->head_dim; d++)
            s->acc[d] += p * load(v, column + d, dtype);
    }
}

static void one_query(const cpu_attention_args *a, int64_t i, int64_t h,
                      uint32_t dtype)
{
    int64_t column = h / (a->heads / a->kv_heads) * a->head_dim;
    int64_t end =
        (int64_t)a->pos[i] + 1 < a->rows ? (int64_t)a->pos[i] + 1 : a->rows;
    int64_t begin = a->window ? (int64_t)a->pos[i] - a->window + 1 : 0;
    if (a->first && a->first[i] > begin)
        begin = a->first[i];
    const float *q = a->q + i * a->q_stride + h * a->head_dim;
    float *y = a->y + i * a->y_stride + h * a->head_dim;
    state s = {.acc = a->scratch, .top = -INFINITY};
    memset(s.acc, 0, (size_t)a->head_dim * sizeof *s.acc);
    for (int64_t j = begin > 0 ? begin : 0; j < end; j += BLOCK)
        add_block(a, q, column, j, j + BLOCK < end ? j + BLOCK : end, dtype,
                  &s);
    float scale = s.sum ? 1 / s.sum : 0;
    for (int64_t d = 0; d < a->head_dim; d++)
        y[d] = s.acc[d] * scale;
}

static void attention(const cpu_attention_args *a, uint32_t dtype)
{
    for (int64_t h = a->h_begin; h < a->h_end; h++)
        for (int64_t i = a->q_begin; i < a->q_end; i++)
            one_query(a, i, h, dtype);
}

static void attention_f32(const cpu_attention_args *a)
{
    attention(a, CLV_DTYPE_F32);
}

static void attention_f16(const cpu_attention_args *a)
{
    attention(a, CLV_DTYPE_F16);
}

static void attention_q8_0(const cpu_attention_args *a)
{
    attention(a, CLV_DTYPE_Q8_0);
}

static void rope(const float *x, const float *sin_cos, float *y, int64_t heads,
                 int64_t head_dim, int64_t n_rot, uint32_t mode)
{
    int64_t step = mode == CLV_ROPE_HALVES ? 1 : 2;
    int64_t apart = mode == CLV_ROPE_HALVES ? n_rot / 2 : 1;
    for (int64_t h = 0; h < heads; h++, x += head_dim, y += head_dim) {
        for (int64_t j = 0; j < n_rot / 2; j++) {
            float s = sin_cos[2 * j], c = sin_cos[2 * j + 1];
            float a = x[j * step], b = x[j * step + apart];
            y[j * step] = a * c - b * s;
            y[j * step + apart] = a * s + b * c;
        }
        memmove(y + n_rot, x + n_rot, (size_t)(head_dim - n_rot) * sizeof *y);
    }
}

void cpu_ref_attention(cpu_kernels *table)
{
    table->attention[CLV_DTYPE_F32] = attention_f32;
    table->attention[CLV_DTYPE_F16] = attention_f16;
    table->attention[CLV_DTYPE_Q8_0] = attention_q8_0;
    table->rope = rope;
}
