/*
 * How the kernels of a format of integers read its weights: a piece of PIECE
 * elements at a time, which is a block of the format or several, as vectors of
 * unsigned bytes in the order of x. Groups of a piece have a float scale and,
 * in some formats, a float minimum: an element is
 *
 *   scale * (byte - OFFSET) - minimum
 *
 * The file of a format defines, before it includes a product,
 *
 *   DTYPE   its clv_dtype
 *   GROUP   elements with the same scale: 32 or 16
 *   OFFSET  what is added to its integers to make them unsigned; 0 where it has
 *           minimums
 *   TOP     the largest of these bytes
 *   X_IN_PAIRS  1 where the even elements of a block come before the odd ones
 *   static vi weights(const uint8_t *w, int p, int n);
 *           vector p (of 4 * VL elements) of the piece at w, of which n blocks
 *           of CPU_BLOCK are there; those that are not may be anything
 *   static void read_factors(const piece *p, factors *out);
 *           the factors of a piece; of groups that are not there, zeros
 *
 * and gets `product`, its cpu_product.
 */
#pragma once

#include "matmul_gemm.h"
#include "prepare.h"
#include "tokens.h"
#include "x86.h"

#include <stddef.h>

#ifndef X_IN_PAIRS
#define X_IN_PAIRS 0
#endif

#define PIECE 256
#define BLOCKS (PIECE / CPU_BLOCK)
#define GROUPS (PIECE / GROUP)

/* Vectors of weights in a piece of n blocks. */
#define VECTORS(n) (((n)*CPU_BLOCK + 4 * VL - 1) / (4 * VL))

/* A value for each group, in vectors; lanes without a group are zero. */
#define GROUP_VECTORS ((GROUPS + VL - 1) / VL)
typedef struct factors {
    vf scale[GROUP_VECTORS], minimum[GROUP_VECTORS];
} factors;

/* Elements k to k + PIECE of row o, or as many blocks as there are. */
typedef struct piece {
    const cpu_matmul_args *a;
    int64_t o, k;
    const uint8_t *w;
    int n;
} piece;

static ALWAYS_INLINE int64_t piece_size(void)
{
    const clv_format *f = clv_format_of(DTYPE);
    return PIECE / f->elements * f->bytes;
}

/* Bytes of CPU_BLOCK elements, where a piece is BLOCKS blocks. */
static ALWAYS_INLINE int64_t block_size(void)
{
    return piece_size() / BLOCKS;
}

/* One whose count is a constant, where it is whole, is compiled for that. */
static ALWAYS_INLINE piece piece_at(const cpu_matmul_args *a, int64_t o,
                                    int64_t k, const int n)
{
    const uint8_t *row = (const uint8_t *)a->w + o * a->w_stride;
    return (piece){a, o, k, row + k / PIECE * piece_size(), n};
}

static ALWAYS_INLINE int blocks_from(const cpu_matmul_args *a, int64_t k)
{
    return a->k - k < PIECE ? (int)((a->k - k) / CPU_BLOCK) : BLOCKS;
}

/* The weights that will be read AHEAD bytes later. A row may be a part of a
 * longer one: those in between are not read, so the place moves to the next row
 * where the part ends. */
#define AHEAD 2048
typedef struct ahead {
    const uint8_t *row;
    int64_t at, size; /* bytes: in the row's part, and of that */
} ahead;

static ALWAYS_INLINE ahead look_ahead(const cpu_matmul_args *a)
{
    const int64_t size = a->k / CPU_BLOCK * block_size();
    const int64_t row = a->o_begin + AHEAD / size;
    return (ahead){(const uint8_t *)a->w + row * a->w_stride, AHEAD % size,
                   size};
}

/* Asks for so many bytes there, which is worth a third of one core's rate. */
static ALWAYS_INLINE void prefetch_ahead(ahead *p, int64_t stride,
                                         int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p->row + p->at + i, _MM_HINT_T0);
    for (p->at += bytes; p->at >= p->size; p->at -= p->size)
        p->row += stride;
}

