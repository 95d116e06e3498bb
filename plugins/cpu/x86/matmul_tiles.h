/*
 * Products by tiles. Weights become BF16 with their scales, STRIP rows and
 * DEPTH channels at a time, and stay in the first cache while they are
 * multiplied with all rows of x, see prepare.h: sums lie in tiles, and need no
 * scales any more. Rounded to BF16, x is closer to itself than in blocks of 8
 * bits.
 *
 * A tile of sums has 16 rows of weights by 16 rows of x, so that weights are
 * read in the order in which they are stored; y is turned when it is whole.
 */
#pragma once

#include "bf16.h"
#include "block.h"
#include "tiles.h"
#include "turn.h"

/* Rows of x from which these pay; where tiles are emulated, all the rows that
 * tests have. */
#ifdef CPU_TILES_EMULATED
#define TILES_FROM 2
#else
#define TILES_FROM 48
#endif
#define STRIP 32 /* rows of weights */
#define DEPTH 512
#define GROUP_ROWS CPU_PREPARE_ROWS /* rows of x in a tile */
#define HAS_MINIMUM (OFFSET == 0)

/* Weights of a strip: tiles by TILE_K channels, of its first rows and of its
 * last ones. */
typedef uint16_t tile_weights[STRIP / TILE_ROWS][TILE_ROWS][TILE_K];

typedef struct tile_sums {
    float of[STRIP / TILE_ROWS][TILE_ROWS][GROUP_ROWS];
} tile_sums;

typedef struct tile_scratch {
    tile_weights w[DEPTH / TILE_K];
    tile_sums sums[]; /* by group of rows of x */
} tile_scratch;

/* The blocks of row r of a strip. */
static ALWAYS_INLINE void unpack_piece(const piece from, int r,
                                       tile_weights *to)
{
    float scale[GROUP_VECTORS * VL], minimum[GROUP_VECTORS * VL];
    uint8_t bytes[4 * VL] __attribute__((aligned(64)));
    factors f;
    read_factors(&from, &f);
    for (int i = 0; i < GROUP_VECTORS; i++) {
        vf_store(scale + i * VL, f.scale[i]);
        vf_store(minimum + i * VL, HAS_MINIMUM
                                       ? f.minimum[i]
                                       : vf_mul(f.scale[i], vf_set1(OFFSET)));
    }
    for (int p = 0; p < VECTORS(from.n); p++) {
        vi_store(bytes, weights(from.w, p, from.n));
        for (int b = 2 * p; b < 2 * p + 2 && b < from.n; b++) {
            vf v[2];
            for (int i = 0; i < 2; i++) {
                const int at = b % 2 * CPU_BLOCK + i * VL;
                const int g = (b * CPU_BLOCK + i * VL) / GROUP;
                const vi wide = _mm512_cvtepu8_epi32(
                    _mm_load_si128((const __m128i *)(bytes + at)));
                v[i] = _mm512_fmsub_ps(vf_from_int(wide), vf_set1(scale[g]),
                                       vf_set1(minimum[g]));
            }
            vi_store(to[b][r / TILE_ROWS][r % TILE_ROWS],
                     vf_to_bf16(v[0], v[1]));
        }
    }
}

/* Asks for what comes after a piece of its row: so many rows side by side are
 * not seen by the processor. */
static ALWAYS_INLINE void prefetch_next(const cpu_matmul_args *a, int64_t o,
                                        int64_t k)
{
    const bool ends = k + PIECE >= a->k;
    const char *w = (const char *)a->w + (ends ? o + STRIP : o) * a->w_stride +
                    (ends ? 0 : (k + PIECE) / PIECE * piece_size());
    for (int64_t i = 0; i < piece_size(); i += 64)
        _mm_prefetch(w + i, _MM_HINT_T0);
}

/* Rows past the end: the last one's, which nobody reads. */
static void unpack_strip(const cpu_matmul_args *a, int64_t o, int64_t k,
                         int64_t depth, tile_weights *to)
{
    for (int64_t at = 0; at < depth; at += PIECE) {
        const int n = blocks_from(a, k + at);
        for (int r = 0; r < STRIP; r++) {
            const int64_t row = o + r < a->o_end ? o + r : a->o_end - 1;
            prefetch_next(a, row, k + at);
            /* Whole pieces are compiled for their constant count. */
            if (n == BLOCKS)
                unpack_piece(piece_at(a, row, k + at, BLOCKS), r,
                             to + at / TILE_K);
            else
                unpack_piece(piece_at(a, row, k + at, n), r, to + at / TILE_K);
        }
    }
}

