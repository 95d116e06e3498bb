/*
 * Fits numbers by few levels: x = scale * v + offset, where each v is one of
 * the levels. Both searches try divisions of the range into steps, take for
 * each the scale and offset of least squares, and round again by the best.
 */
#pragma once

#include <stdint.h>

enum { LLM_FIT_MOST = 32 }; /* numbers fitted at once */

/* What v can be: whole numbers low..high, or some of them. */
typedef struct llm_levels {
    float low, high;
    float step;           /* between two levels at the ends */
    const float *nearest; /* [256], the level for i - 128; NULL: all are */
} llm_levels;

/* Of n whole numbers in rising order; nearest: [256], is filled. */
void llm_levels_of(const int8_t *values, int n, llm_levels *out,
                   float *nearest);

/* The weight of a number's error. */
typedef struct llm_weighted {
    const float *x, *weight; /* [n] */
    int n;                   /* a multiple of 8, at most LLM_FIT_MOST */
} llm_weighted;

typedef struct llm_line {
    float scale, offset;
} llm_line;

/* Levels from 0; the offset is at most 0 unless it may be above. */
llm_line llm_fit_line(const llm_weighted *a, const llm_levels *levels,
                      int above);
/* Offset 0. A scale may be negative where levels are not symmetric. */
float llm_fit_scale(const llm_weighted *a, const llm_levels *levels);

/* The levels nearest to (x - offset) / scale; v: [n]. */
void llm_fit_round(const llm_weighted *a, const llm_levels *levels,
                   llm_line line, float *v);
/* The weighted sum of squared errors when x is rounded like that. */
float llm_fit_error(const llm_weighted *a, const llm_levels *levels,
                    llm_line line);
/* The place of a level among the levels. */
int llm_fit_index(const llm_levels *levels, float v);
