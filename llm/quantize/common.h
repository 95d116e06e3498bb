/* What fits of all formats share. */
#pragma once

#include "fit.h"

#include <cleave/plugin_format.h>

#include <math.h>

/* nearest: [256], of the levels. */
static inline void llm_iq4_levels(llm_levels *levels, float *nearest)
{
    int8_t values[16];
    for (int i = 0; i < 16; i++)
        values[i] = (int8_t)clv_iq4_value(i);
    llm_levels_of(values, 16, levels, nearest);
}

/* How much the errors of numbers count: those of
 * large numbers more than small ones: what they are multiplied by is not known,
 * and their part of the result is larger. */
static inline void llm_weigh(const float *x, int n, float *weight)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    const float mean = sqrtf(sum / (float)n);
    for (int i = 0; i < n; i++)
        weight[i] = mean + fabsf(x[i]);
}
