/* Blocks of 32 numbers. */
#include "encode.h"
#include "common.h"

/* A fitted block, as it is stored. */
typedef struct fitted {
    uint16_t d, m; /* f16 */
    int q[32];     /* places of the levels */
} fitted;

static fitted fit(const float *x, const llm_levels *levels, int has_minimum)
{
    float weight[32], v[32];
    fitted b = {0};
    const llm_weighted a = {x, weight, 32};
    llm_weigh(x, 32, weight);
    llm_line line = {0};
    if (has_minimum)
        line = llm_fit_line(&a, levels, 1);
    else
        line.scale = llm_fit_scale(&a, levels);
    b.d = clv_f32_to_f16(line.scale);
    b.m = clv_f32_to_f16(line.offset);
    line = (llm_line){clv_f16_to_f32(b.d), clv_f16_to_f32(b.m)};
    llm_fit_round(&a, levels, line, v);
    for (int i = 0; i < 32; i++)
        b.q[i] = llm_fit_index(levels, v[i]);
    return b;
}

static void put_nibbles(const fitted *b, uint8_t *q)
{
    for (int j = 0; j < 16; j++)
        q[j] = (uint8_t)((b->q[j] & 15) | (b->q[j + 16] & 15) << 4);
}

static void put_fifth_bits(const fitted *b, uint8_t *h)
{
    for (int j = 0; j < 4; j++)
        h[j] = 0;
    for (int j = 0; j < 32; j++)
        h[j / 8] = (uint8_t)(h[j / 8] | (b->q[j] >> 4) << j % 8);
}

void llm_encode_q4_0(const float *src, void *dst, int64_t n)
{
    static const llm_levels levels = {-8, 7, 1, NULL};
    clv_block_q4_0 *b = dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        const fitted f = fit(src, &levels, 0);
        b->d = f.d;
        put_nibbles(&f, b->q);
    }
}

void llm_encode_q4_1(const float *src, void *dst, int64_t n)
{
    static const llm_levels levels = {0, 15, 1, NULL};
    clv_block_q4_1 *b = dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        const fitted f = fit(src, &levels, 1);
        b->d = f.d;
        b->m = f.m;
        put_nibbles(&f, b->q);
    }
}

void llm_encode_q5_0(const float *src, void *dst, int64_t n)
{
    static const llm_levels levels = {-16, 15, 1, NULL};
    clv_block_q5_0 *b = dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        const fitted f = fit(src, &levels, 0);
        b->d = f.d;
        put_fifth_bits(&f, b->h);
        put_nibbles(&f, b->q);
    }
}

void llm_encode_q5_1(const float *src, void *dst, int64_t n)
{
    static const llm_levels levels = {0, 31, 1, NULL};
    clv_block_q5_1 *b = dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        const fitted f = fit(src, &levels, 1);
        b->d = f.d;
        b->m = f.m;
        put_fifth_bits(&f, b->h);
        put_nibbles(&f, b->q);
    }
}

void llm_encode_iq4_nl(const float *src, void *dst, int64_t n)
{
    llm_levels levels;
    float nearest[256];
    llm_iq4_levels(&levels, nearest);
    clv_block_iq4_nl *b = dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        const fitted f = fit(src, &levels, 0);
        b->d = f.d;
        put_nibbles(&f, b->q);
    }
}