/* ------------------------------------------------------------------------ */
/* Bytes                                                                     */

/* Parts of two blocks of 128 bits, a's in both halves of the first 256 bits,
 * b's in those that AVX-512 has beyond. */
static ALWAYS_INLINE vi load_twice(const uint8_t *a, const uint8_t *b)
{
#if VL == 16
    vi v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)a));
    return _mm512_mask_broadcast_i32x4(v, 0xff00,
                                       _mm_loadu_si128((const __m128i *)b));
#else
    (void)b;
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)a));
#endif
}

/* Where the first and the last block of vector p begin. */
static ALWAYS_INLINE const uint8_t *first_block(const uint8_t *w, int p)
{
    return w + p * (VL / 8) * block_size();
}

static ALWAYS_INLINE const uint8_t *last_block(const uint8_t *w, int p, int n)
{
    int last = p * (VL / 8) + VL / 8 - 1;
    return w + (last < n ? last : n - 1) * block_size();
}

/* Of bytes that are there twice, the low nibbles in front of the others. */
static ALWAYS_INLINE vi nibbles(vi twice)
{
#if VL == 16
    vi v = _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
#else
    vi v = _mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4));
#endif
    return vi_and(v, vi_set1_8(15));
}

/* The nibbles of vector p of blocks that hold 16 bytes of them at `at`. */
static ALWAYS_INLINE vi block_nibbles(const uint8_t *w, int p, int n, int at)
{
    return nibbles(
        load_twice(first_block(w, p) + at, last_block(w, p, n) + at));
}

/* The bits of h in bit 4 of a byte each, of two blocks as in load_both(). */
static ALWAYS_INLINE vi block_fifth_bits(const uint8_t *w, int p, int n, int at)
{
    uint32_t first = (uint32_t)load_32(first_block(w, p) + at);
#if VL == 16
    uint32_t last = (uint32_t)load_32(last_block(w, p, n) + at);
    return _mm512_maskz_set1_epi8((__mmask64)last << 32 | first, 16);
#else
    const __m256i bytes = _mm256_setr_epi64x(
        0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)first), bytes);
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bits), bits);
    (void)n;
    return _mm256_and_si256(v, _mm256_set1_epi8(16));
#endif
}

/* What nibbles of IQ4_NL and IQ4_XS stand for, plus 128; see clv_iq4_value().
 */
static ALWAYS_INLINE vi iq4_bytes(vi q)
{
    const __m128i values =
        _mm_xor_si128(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1,
                                    13, 25, 38, 53, 69, 89, 113),
                      _mm_set1_epi8(-128));
#if VL == 16
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), q);
#else
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), q);
#endif
}

/* Vector p of fields of some bits: each 32 bytes hold the lowest bits of 32
 * elements, above them those of the next 32, and so on. */
static ALWAYS_INLINE vi fields(const uint8_t *q, const int bits, int p)
{
    const int count = 8 / bits, block = p * (VL / 8);
    const uint8_t *at = q + block / count * 32;
    const int shift = block % count * bits;
    __m256i half = _mm256_loadu_si256((const __m256i *)at);
#if VL == 16
    vi v = _mm512_srlv_epi64(_mm512_broadcast_i64x4(half),
                             _mm512_setr_epi64(shift, shift, shift, shift,
                                               shift + bits, shift + bits,
                                               shift + bits, shift + bits));
#else
    vi v = _mm256_srli_epi64(half, shift);
#endif
    return vi_and(v, vi_set1_8((int8_t)((1 << bits) - 1)));
}

/* ------------------------------------------------------------------------ */
/* Factors                                                                   */

