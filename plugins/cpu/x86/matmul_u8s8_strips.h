/*
 * The part of matmul_u8s8.h for some rows of x, with VNNI. A strip's piece is
 * turned into the first cache, see strip.h, and multiplied with all rows of x
 * before the next one.
 */
#pragma once

#include "strip.h"

/*
 * Rows of x from which strips are faster than weights read as they are stored,
 * and from which panels are faster than strips: docs/performance.md. The pieces
 * and the sums of 64 rows fit the first cache; strips would have to be turned
 * again for others. The file of a format may say that strips pay from fewer
 * rows on.
 */
#ifndef STRIPS_FROM
#define STRIPS_FROM 5
#endif
#define PANELS_FROM 65

#define AHEAD_PIECES 1

/* Of a block of a row of x: its scale, and for each group the offset's part of
 * the sum of products, or what minimums are multiplied by. */
typedef struct terms {
    float d;
#if HAS_MINIMUM
    float group[BLOCK_GROUPS];
#else
    int32_t group[BLOCK_GROUPS];
#endif
} terms;

/* The rows of x, and some of their elements. */
typedef struct tile {
    const cpu_matmul_args *a;
    const uint8_t *x; /* from k on */
    size_t x_size;
    terms *terms; /* [n, depth / CPU_BLOCK] */
    int64_t k, depth;
    int rows; /* n */
} tile;

static void make_terms(const tile *t)
{
    const int64_t blocks = t->depth / CPU_BLOCK, first = t->k / CPU_BLOCK;
    for (int i = 0; i < t->rows; i++) {
        const uint8_t *x = t->x - t->k + (size_t)i * t->x_size;
        const float *d = q8_scales(x, t->a->k) + first;
        const float *s = q8_sums(x, t->a->k, GROUP) + first * BLOCK_GROUPS;
        terms *out = t->terms + i * blocks;
        for (int64_t b = 0; b < blocks; b++) {
            out[b].d = d[b];
            for (int g = 0; g < BLOCK_GROUPS; g++)
#if HAS_MINIMUM
                out[b].group[g] = d[b] * s[b * BLOCK_GROUPS + g];
#else
                out[b].group[g] = (int32_t)s[b * BLOCK_GROUPS + g] * -OFFSET;
#endif
        }
    }
}

/* acc + w times four elements of x. The compiler does not take them from memory
 * by itself. */
static ALWAYS_INLINE void add_dots(vi *acc, vi w, const uint8_t *x)
{
    __asm__ volatile("vpdpbusd %2%{1to16%}, %1, %0"
                     : "+v"(*acc)
                     : "v"(w), "m"(*(const int32_t(*)[1])x));
}

/* Row i of some a distance apart: three rows share an address that the
 * processor can add their distance to. */
#define ROW(base, i, size) ((base)[(i) / 3] + (size_t)((i) % 3) * (size))

