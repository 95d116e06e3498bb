/*
 * The part of matmul_u8s8.h for sets without VNNI: pairs of products are added
 * in 16 bits. Weights are nibbles, 0..15: a whole block of their products fits
 * 16 bits a lane, 8 * 2 * 15 * 127 < 2^15.
 */
#pragma once

#define GEMM_TOKENS TOKENS /* rows of x at once */
#define GEMM_FROM 2        /* rows of x from which packing pays */

_Static_assert(OFFSET == 8, "nibbles");

static ALWAYS_INLINE void micro_n(const gemm_tile *t, const int n)
{
    const panel *p = t->panel;
    const int8_t *x[TOKENS];
    vi one = vi_set1_16(1);
    int64_t blocks = t->k / CPU_BLOCK;
    /* From a value of a row of x to the row's scales. */
    size_t to_scales = (size_t)(t->k - t->k_begin) +
                       (size_t)(t->k_begin / CPU_BLOCK) * sizeof(float);

    UNROLL
    for (int i = 0; i < n; i++)
        x[i] = (const int8_t *)(t->x + (size_t)i * t->x_stride) + t->k_begin;
    for (int b = 0; b * CPU_BLOCK < t->depth; b++) {
        const uint8_t *w = p->q[b * 8][0];
        vi acc[TOKENS][2];
        UNROLL
        for (int i = 0; i < n; i++)
            acc[i][0] = acc[i][1] = vi_zero();
        UNROLL
        for (int k = 0; k < CPU_BLOCK; k += 4) {
            vi w0 = vi_load(w + k * ROWS), w1 = vi_load(w + k * ROWS + 4 * VL);
            UNROLL
            for (int i = 0; i < n; i++) {
                vi v = vi_set1_32(load_32(x[i] + b * CPU_BLOCK + k));
                ADD16(acc[i][0], vi_maddubs(w0, v));
                ADD16(acc[i][1], vi_maddubs(w1, v));
            }
        }
        vf d0 = vf_load(p->d[b]), d1 = vf_load(p->d[b] + VL);
        UNROLL
        for (int i = 0; i < n; i++) {
            float *y = t->y + i * t->y_stride;
            const float *scales =
                (const float *)((const uint8_t *)x[i] + to_scales) + b;
            vf d = vf_set1(*scales);
            vf s = vf_set1(scales[blocks]);
            vf v0 = vf_add(vf_from_int(vi_madd16(acc[i][0], one)), s);
            vf v1 = vf_add(vf_from_int(vi_madd16(acc[i][1], one)), s);
            vf_store(y, vf_fma(v0, vf_mul(d, d0), vf_load(y)));
            vf_store(y + VL, vf_fma(v1, vf_mul(d, d1), vf_load(y + VL)));
        }
    }
}

static void micro(const gemm_tile *t)
{
    WITH_TOKENS(t->tokens, micro_n, t)
}

static ALWAYS_INLINE __m256 dot_block(const uint8_t *w, __m256i x)
{
    __m256i v = _mm256_maddubs_epi16(block_bytes(w + block_head()), x);
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(v, _mm256_set1_epi16(1)));
}

/* Scales of the blocks of four rows; put together outside the vector unit,
 * whose shuffles are the bottleneck here. */
static ALWAYS_INLINE __m128 four_scales(const cpu_matmul_args *a, int64_t o,
                                        int64_t k, const uint8_t *w)
{
    int64_t w_stride = a->w_stride;
    if (is_scaled())
        return _mm_setr_ps(cpu_scale(a, o, k), cpu_scale(a, o + 1, k),
                           cpu_scale(a, o + 2, k), cpu_scale(a, o + 3, k));
    uint32_t low = load_u16(w) | (uint32_t)load_u16(w + w_stride) << 16;
    w += 2 * w_stride;
    uint32_t high = load_u16(w) | (uint32_t)load_u16(w + w_stride) << 16;
    return _mm_cvtph_ps(
        _mm_cvtsi64_si128((long long)((uint64_t)high << 32 | low)));
}

