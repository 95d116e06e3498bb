/*
 * Micro-kernels are compiled for every number of rows of x ("tokens") they may
 * get, so that their sums stay in registers. WITH_* call fn with the arguments
 * and, as the last one, the number as a constant.
 */
#pragma once

#include "vec.h"

/* Rows of x at once: with two vectors of columns their sums, the columns, a
 * broadcast and a product fill the 16 or 32 registers. */
#define TOKENS (VL == 16 ? 12 : 6)

/* clang-format off */
#define WITH_4(n, fn, ...)                                                     \
    switch (n) {                                                               \
    case 1: fn(__VA_ARGS__, 1); break;                                         \
    case 2: fn(__VA_ARGS__, 2); break;                                         \
    case 3: fn(__VA_ARGS__, 3); break;                                         \
    case 4: fn(__VA_ARGS__, 4); break;                                         \
    }

#define WITH_6(n, fn, ...)                                                     \
    switch (n) {                                                               \
    case 1: fn(__VA_ARGS__, 1); break;                                         \
    case 2: fn(__VA_ARGS__, 2); break;                                         \
    case 3: fn(__VA_ARGS__, 3); break;                                         \
    case 4: fn(__VA_ARGS__, 4); break;                                         \
    case 5: fn(__VA_ARGS__, 5); break;                                         \
    case 6: fn(__VA_ARGS__, 6); break;                                         \
    }

#if VL == 16
#define WITH_TOKENS(n, fn, ...)                                                \
    switch (n) {                                                               \
    case 7: fn(__VA_ARGS__, 7); break;                                         \
    case 8: fn(__VA_ARGS__, 8); break;                                         \
    case 9: fn(__VA_ARGS__, 9); break;                                         \
    case 10: fn(__VA_ARGS__, 10); break;                                       \
    case 11: fn(__VA_ARGS__, 11); break;                                       \
    case 12: fn(__VA_ARGS__, 12); break;                                       \
    default: WITH_6(n, fn, __VA_ARGS__)                                        \
    }
#else
#define WITH_TOKENS WITH_6
#endif
/* clang-format on */
