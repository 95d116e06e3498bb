/*
 * The part of matmul_u8s8.h for AVX-512 VNNI: an instruction sums four products
 * into 32 bits.
 */
#pragma once

#include "matmul_u8s8_strips.h"

#define GEMM_TOKENS 6 /* rows of x at once: f32 sums lie in registers too */

static ALWAYS_INLINE vi dot_vector(vi w, vi x)
{
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x);
}

/* Group g of the panel, which lies at element k of x, times n rows of x. */
static ALWAYS_INLINE void micro_group(const panel *p, int g, const int8_t **x,
                                      int64_t length, int64_t k, vf sum[][2],
                                      const int n)
{
    const uint8_t *w = p->q[g * GROUP / 4][0];
    vi acc[GEMM_TOKENS][2];
    UNROLL
    for (int i = 0; i < n; i++)
        acc[i][0] = acc[i][1] =
            HAS_MINIMUM
                ? vi_zero()
                : vf_to_int(vf_set1(q8_sums(x[i], length, GROUP)[k / GROUP] *
                                    -OFFSET));
    UNROLL
    for (int j = 0; j < GROUP; j += 4) {
        vi w0 = vi_load(w + j * ROWS), w1 = vi_load(w + j * ROWS + 4 * VL);
        UNROLL
        for (int i = 0; i < n; i++) {
            vi v = vi_set1_32(load_32(x[i] + k + j));
            acc[i][0] = _mm512_dpbusd_epi32(acc[i][0], w0, v);
            acc[i][1] = _mm512_dpbusd_epi32(acc[i][1], w1, v);
            KEEP(acc[i][0]);
            KEEP(acc[i][1]);
        }
    }
    vf d0 = vf_load(p->d[g]), d1 = vf_load(p->d[g] + VL);
    UNROLL
    for (int i = 0; i < n; i++) {
        float factor = q8_scales(x[i], length)[k / CPU_BLOCK];
        vf d = vf_set1(factor);
        sum[i][0] = vf_fma(vf_from_int(acc[i][0]), vf_mul(d, d0), sum[i][0]);
        sum[i][1] = vf_fma(vf_from_int(acc[i][1]), vf_mul(d, d1), sum[i][1]);
        if (HAS_MINIMUM) {
            vf s = vf_set1(factor * q8_sums(x[i], length, GROUP)[k / GROUP]);
            sum[i][0] = vf_fnma(s, vf_load(p->m[g]), sum[i][0]);
            sum[i][1] = vf_fnma(s, vf_load(p->m[g] + VL), sum[i][1]);
        }
    }
}

static ALWAYS_INLINE void micro_n(const gemm_tile *t, const int n)
{
    const int8_t *x[GEMM_TOKENS];
    vf sum[GEMM_TOKENS][2];

    UNROLL
    for (int i = 0; i < n; i++) {
        x[i] = (const int8_t *)(t->x + (size_t)i * t->x_stride);
        sum[i][0] = vf_load(t->y + i * t->y_stride);
        sum[i][1] = vf_load(t->y + i * t->y_stride + VL);
    }
    for (int g = 0; g * GROUP < t->depth; g++)
        micro_group(t->panel, g, x, t->k, t->k_begin + g * GROUP, sum, n);
    UNROLL
    for (int i = 0; i < n; i++) {
        vf_store(t->y + i * t->y_stride, sum[i][0]);
        vf_store(t->y + i * t->y_stride + VL, sum[i][1]);
    }
}

static void micro(const gemm_tile *t)
{
    WITH_6(t->tokens, micro_n, t)
}
