/*
 * The part of matmul_u8s8.h for few rows of x: weights are read once, as they
 * are stored. Scales of a whole piece are multiplied with those of x at once,
 * and the vectors of the piece take theirs from the lanes.
 */
#pragma once

#define GEMV_TOKENS 4 /* rows of x at once */

typedef struct dots {
    vf acc[GEMV_TOKENS], rest[GEMV_TOKENS]; /* rest: offset or minimums */
} dots;

/* n floats of PIECE / each; zeros for the others. */
static ALWAYS_INLINE vf load_lanes(const float *p, int at, int n)
{
    int here = n - at < VL ? n - at : VL;
    if (here == VL)
        return vf_load(p + at);
    return here > 0 ? vf_load_n(p + at, here) : vf_zero();
}

/* Scales of x for the groups of vector j. */
static ALWAYS_INLINE vf x_lanes(const float *d, int j, int n)
{
#if GROUP == CPU_BLOCK
    return load_lanes(d, j * VL, n);
#elif VL == 16
    (void)j;
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
        vf_load_n(d, n));
#else
    __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(
        load_lanes(d, 0, n), _mm256_add_epi32(low, _mm256_set1_epi32(4 * j)));
#endif
}

/* Of the groups' scales those of the lanes of vector p; AVX-512 takes them from
 * the register, the others from memory. */
static ALWAYS_INLINE vf spread(vf in_register, const float *scales, int p)
{
#if VL == 16
    const int each = GROUP / 4, first = p * 4 * VL / GROUP;
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i index = _mm512_add_epi32(_mm512_srli_epi32(lane, each == 8 ? 3 : 2),
                                     _mm512_set1_epi32(first));
    (void)scales;
    return _mm512_permutexvar_ps(index, in_register);
#elif GROUP == CPU_BLOCK
    (void)in_register;
    return _mm256_broadcast_ss(scales + p);
#else
    (void)in_register;
    return _mm256_set_m128(_mm_broadcast_ss(scales + 2 * p + 1),
                           _mm_broadcast_ss(scales + 2 * p));
#endif
}

/* The scales of a piece times those of a row of x, in vectors and in memory;
 * rest: see dots. */
static ALWAYS_INLINE void combine(const piece *w, const factors *f,
                                  const uint8_t *x, vf *scale, float *scales,
                                  vf *rest)
{
    const int64_t length = w->a->k, k = w->k;
    const float *d = q8_scales(x, length) + k / CPU_BLOCK;
    const float *sums = q8_sums(x, length, GROUP) + k / GROUP;
    const int groups = w->n * CPU_BLOCK / GROUP;
    UNROLL
    for (int j = 0; j < GROUP_VECTORS; j++) {
        vf dx = x_lanes(d, j, w->n);
        scale[j] = vf_mul(dx, f->scale[j]);
        vf m = HAS_MINIMUM ? vf_mul(dx, f->minimum[j]) : scale[j];
        *rest = vf_fma(m, load_lanes(sums, j * VL, groups), *rest);
        if (VL == 8)
            vf_store(scales + j * VL, scale[j]);
    }
}

/* A piece of w times n rows of x. */
static ALWAYS_INLINE void dot_piece(const piece *w, const uint8_t *xp,
                                    size_t x_size, dots *d, const int n)
{
    float scales[GEMV_TOKENS][PIECE / 16] __attribute__((aligned(64)));
    vf scale[GEMV_TOKENS][GROUP_VECTORS];
    factors f;

    read_factors(w, &f);
    UNROLL
    for (int t = 0; t < n; t++)
        combine(w, &f, xp + t * x_size, scale[t], scales[t], &d->rest[t]);
    UNROLL
    for (int p = 0; p < VECTORS(w->n); p++) {
        vi q = weights(w->w, p, w->n);
        UNROLL
        for (int t = 0; t < n; t++) {
            vi v = dot_vector(q, vi_load(xp + t * x_size + w->k + p * 4 * VL));
            d->acc[t] = vf_fma(vf_from_int(v),
                               spread(scale[t][0], scales[t], p), d->acc[t]);
        }
    }
}

static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t first, size_t x_size, ahead *next,
                                  const int n)
{
    const uint8_t *xp = (const uint8_t *)a->xp + (size_t)first * x_size;
    int64_t k = 0;
    dots d;

    UNROLL
    for (int t = 0; t < n; t++)
        d.acc[t] = d.rest[t] = vf_zero();
    for (; k + PIECE <= a->k; k += PIECE) {
        piece w = piece_at(a, o, k, BLOCKS);
        if (first == 0)
            prefetch_ahead(next, a->w_stride, piece_size());
        dot_piece(&w, xp, x_size, &d, n);
    }
    if (k < a->k) {
        piece w = piece_at(a, o, k, blocks_from(a, k));
        if (first == 0)
            prefetch_ahead(next, a->w_stride, w.n * block_size());
        dot_piece(&w, xp, x_size, &d, n);
    }
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(first + t) * a->y_stride + o] =
            vf_hsum(vf_fnma(vf_set1(HAS_MINIMUM ? 1 : OFFSET), d.rest[t],
                            d.acc[t])) +
            (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void gemv(const cpu_matmul_args *a, size_t x_size)
{
    ahead next = look_ahead(a);
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += GEMV_TOKENS) {
            int n = (int)(a->n - i < GEMV_TOKENS ? a->n - i : GEMV_TOKENS);
            WITH_4(n, dot_row, a, o, i, x_size, &next)
        }
    }
}
