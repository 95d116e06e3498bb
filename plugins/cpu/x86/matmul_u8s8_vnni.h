/*
 * The part of matmul_u8s8.h for AVX-512 VNNI: an instruction sums four products
 * into 32 bits.
 */
#pragma once

#define GEMV_TOKENS 4 /* rows of x at once */
#define GEMM_TOKENS 6 /* as well; f32 sums lie in registers too */
#define GEMM_FROM 9   /* rows of x from which packing pays */

static ALWAYS_INLINE void micro_n(const gemm_tile *t, const int n)
{
    const panel *p = t->panel;
    const int8_t *x[GEMM_TOKENS];
    int64_t at = t->k_begin / CPU_BLOCK;
    vf sum[GEMM_TOKENS][2];

    UNROLL
    for (int i = 0; i < n; i++) {
        x[i] = (const int8_t *)(t->x + (size_t)i * t->x_stride);
        sum[i][0] = vf_load(t->y + i * t->y_stride);
        sum[i][1] = vf_load(t->y + i * t->y_stride + VL);
    }
    for (int b = 0; b * CPU_BLOCK < t->depth; b++) {
        const uint8_t *w = p->q[b * 8][0];
        vi acc[GEMM_TOKENS][2];
        UNROLL
        for (int i = 0; i < n; i++)
            acc[i][0] = acc[i][1] =
                vf_to_int(vf_set1(q8_sums(x[i], t->k)[at + b] * OFFSET_UNITS));
        UNROLL
        for (int k = 0; k < CPU_BLOCK; k += 4) {
            vi w0 = vi_load(w + k * ROWS), w1 = vi_load(w + k * ROWS + 4 * VL);
            UNROLL
            for (int i = 0; i < n; i++) {
                vi v =
                    vi_set1_32(load_32(x[i] + t->k_begin + b * CPU_BLOCK + k));
                acc[i][0] = _mm512_dpbusd_epi32(acc[i][0], w0, v);
                acc[i][1] = _mm512_dpbusd_epi32(acc[i][1], w1, v);
                KEEP(acc[i][0]);
                KEEP(acc[i][1]);
            }
        }
        vf d0 = vf_load(p->d[b]), d1 = vf_load(p->d[b] + VL);
        UNROLL
        for (int i = 0; i < n; i++) {
            vf d = vf_set1(q8_scales(x[i], t->k)[at + b]);
            sum[i][0] =
                vf_fma(vf_from_int(acc[i][0]), vf_mul(d, d0), sum[i][0]);
            sum[i][1] =
                vf_fma(vf_from_int(acc[i][1]), vf_mul(d, d1), sum[i][1]);
        }
    }
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

/* n rows of x times one of w, whose offset sums up beside the lanes. */
static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t first, size_t x_size, const int n)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const uint8_t *xp = (const uint8_t *)a->xp + (size_t)first * x_size;
    __m256 acc[GEMV_TOKENS];
    float out[GEMV_TOKENS] = {0};

    UNROLL
    for (int t = 0; t < n; t++)
        acc[t] = _mm256_setzero_ps();
    for (int64_t b = 0; b < a->k / CPU_BLOCK; b++, w += block_size()) {
        __m256i q = block_bytes(w + block_head());
        float d = block_scale(a, o, b * CPU_BLOCK, w);
        if (first == 0)
            prefetch_stream(w, 1);
        UNROLL
        for (int t = 0; t < n; t++) {
            const uint8_t *x = xp + t * x_size;
            float scale = d * q8_scales(x, a->k)[b];
            __m256i v = _mm256_dpbusd_epi32(
                _mm256_setzero_si256(), q,
                _mm256_loadu_si256((const __m256i *)(x + b * CPU_BLOCK)));
            out[t] += scale * q8_sums(x, a->k)[b];
            acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v),
                                     _mm256_set1_ps(scale), acc[t]);
        }
    }
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(first + t) * a->y_stride + o] =
            hsum8(acc[t]) + out[t] * OFFSET_UNITS + (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void gemv(const cpu_matmul_args *a, size_t x_size)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += GEMV_TOKENS) {
            int n = (int)(a->n - i < GEMV_TOKENS ? a->n - i : GEMV_TOKENS);
            WITH_4(n, dot_row, a, o, i, x_size)
        }
    }
}
