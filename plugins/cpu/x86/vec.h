/*
 * Vectors of the instruction set a file is compiled for: 8 floats with AVX2, 16
 * with AVX-512. The sources of this directory are built once for each set; all
 * that differs between them is here or behind VL.
 */
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Before a loop with a constant count: leaves no loop, so that the arrays it
 * goes through become registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

static inline float hsum8(__m256 v)
{
    __m128 s =
        _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* A table of one-line functions reads best with a line each. */
/* clang-format off */
#ifdef __AVX512F__

#if defined CPU_TILES_EMULATED
#define ISA(name) name##_amx_emulated
#elif defined CPU_TILES
#define ISA(name) name##_amx
#elif defined __AVX512VNNI__
#define ISA(name) name##_avx512_vnni
#else
#define ISA(name) name##_avx512
#endif
#define VL 16
#define V(op) _mm512_##op

typedef __m512 vf;
typedef __m512i vi;

/* Pins a value to a register here, so that the compiler does not reorder a
 * micro-kernel into something that spills its accumulators. */
#define KEEP(v) __asm__ volatile("" : "+v"(v))
/* acc += v in place: left to itself the compiler adds moves here. */
#define ADD32(acc, v) \
    __asm__ volatile("vpaddd %1, %0, %0" : "+v"(acc) : "v"(v))
#define ADD16(acc, v) \
    __asm__ volatile("vpaddw %1, %0, %0" : "+v"(acc) : "v"(v))

static inline __mmask16 vf_mask(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline vf vf_load_n(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(vf_mask(n), p);
}
static inline void vf_store_n(float *p, vf v, int64_t n)
{
    _mm512_mask_storeu_ps(p, vf_mask(n), v);
}
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT |
                                       _MM_FROUND_NO_EXC);
}
static inline vf vf_from_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void vf_to_f16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf vf_from_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

static inline vi vi_zero(void) { return _mm512_setzero_si512(); }
static inline vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(void *p, vi v) { _mm512_storeu_si512(p, v); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }

static inline vi vf_abs_bits(vf v)
{
    return _mm512_and_si512(_mm512_castps_si512(v),
                            _mm512_set1_epi32(0x7fffffff));
}
static inline int32_t vi_hmax32(vi v) { return _mm512_reduce_max_epi32(v); }
static inline void vi_store_16(int16_t *p, vi v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(v));
}
static inline void vi_store_8(int8_t *p, vi v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v));
}

static inline float vf_hsum(vf v) { return _mm512_reduce_add_ps(v); }
static inline float vf_hmax(vf v) { return _mm512_reduce_max_ps(v); }

/* Lanes as two vectors of doubles. */
typedef __m512d vd;
static inline vd vf_low(vf v)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}
static inline vd vf_high(vf v)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}
static inline vf vf_from_doubles(vd low, vd high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)),
                              _mm512_cvtpd_ps(high), 1);
}
static inline double vd_hsum(vd v) { return _mm512_reduce_add_pd(v); }

/* Values of even and of odd index of a and b, one after the other. */
static inline vf vf_even(vf a, vf b)
{
    return _mm512_permutex2var_ps(
        a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                             28, 30), b);
}
static inline vf vf_odd(vf a, vf b)
{
    return _mm512_permutex2var_ps(
        a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                             29, 31), b);
}

/* 2^n times v, for whole n; saturates to 0 and infinity. */
static inline vf vf_scale2(vf v, vf n) { return _mm512_scalef_ps(v, n); }

/* a where x < y (ordered), else b */
static inline vf vf_if_less(vf x, vf y, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}

#else

#define ISA(name) name##_avx2
#define VL 8
#define V(op) _mm256_##op

typedef __m256 vf;
typedef __m256i vi;

#define KEEP(v) __asm__ volatile("" : "+x"(v))
#define ADD32(acc, v) \
    __asm__ volatile("vpaddd %1, %0, %0" : "+x"(acc) : "x"(v))
#define ADD16(acc, v) \
    __asm__ volatile("vpaddw %1, %0, %0" : "+x"(acc) : "x"(v))

static inline __m256i vf_mask(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_load_n(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, vf_mask(n));
}
static inline void vf_store_n(float *p, vf v, int64_t n)
{
    _mm256_maskstore_ps(p, vf_mask(n), v);
}
static inline vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_from_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline void vf_to_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf vf_from_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

static inline vi vi_zero(void) { return _mm256_setzero_si256(); }
static inline vi vi_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline void vi_store(void *p, vi v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}
static inline vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }

