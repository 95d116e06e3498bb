#include "integer.h"

#include <cleave/plugin_format.h>

#include <math.h>

/* Cutting off the largest numbers pays where there are few integers. */
enum { CUTS = 32 };

static float limit_of(uint32_t dtype)
{
    return dtype == CLV_DTYPE_I8 ? 127 : 7;
}

float llm_integer_reach(uint32_t dtype, float largest)
{
    return largest / limit_of(dtype);
}

static double error_of(const float *x, uint64_t n, float scale, float limit)
{
    const float inverse = clv_inverse_scale(scale);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        float d = x[i] - scale * (float)clv_round_within(x[i] * inverse, limit);
        sum += (double)(d * d);
    }
    return sum;
}

float llm_integer_scale(uint32_t dtype, const float *x, uint64_t n)
{
    float largest = 0, best = 0;
    double least = INFINITY;
    for (uint64_t i = 0; i < n; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    const float whole = llm_integer_reach(dtype, largest);
    for (int i = 0; i < CUTS; i++) {
        const float scale = whole * (1 - (float)i / (2 * CUTS));
        const double error = error_of(x, n, scale, limit_of(dtype));
        if (error < least) {
            least = error;
            best = scale;
        }
    }
    return best;
}

void llm_integer_round(uint32_t dtype, const float *x, uint64_t n, float scale,
                       uint8_t *dst, uint64_t at)
{
    const float inverse = clv_inverse_scale(scale), limit = limit_of(dtype);
    for (uint64_t i = 0; i < n; i++, at++) {
        const int32_t q = clv_round_within(x[i] * inverse, limit);
        if (dtype == CLV_DTYPE_I8)
            dst[at] = (uint8_t)q;
        else if (at % 2)
            dst[at / 2] = (uint8_t)((dst[at / 2] & 15) | (q & 15) << 4);
        else
            dst[at / 2] = (uint8_t)(q & 15);
    }
}