/* sums += weights times a group of rows of x, or two groups. */
static ALWAYS_INLINE void multiply_groups(const tile_weights *w,
                                          const uint8_t *x, size_t x_size,
                                          int64_t steps, bool first,
                                          tile_sums *sums, const int n)
{
    if (first) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        tile_load(0, sums[0].of[0]);
        tile_load(1, sums[0].of[1]);
        if (n > 1) {
            tile_load(2, sums[1].of[0]);
            tile_load(3, sums[1].of[1]);
        }
    }
    for (int64_t s = 0; s < steps; s++, x += TILE_BYTES) {
        tile_load(4, w[s][0]);
        tile_load(6, x);
        tile_add(0, 4, 6);
        tile_load(5, w[s][1]);
        tile_add(1, 5, 6);
        if (n > 1) {
            tile_load(7, x + x_size);
            tile_add(2, 4, 7);
            tile_add(3, 5, 7);
        }
    }
    tile_store(0, sums[0].of[0]);
    tile_store(1, sums[0].of[1]);
    if (n > 1) {
        tile_store(2, sums[1].of[0]);
        tile_store(3, sums[1].of[1]);
    }
}

/* y of a tile of sums: of rows begin to end of its group, the first of them at
 * y, and of n rows of w. */
static void put_sums(const float sums[TILE_ROWS][GROUP_ROWS], float *y,
                     int64_t y_stride, const float *bias, int64_t begin,
                     int64_t end, int64_t n)
{
    const vf add = bias ? vf_load_n(bias, n) : vf_zero();
    vi v[TILE_ROWS];
    for (int i = 0; i < TILE_ROWS; i++)
        v[i] = vi_load(sums[i]);
    turn_16(v);
    for (int64_t i = begin; i < end; i++, y += y_stride)
        vf_store_n(y, vf_add(_mm512_castsi512_ps(v[i]), add), n);
}

/* Rows of x that are a part of groups. */
typedef struct tile_rows {
    const uint8_t *x; /* the first group */
    size_t x_size;    /* bytes of a group */
    int64_t groups;
    int64_t begin; /* row of the first group that is row 0 of y */
} tile_rows;

static void put_strip(const cpu_matmul_args *a, const tile_rows *t, int64_t o,
                      const tile_sums *sums)
{
    for (int64_t g = 0; g < t->groups; g++) {
        const int64_t row = g * GROUP_ROWS - t->begin; /* of y */
        const int64_t begin = row < 0 ? -row : 0;
        const int64_t end = a->n - row < GROUP_ROWS ? a->n - row : GROUP_ROWS;
        for (int m = 0; m < STRIP / TILE_ROWS; m++) {
            const int64_t at = o + m * TILE_ROWS;
            const int64_t n =
                a->o_end - at < TILE_ROWS ? a->o_end - at : TILE_ROWS;
            if (n > 0)
                put_sums(sums[g].of[m], a->y + (row + begin) * a->y_stride + at,
                         a->y_stride, a->bias ? a->bias + at : NULL, begin, end,
                         n);
        }
    }
}

static void multiply_strip(const cpu_matmul_args *a, const tile_rows *t,
                           int64_t o)
{
    tile_scratch *to = a->scratch;
    for (int64_t k = 0; k < a->k; k += DEPTH) {
        const int64_t depth = a->k - k < DEPTH ? a->k - k : DEPTH;
        const uint8_t *x = t->x + (size_t)k * GROUP_ROWS * sizeof(uint16_t);
        int64_t g = 0;
        unpack_strip(a, o, k, depth, to->w);
        for (; g + 2 <= t->groups; g += 2)
            multiply_groups(to->w, x + (size_t)g * t->x_size, t->x_size,
                            depth / TILE_K, !k, to->sums + g, 2);
        if (g < t->groups)
            multiply_groups(to->w, x + (size_t)g * t->x_size, t->x_size,
                            depth / TILE_K, !k, to->sums + g, 1);
    }
    put_strip(a, t, o, to->sums);
}

#define GROUPS_MAX                                                             \
    (int64_t)((CPU_SCRATCH_SIZE - sizeof(tile_scratch)) / sizeof(tile_sums))

static void matmul(const cpu_matmul_args *a)
{
    const size_t row_size = ISA(cpu_x86_bf16_size)(a->k);
    tile_rows t = {.begin = a->xp_row % GROUP_ROWS,
                   .x_size = GROUP_ROWS * row_size};
    cpu_matmul_args some = *a;

    t.x = (const uint8_t *)a->xp - (size_t)t.begin * row_size;
    tiles_begin();
    for (int64_t row = 0; row < a->n; row += some.n) {
        some.n = GROUPS_MAX * GROUP_ROWS - t.begin;
        if (some.n > a->n - row)
            some.n = a->n - row;
        some.y = a->y + row * a->y_stride;
        t.groups = (t.begin + some.n + GROUP_ROWS - 1) / GROUP_ROWS;
        for (int64_t o = a->o_begin; o < a->o_end; o += STRIP)
            multiply_strip(&some, &t, o);
        t.x += (size_t)t.groups * t.x_size;
        t.begin = 0;
    }
    tiles_end();
}

static const cpu_product product = {
    matmul,
    {ISA(cpu_x86_bf16_size),
     X_IN_PAIRS ? ISA(cpu_x86_bf16_pair_rows) : ISA(cpu_x86_bf16_rows), false,
     true}};
