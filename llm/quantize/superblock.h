/*
 * Fits blocks of 256 numbers: sub-blocks with integers for scales and minimums,
 * under one float for each of the two.
 */
#pragma once

#include "fit.h"

typedef struct llm_super_shape {
    int sub; /* numbers of a sub-block: 16 or 32 */
    llm_levels levels;
    int least, most; /* scales and minimums; least < 0: there are no minimums */
} llm_super_shape;

typedef struct llm_super {
    uint16_t d, m;              /* f16; m: 0 without minimums */
    int scales[16], minima[16]; /* minima are subtracted */
    uint8_t q[256];             /* places of the levels */
} llm_super;

void llm_fit_super(const llm_super_shape *shape, const float *x /* [256] */,
                   llm_super *out);
