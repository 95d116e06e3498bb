/*
 * Tiles: eight registers of 16 rows of 64 bytes, and products of pairs of BF16
 * into F32. Where CPU_TILES_EMULATED is defined, the same in C, for tests on
 * processors without AMX.
 */
#pragma once

#include "vec.h"

#define TILE_ROWS 16
#define TILE_BYTES (TILE_ROWS * 64)
#define TILE_K 32 /* products that a step adds to each element */

#ifdef CPU_TILES_EMULATED

typedef union tile_register {
    float f32[TILE_ROWS][16];
    uint16_t bf16[TILE_ROWS][TILE_K];
} tile_register;

static _Thread_local tile_register tile_registers[8];

static inline float tile_widen(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

static inline void tile_multiply(tile_register *c, const tile_register *a,
                                 const tile_register *b)
{
    for (int m = 0; m < TILE_ROWS; m++)
        for (int p = 0; p < TILE_K; p++)
            for (int n = 0; n < 16; n++)
                c->f32[m][n] += tile_widen(a->bf16[m][p]) *
                                tile_widen(b->bf16[p / 2][2 * n + p % 2]);
}

#define tiles_begin() ((void)0)
#define tiles_end() ((void)0)
#define tile_zero(c) memset(&tile_registers[c], 0, TILE_BYTES)
#define tile_load(c, p) memcpy(&tile_registers[c], p, TILE_BYTES)
#define tile_store(c, p) memcpy(p, &tile_registers[c], TILE_BYTES)
#define tile_add(c, a, b)                                                      \
    tile_multiply(&tile_registers[c], &tile_registers[a], &tile_registers[b])

#else

/* All tiles have 16 rows of 64 bytes. */
static inline void tiles_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&shapes);
}

static inline void tiles_end(void)
{
    _tile_release();
}

/* The compiler does not know that a load reads memory. */
#define tile_load(c, p)                                                        \
    do {                                                                       \
        __asm__ volatile("" ::: "memory");                                     \
        _tile_loadd(c, p, 64);                                                 \
    } while (0)
#define tile_zero(c) _tile_zero(c)
#define tile_store(c, p) _tile_stored(c, p, 64)
#define tile_add(c, a, b) _tile_dpbf16ps(c, a, b)

#endif
