#include "fit.h"

#include <math.h>

enum { LANES = 8, CANDIDATES = 6, ROUNDS = 3 };

/* Adding it leaves no bits behind the point: the sum is rounded. */
#define ROUNDER 0x1.8p23f

static float inverse_of(float x)
{
    float inverse = x != 0 ? 1 / x : 0;
    return isfinite(inverse) ? inverse : 0;
}

static void round_integers(const float *restrict x, const llm_levels *levels,
                           float inverse, float offset, float *restrict v)
{
    const float low = levels->low, high = levels->high;
    for (int i = 0; i < LANES; i++) {
        float y = (x[i] - offset) * inverse;
        y = y < low ? low : y;
        y = y > high ? high : y;
        v[i] = (y + ROUNDER) - ROUNDER;
    }
}

static void round_all(const llm_weighted *a, const llm_levels *levels,
                      float inverse, float offset, float *v)
{
    for (int i = 0; i < a->n; i += LANES)
        round_integers(a->x + i, levels, inverse, offset, v + i);
    for (int i = 0; levels->nearest && i < a->n; i++)
        v[i] = levels->nearest[(int)v[i] + 128];
}

void llm_fit_round(const llm_weighted *a, const llm_levels *levels,
                   llm_line line, float *v)
{
    round_all(a, levels, inverse_of(line.scale), line.offset, v);
}

float llm_fit_error(const llm_weighted *a, const llm_levels *levels,
                    llm_line line)
{
    float v[LLM_FIT_MOST], lanes[LANES] = {0}, sum = 0;
    llm_fit_round(a, levels, line, v);
    for (int i = 0; i < a->n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float d = a->x[i + k] - line.scale * v[i + k] - line.offset;
            lanes[k] += a->weight[i + k] * d * d;
        }
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

int llm_fit_index(const llm_levels *levels, float v)
{
    int index = 0;
    if (!levels->nearest)
        return (int)(v - levels->low);
    for (int i = (int)levels->low + 129; i <= (int)v + 128; i++)
        index += levels->nearest[i] != levels->nearest[i - 1];
    return index;
}

void llm_levels_of(const int8_t *values, int n, llm_levels *out, float *nearest)
{
    int at = 0;
    for (int i = values[0]; i <= values[n - 1]; i++) {
        while (at + 1 < n && 2 * i > values[at] + values[at + 1])
            at++;
        nearest[i + 128] = values[at];
    }
    *out = (llm_levels){values[0], values[n - 1],
                        (float)(values[1] - values[0]), nearest};
}

/* Weighted sums over the numbers. */
typedef struct sums {
    double v, xv, vv;
} sums;

static sums sums_of(const llm_weighted *a, const float *v)
{
    float sv[LANES] = {0}, sxv[LANES] = {0}, svv[LANES] = {0};
    sums s = {0};
    for (int i = 0; i < a->n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float wv = a->weight[i + k] * v[i + k];
            sv[k] += wv;
            sxv[k] += wv * a->x[i + k];
            svv[k] += wv * v[i + k];
        }
    for (int k = 0; k < LANES; k++) {
        s.v += (double)sv[k];
        s.xv += (double)sxv[k];
        s.vv += (double)svv[k];
    }
    return s;
}

/* ------------------------------------------------------------------------ */

/* Takes the scale of least squares over if it is better than *best. */
static int try_scale(const llm_weighted *a, const llm_levels *levels,
                     float inverse, double *best, float *scale)
{
    float v[LLM_FIT_MOST];
    round_all(a, levels, inverse, 0, v);
    const sums s = sums_of(a, v);
    if (s.vv <= 0 || s.xv * s.xv <= *best * s.vv)
        return 0;
    *best = s.xv * s.xv / s.vv;
    *scale = (float)(s.xv / s.vv);
    return 1;
}

float llm_fit_scale(const llm_weighted *a, const llm_levels *levels)
{
    float extreme = 0, scale = 0;
    double best = 0;
    for (int i = 0; i < a->n; i++)
        extreme = fabsf(a->x[i]) > fabsf(extreme) ? a->x[i] : extreme;
    const float inverse = inverse_of(extreme);
    for (int i = 1 - CANDIDATES; i < CANDIDATES && inverse != 0; i++) {
        const float shift = levels->step * (float)i / CANDIDATES;
        try_scale(a, levels, (levels->low + shift) * inverse, &best, &scale);
        try_scale(a, levels, (levels->high + shift) * inverse, &best, &scale);
    }
    for (int i = 0; i < ROUNDS; i++)
        if (!try_scale(a, levels, inverse_of(scale), &best, &scale))
            break;
    return scale;
}

/* ------------------------------------------------------------------------ */

typedef struct line_search {
    const llm_weighted *a;
    const llm_levels *levels;
    int above;
    double w, x; /* sums of the weights, and of the numbers by them */
    double best; /* least error, less that of 0 everywhere */
    llm_line line;
} line_search;

/* Rounds, and takes the line of least squares over if it is better. */
static int try_line(line_search *t, float inverse, float offset)
{
    float v[LLM_FIT_MOST];
    round_all(t->a, t->levels, inverse, offset, v);
    const sums s = sums_of(t->a, v);
    const double det = t->w * s.vv - s.v * s.v;
    if (s.vv <= 0)
        return 0;
    double scale = s.xv / s.vv, at = 0;
    if (det > 1e-9 * t->w * s.vv) { /* else all are on one level */
        at = (s.vv * t->x - s.v * s.xv) / det;
        if (at > 0 && !t->above)
            at = 0;
        else
            scale = (t->w * s.xv - t->x * s.v) / det;
    }
    const double error = scale * (scale * s.vv + 2 * at * s.v - 2 * s.xv) +
                         at * (at * t->w - 2 * t->x);
    if (scale <= 0 || error >= t->best)
        return 0;
    t->best = error;
    t->line = (llm_line){(float)scale, (float)at};
    return 1;
}

llm_line llm_fit_line(const llm_weighted *a, const llm_levels *levels,
                      int above)
{
    line_search t = {.a = a, .levels = levels, .above = above};
    float low = a->x[0], high = a->x[0];
    for (int i = 0; i < a->n; i++) {
        low = a->x[i] < low ? a->x[i] : low;
        high = a->x[i] > high ? a->x[i] : high;
        t.w += (double)a->weight[i];
        t.x += (double)a->weight[i] * (double)a->x[i];
    }
    low = low > 0 && !above ? 0 : low;
    t.line.offset = low;
    t.best = t.w * (double)low * (double)low - 2 * (double)low * t.x;
    const float inverse = inverse_of(high - low);
    for (int i = -CANDIDATES; i <= CANDIDATES && inverse != 0; i++)
        try_line(&t, (levels->high + (float)i / CANDIDATES) * inverse, low);
    for (int i = 0; i < ROUNDS; i++)
        if (!try_line(&t, inverse_of(t.line.scale), t.line.offset))
            break;
    return t.line;
}