static inline vi vf_abs_bits(vf v)
{
    return _mm256_and_si256(_mm256_castps_si256(v),
                            _mm256_set1_epi32(0x7fffffff));
}
static inline int32_t vi_hmax32(vi v)
{
    __m128i s = _mm_max_epi32(_mm256_castsi256_si128(v),
                              _mm256_extracti128_si256(v, 1));
    s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
static inline void vi_store_16(int16_t *p, vi v)
{
    _mm_storeu_si128((__m128i *)p,
                     _mm_packs_epi32(_mm256_castsi256_si128(v),
                                     _mm256_extracti128_si256(v, 1)));
}
static inline void vi_store_8(int8_t *p, vi v)
{
    __m128i s = _mm_packs_epi32(_mm256_castsi256_si128(v),
                                _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(s, s));
}

static inline float vf_hsum(vf v) { return hsum8(v); }
static inline float vf_hmax(vf v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v),
                          _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

typedef __m256d vd;
static inline vd vf_low(vf v)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}
static inline vd vf_high(vf v)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
static inline vf vf_from_doubles(vd low, vd high)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}
static inline double vd_hsum(vd v)
{
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v),
                           _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

static inline vf vf_even(vf a, vf b)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(
        _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xd8));
}
static inline vf vf_odd(vf a, vf b)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(
        _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8));
}

/* In two steps, so that results in the denormal range and 2^128 come right. */
static inline vf vf_scale2(vf v, vf n)
{
    __m256i i = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(i, 1);
    __m256i rest = _mm256_sub_epi32(i, half);
    __m256i bias = _mm256_set1_epi32(127);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(
                             _mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(
                                _mm256_add_epi32(rest, bias), 23)));
}

static inline vf vf_if_less(vf x, vf y, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}

#endif

static inline vf vf_zero(void) { return V(setzero_ps)(); }
static inline vf vf_set1(float x) { return V(set1_ps)(x); }
static inline vf vf_load(const float *p) { return V(loadu_ps)(p); }
static inline void vf_store(float *p, vf v) { V(storeu_ps)(p, v); }
static inline vf vf_add(vf a, vf b) { return V(add_ps)(a, b); }
static inline vf vf_sub(vf a, vf b) { return V(sub_ps)(a, b); }
static inline vf vf_mul(vf a, vf b) { return V(mul_ps)(a, b); }
static inline vf vf_div(vf a, vf b) { return V(div_ps)(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return V(fmadd_ps)(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return V(fnmadd_ps)(a, b, c); }
/* b where either is NaN */
static inline vf vf_max(vf a, vf b) { return V(max_ps)(a, b); }
static inline vf vf_min(vf a, vf b) { return V(min_ps)(a, b); }
static inline vi vf_to_int(vf v) { return V(cvtps_epi32)(v); }
static inline vf vf_from_int(vi v) { return V(cvtepi32_ps)(v); }

static inline vi vi_set1_32(int32_t x) { return V(set1_epi32)(x); }
static inline vi vi_set1_8(int8_t x) { return V(set1_epi8)(x); }
static inline vi vi_set1_16(int16_t x) { return V(set1_epi16)(x); }
static inline vi vi_add32(vi a, vi b) { return V(add_epi32)(a, b); }
static inline vi vi_srl16(vi a, int n) { return V(srli_epi16)(a, (unsigned)n); }
static inline vi vi_sll16(vi a, int n) { return V(slli_epi16)(a, (unsigned)n); }
static inline vi vi_madd16(vi a, vi b) { return V(madd_epi16)(a, b); }
static inline vi vi_maddubs(vi u, vi s) { return V(maddubs_epi16)(u, s); }
static inline vi vi_max32(vi a, vi b) { return V(max_epi32)(a, b); }

static inline vd vd_zero(void) { return V(setzero_pd)(); }
static inline vd vd_set1(double x) { return V(set1_pd)(x); }
static inline vd vd_add(vd a, vd b) { return V(add_pd)(a, b); }
static inline vd vd_sub(vd a, vd b) { return V(sub_pd)(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return V(fmadd_pd)(a, b, c); }

/* Pairs (a, b) turned by (sin, cos): (a cos - b sin, a sin + b cos). */
static inline vf vf_turn(vf x, vf sin_cos)
{
    vf swapped = V(permute_ps)(x, 0xb1);
    return V(fmaddsub_ps)(
        x, V(movehdup_ps)(sin_cos),
        V(mul_ps)(swapped, V(moveldup_ps)(sin_cos)));
}
/* clang-format on */

/* p need not be aligned in these. */
static inline uint16_t load_u16(const void *p)
{
    uint16_t i;
    memcpy(&i, p, sizeof(i));
    return i;
}

static inline float load_f16(const void *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof(h));
    return _cvtsh_ss(h);
}

static inline int32_t load_32(const void *p)
{
    int32_t i;
    memcpy(&i, p, sizeof(i));
    return i;
}

/* Rows of eight 32-bit values to columns. */
static ALWAYS_INLINE void transpose8(__m256 r[8])
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* The 32 bytes at a, with AVX-512 also those at b. */
static ALWAYS_INLINE vi load_both(const uint8_t *a, const uint8_t *b)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)a);
#if VL == 16
    return _mm512_inserti64x4(_mm512_castsi256_si512(low),
                              _mm256_loadu_si256((const __m256i *)b), 1);
#else
    (void)b;
    return low;
#endif
}

/* Eight signed bytes as floats, times d. */
static ALWAYS_INLINE __m256 scaled(__m128i q, __m256 d)
{
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), d);
}