/* Four f16 a stride apart, put together outside the vector unit. */
static ALWAYS_INLINE uint64_t four_halves(const uint8_t *p, int64_t stride)
{
    uint32_t low = load_u16(p) | (uint32_t)load_u16(p + stride) << 16;
    p += 2 * stride;
    uint32_t high = load_u16(p) | (uint32_t)load_u16(p + stride) << 16;
    return (uint64_t)high << 32 | low;
}

/* Values of eight groups. */
static ALWAYS_INLINE vf eight_lanes(__m256 v)
{
#if VL == 16
    return _mm512_zextps256_ps512(v);
#else
    return v;
#endif
}

static ALWAYS_INLINE void store_eight(float *p, vf v)
{
#if VL == 16
    _mm256_storeu_ps(p, _mm512_castps512_ps256(v));
#else
    vf_store(p, v);
#endif
}

/* The f16 that blocks have at `at`. */
static ALWAYS_INLINE vf block_factors(const piece *p, int at)
{
    const uint8_t *w = p->w + at;
    uint8_t some[16] = {0};
    if (p->n == BLOCKS) {
        __m128i h = _mm_set_epi64x(
            (long long)four_halves(w + 4 * block_size(), block_size()),
            (long long)four_halves(w, block_size()));
        return eight_lanes(_mm256_cvtph_ps(h));
    }
    for (int i = 0; i < BLOCKS && i < p->n; i++)
        memcpy(some + 2 * i, w + i * block_size(), 2);
    return eight_lanes(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)some)));
}

/* Scales that lie beside the weights. */
static ALWAYS_INLINE vf beside_factors(const piece *p)
{
    float d[BLOCKS] = {0};
    if (p->n == BLOCKS && p->a->group == p->a->k)
        return eight_lanes(_mm256_set1_ps(cpu_scale(p->a, p->o, 0)));
    for (int i = 0; i < BLOCKS && i < p->n; i++)
        d[i] = cpu_scale(p->a, p->o, p->k + i * CPU_BLOCK);
    return eight_lanes(_mm256_loadu_ps(d));
}

/* A signed byte for each group, times d. */
static ALWAYS_INLINE void scaled_bytes(__m128i q, float d, vf *out)
{
#if VL == 16 && GROUP == 16
    *out = vf_mul(vf_from_int(_mm512_cvtepi8_epi32(q)), vf_set1(d));
#else
    out[0] = eight_lanes(scaled(q, _mm256_set1_ps(d)));
    if (GROUP_VECTORS > 1)
        out[GROUP_VECTORS - 1] =
            eight_lanes(scaled(_mm_srli_si128(q, 8), _mm256_set1_ps(d)));
#endif
}

/* Of Q4_K and Q5_K; see clv_k_scale(). */
static ALWAYS_INLINE void k_factors(const uint8_t *w, factors *out)
{
    uint32_t a = (uint32_t)load_32(w + 4), b = (uint32_t)load_32(w + 8),
             c = (uint32_t)load_32(w + 12);
    uint32_t s = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    uint32_t t = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
    uint64_t scales = (uint64_t)s << 32 | (a & 0x3f3f3f3f);
    uint64_t minimums = (uint64_t)t << 32 | (b & 0x3f3f3f3f);
    scaled_bytes(_mm_cvtsi64_si128((long long)scales), load_f16(w), out->scale);
    scaled_bytes(_mm_cvtsi64_si128((long long)minimums), load_f16(w + 2),
                 out->minimum);
}

/* Fills the table; conversion is elsewhere. */
#ifdef CPU_TILES
#define FORMAT(name)                                                           \
    void ISA(cpu_x86_##name)(cpu_kernels * table)                              \
    {                                                                          \
        table->formats[DTYPE].many = product;                                  \
        table->formats[DTYPE].many_from = TILES_FROM;                          \
    }
#else
#define FORMAT(name)                                                           \
    void ISA(cpu_x86_##name)(cpu_kernels * table)                              \
    {                                                                          \
        table->formats[DTYPE].product = product;                               \
    }
#endif
