/* The bits of blocks of 256 numbers, as plugin_superblock.h has them. */
#include "encode.h"
#include "superblock.h"
#include "common.h"

#include <string.h>

/* Two bits of each number, from bit `from` on. */
static void put_pairs(const uint8_t *q, int from, uint8_t *to /* [64] */)
{
    memset(to, 0, 64);
    for (int j = 0; j < 256; j++) {
        uint8_t *byte = &to[j / 128 * 32 + j % 32];
        *byte = (uint8_t)(*byte | (q[j] >> from & 3) << j / 32 % 4 * 2);
    }
}

/* Bit `from` of each number. */
static void put_bits(const uint8_t *q, int from, uint8_t *to /* [32] */)
{
    memset(to, 0, 32);
    for (int j = 0; j < 256; j++)
        to[j % 32] = (uint8_t)(to[j % 32] | (q[j] >> from & 1) << j / 32);
}

/* The low four bits; numbers j and j + distance share a byte. */
static void put_nibbles(const uint8_t *q, int distance, uint8_t *to /* [128] */)
{
    for (int j = 0; j < 128; j++) {
        const uint8_t *low = &q[j / distance * 2 * distance + j % distance];
        to[j] = (uint8_t)((low[0] & 15) | (low[distance] & 15) << 4);
    }
}

void llm_encode_q2_k(const float *src, void *dst, int64_t n)
{
    static const llm_super_shape shape = {16, {0, 3, 1, NULL}, 0, 15};
    clv_block_q2_k *b = dst;
    for (int64_t i = 0; i < n / 256; i++, b++, src += 256) {
        llm_super f = {0};
        llm_fit_super(&shape, src, &f);
        for (int j = 0; j < 16; j++)
            b->scales[j] = (uint8_t)(f.scales[j] | f.minima[j] << 4);
        put_pairs(f.q, 0, b->q);
        b->d = f.d;
        b->m = f.m;
    }
}

void llm_encode_q3_k(const float *src, void *dst, int64_t n)
{
    static const llm_super_shape shape = {16, {-4, 3, 1, NULL}, -32, 31};
    clv_block_q3_k *b = dst;
    for (int64_t i = 0; i < n / 256; i++, b++, src += 256) {
        llm_super f = {0};
        llm_fit_super(&shape, src, &f);
        memset(b->scales, 0, sizeof b->scales);
        for (int j = 0; j < 16; j++) {
            const int s = f.scales[j] + 32;
            uint8_t *low = &b->scales[j % 8], *high = &b->scales[8 + j % 4];
            *low = (uint8_t)(*low | (s & 15) << j / 8 * 4);
            *high = (uint8_t)(*high | s >> 4 << j / 4 * 2);
        }
        put_pairs(f.q, 0, b->q);
        put_bits(f.q, 2, b->h);
        b->d = f.d;
    }
}

/* As clv_k_scale() and clv_k_minimum() read them. */
static void put_scales(const llm_super *f, uint8_t *to /* [12] */)
{
    for (int j = 0; j < 4; j++) {
        const int s = f->scales[j + 4], t = f->minima[j + 4];
        to[j] = (uint8_t)(f->scales[j] | s >> 4 << 6);
        to[j + 4] = (uint8_t)(f->minima[j] | t >> 4 << 6);
        to[j + 8] = (uint8_t)((s & 15) | (t & 15) << 4);
    }
}

void llm_encode_q4_k(const float *src, void *dst, int64_t n)
{
    static const llm_super_shape shape = {32, {0, 15, 1, NULL}, 0, 63};
    clv_block_q4_k *b = dst;
    for (int64_t i = 0; i < n / 256; i++, b++, src += 256) {
        llm_super f = {0};
        llm_fit_super(&shape, src, &f);
        put_scales(&f, b->scales);
        put_nibbles(f.q, 32, b->q);
        b->d = f.d;
        b->m = f.m;
    }
}

void llm_encode_q5_k(const float *src, void *dst, int64_t n)
{
    static const llm_super_shape shape = {32, {0, 31, 1, NULL}, 0, 63};
    clv_block_q5_k *b = dst;
    for (int64_t i = 0; i < n / 256; i++, b++, src += 256) {
        llm_super f = {0};
        llm_fit_super(&shape, src, &f);
        put_scales(&f, b->scales);
        put_bits(f.q, 4, b->h);
        put_nibbles(f.q, 32, b->q);
        b->d = f.d;
        b->m = f.m;
    }
}

void llm_encode_q6_k(const float *src, void *dst, int64_t n)
{
    static const llm_super_shape shape = {16, {-32, 31, 1, NULL}, -128, 127};
    clv_block_q6_k *b = dst;
    for (int64_t i = 0; i < n / 256; i++, b++, src += 256) {
        llm_super f = {0};
        llm_fit_super(&shape, src, &f);
        for (int j = 0; j < 16; j++)
            b->scales[j] = (int8_t)f.scales[j];
        put_nibbles(f.q, 64, b->q);
        put_pairs(f.q, 4, b->h);
        b->d = f.d;
    }
}

void llm_encode_iq4_xs(const float *src, void *dst, int64_t n)
{
    llm_super_shape shape = {.sub = 32, .least = -32, .most = 31};
    float nearest[256];
    llm_iq4_levels(&shape.levels, nearest);
    clv_block_iq4_xs *b = dst;
    for (int64_t i = 0; i < n / 256; i++, b++, src += 256) {
        llm_super f = {0};
        llm_fit_super(&shape, src, &f);
        memset(b->scales_low, 0, sizeof b->scales_low);
        b->scales_high = 0;
        for (int j = 0; j < 8; j++) {
            const int s = f.scales[j] + 32;
            uint8_t *low = &b->scales_low[j / 2];
            *low = (uint8_t)(*low | (s & 15) << j % 2 * 4);
            b->scales_high = (uint16_t)(b->scales_high | s >> 4 << 2 * j);
        }
        put_nibbles(f.q, 16, b->q);
        b->d = f.d;
    }
}