/* Four rows of w by one of x; the offsets of the four sum up in lanes. */
static ALWAYS_INLINE void dot_rows(const cpu_matmul_args *a, int64_t o)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const int8_t *x = a->xp;
    const float *d = q8_scales(x, a->k), *s = q8_sums(x, a->k);
    const uint8_t *next = w + 4 * a->w_stride;
    int64_t blocks = a->k / CPU_BLOCK;
    __m256 a0, a1, a2, a3;
    __m128 offset = _mm_setzero_ps();
    /* Of whole rows, where they have one. */
    int by_row = is_scaled() && a->group == a->k;
    __m128 row_scales = _mm_setzero_ps();

    if (by_row)
        row_scales = four_scales(a, o, 0, w);
    a0 = a1 = a2 = a3 = _mm256_setzero_ps();
    for (int64_t b = 0; b < blocks; b++, w += block_size()) {
        __m256i q = _mm256_loadu_si256((const __m256i *)(x + b * CPU_BLOCK));
        union {
            __m128 v;
            float f[4];
        } scale;
        /* The next four rows, as much of them as this step reads. */
        _mm_prefetch((const char *)next, _MM_HINT_T0);
        _mm_prefetch((const char *)next + 64, _MM_HINT_T0);
        next += 4 * block_size();
        scale.v = _mm_mul_ps(by_row ? row_scales
                                    : four_scales(a, o, b * CPU_BLOCK, w),
                             _mm_set1_ps(d[b]));
        offset = _mm_fmadd_ps(scale.v, _mm_set1_ps(s[b]), offset);
        /* Through memory: loads broadcast for free. */
        __asm__ volatile("" : "+m"(scale));
        a0 = _mm256_fmadd_ps(dot_block(w, q), _mm256_broadcast_ss(&scale.f[0]),
                             a0);
        a1 = _mm256_fmadd_ps(dot_block(w + a->w_stride, q),
                             _mm256_broadcast_ss(&scale.f[1]), a1);
        a2 = _mm256_fmadd_ps(dot_block(w + 2 * a->w_stride, q),
                             _mm256_broadcast_ss(&scale.f[2]), a2);
        a3 = _mm256_fmadd_ps(dot_block(w + 3 * a->w_stride, q),
                             _mm256_broadcast_ss(&scale.f[3]), a3);
    }
    a0 = _mm256_hadd_ps(_mm256_hadd_ps(a0, a1), _mm256_hadd_ps(a2, a3));
    __m128 y =
        _mm_add_ps(_mm256_castps256_ps128(a0), _mm256_extractf128_ps(a0, 1));
    y = _mm_add_ps(y, offset);
    if (a->bias)
        y = _mm_add_ps(y, _mm_loadu_ps(a->bias + o));
    _mm_storeu_ps(a->y + o, y);
}

static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const int8_t *x = a->xp;
    const float *d = q8_scales(x, a->k), *s = q8_sums(x, a->k);
    __m256 acc = _mm256_setzero_ps();
    float offset = a->bias ? a->bias[o] : 0;

    for (int64_t b = 0; b < a->k / CPU_BLOCK; b++, w += block_size()) {
        __m256i q = _mm256_loadu_si256((const __m256i *)(x + b * CPU_BLOCK));
        float scale = block_scale(a, o, b * CPU_BLOCK, w) * d[b];
        offset += scale * s[b];
        acc = _mm256_fmadd_ps(dot_block(w, q), _mm256_set1_ps(scale), acc);
    }
    a->y[o] = hsum8(acc) + offset;
}

static ALWAYS_INLINE void gemv(const cpu_matmul_args *a, size_t x_size)
{
    int64_t o = a->o_begin;
    (void)x_size; /* one row */

    for (; o + 4 <= a->o_end; o += 4)
        dot_rows(a, o);
    for (; o < a->o_end; o++)
        dot_row(a, o);
}