static ALWAYS_INLINE void strip_micro_n(const strip *w, int blocks,
                                        const uint8_t *x0, size_t x_size,
                                        const terms *e0, size_t e_size,
                                        float *sums, const int n)
{
    const uint8_t *x[4], *e[4];
    vf sum[TOKENS];

    UNROLL
    for (int i = 0; i < n; i += 3) {
        x[i / 3] = x0 + (size_t)i * x_size;
        e[i / 3] = (const uint8_t *)e0 + (size_t)i * e_size;
    }
    UNROLL
    for (int i = 0; i < n; i++)
        sum[i] = vf_load(sums + i * VL);
    for (int b = 0; b < blocks; b++) {
        const strip_block *from = &w->blocks[b];
        UNROLL
        for (int g = 0; g < BLOCK_GROUPS; g++) {
            vi acc[TOKENS];
            UNROLL
            for (int i = 0; i < n; i++) {
                const terms *at = (const terms *)ROW(e, i, e_size);
                acc[i] =
                    HAS_MINIMUM ? vi_zero() : vi_set1_32((int32_t)at->group[g]);
            }
            UNROLL
            for (int j = 0; j < GROUP / 4; j++) {
                vi q = vi_load(from->q[g * GROUP / 4 + j]);
                UNROLL
                for (int i = 0; i < n; i++)
                    add_dots(&acc[i], q, ROW(x, i, x_size) + g * GROUP + j * 4);
            }
            vf d = vf_load(from->d[g]);
            UNROLL
            for (int i = 0; i < n; i++) {
                const terms *at = (const terms *)ROW(e, i, e_size);
                sum[i] = vf_fma(vf_from_int(acc[i]), vf_mul(d, vf_set1(at->d)),
                                sum[i]);
#if HAS_MINIMUM
                sum[i] =
                    vf_fnma(vf_set1(at->group[g]), vf_load(from->m[g]), sum[i]);
#endif
            }
        }
        UNROLL
        for (int i = 0; i < n; i += 3) {
            x[i / 3] += CPU_BLOCK;
            e[i / 3] += sizeof(terms);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++)
        vf_store(sums + i * VL, sum[i]);
}

/* sums += a strip's piece at element k of the tile times the tile. */
static void strip_micro(const strip *w, int blocks, const tile *t, int64_t k,
                        float *sums)
{
    const size_t e_size = (size_t)(t->depth / CPU_BLOCK) * sizeof(terms);
    int groups = (t->rows + TOKENS - 1) / TOKENS, n;

    /* Groups of even size: 13 rows are 7 + 6, not 12 + 1. */
    for (int i = 0; i < t->rows; i += n, groups--) {
        n = (t->rows - i + groups - 1) / groups;
        const uint8_t *x = t->x + (size_t)i * t->x_size + k;
        const terms *e = t->terms + (i * t->depth + k) / CPU_BLOCK;
        WITH_TOKENS(n, strip_micro_n, w, blocks, x, t->x_size, e, e_size,
                    sums + i * VL)
    }
}

static ALWAYS_INLINE int64_t min_64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The piece at element k of the strip from row o on. Rows past the end: the
 * last one's, which nobody reads. */
static ALWAYS_INLINE void turn_piece(const cpu_matmul_args *a, int64_t o,
                                     int64_t k, int n, strip *out)
{
    const uint8_t *rows[VL];
    int64_t at[VL];
    for (int i = 0; i < VL; i++) {
        at[i] = min_64(o + i, a->o_end - 1);
        rows[i] = piece_at(a, at[i], k, n).w;
    }
    put_factors(a, at, k, n, out);
#ifdef TURN
    TURN(rows, n, out);
#else
    turn_any(rows, n, out);
#endif
}

/* Where the pieces of the tile's strips are asked for: so many rows side by
 * side are not seen by the processor. */
typedef struct strip_ahead {
    int64_t o, k;
} strip_ahead;

static ALWAYS_INLINE void move_ahead(strip_ahead *p, const tile *t)
{
    p->k += PIECE;
    if (p->k >= t->depth) {
        p->k = 0;
        p->o += VL;
    }
}

static ALWAYS_INLINE void prefetch_strip(const tile *t, strip_ahead *p)
{
    const int n = blocks_from(t->a, t->k + p->k);
    for (int i = 0; i < VL && p->o + i < t->a->o_end; i++) {
        const char *w =
            (const char *)piece_at(t->a, p->o + i, t->k + p->k, n).w;
        for (int64_t at = 0; at < n * block_size(); at += 64)
            _mm_prefetch(w + at, _MM_HINT_T0);
    }
    move_ahead(p, t);
}

/* y of the strip from row o on. */
static void load_sums(const tile *t, int64_t o, int64_t n, float *sums)
{
    const cpu_matmul_args *a = t->a;
    for (int i = 0; i < t->rows; i++) {
        const float *from = t->k      ? a->y + i * a->y_stride + o
                            : a->bias ? a->bias + o
                                      : NULL;
        vf_store(sums + i * VL, from ? vf_load_n(from, n) : vf_zero());
    }
}

static void store_sums(const tile *t, int64_t o, int64_t n, const float *sums)
{
    const cpu_matmul_args *a = t->a;
    for (int i = 0; i < t->rows; i++)
        vf_store_n(a->y + i * a->y_stride + o, vf_load(sums + i * VL), n);
}

static void multiply_tile(const tile *t)
{
    const cpu_matmul_args *a = t->a;
    float sums[(PANELS_FROM - 1) * VL] __attribute__((aligned(64)));
    strip turned __attribute__((aligned(64)));
    strip_ahead next = {a->o_begin, 0};

    for (int i = 0; i < AHEAD_PIECES; i++)
        move_ahead(&next, t);
    for (int64_t o = a->o_begin; o < a->o_end; o += VL) {
        const int64_t n = min_64(VL, a->o_end - o);
        load_sums(t, o, n, sums);
        for (int64_t k = 0; k < t->depth; k += PIECE) {
            const int blocks = (int)min_64(BLOCKS, (t->depth - k) / CPU_BLOCK);
            prefetch_strip(t, &next);
            if (blocks == BLOCKS)
                turn_piece(a, o, t->k + k, BLOCKS, &turned);
            else
                turn_piece(a, o, t->k + k, blocks, &turned);
            strip_micro(&turned, blocks, t, k, sums);
        }
        store_sums(t, o, n, sums);
    }
}

/* Inlined, its registers and its frame slow products of one row by a tenth. */
static __attribute__((noinline)) void strips(const cpu_matmul_args *a,
                                             size_t x_size)
{
    tile t = {.a = a, .x_size = x_size, .terms = a->scratch, .rows = (int)a->n};
    /* Mostly all of k. */
    const int64_t most =
        (int64_t)(CPU_SCRATCH_SIZE / sizeof(terms)) / a->n / BLOCKS * PIECE;

    for (; t.k < a->k; t.k += t.depth) {
        t.depth = min_64(most, a->k - t.k);
        t.x = (const uint8_t *)a->xp + t.k;
        make_terms(&t);
        multiply_tile(&t);
    }
}
