#include "spread.h"

#include <math.h>

enum { BINS = LLM_SPREAD_BINS };

/* The part of the values that may be outliers more if that divides the squared
 * error by e. Of values that are spread normally 3 in 1000 then are. */
#define OUTLIERS (1.0 / 64)
#define OUTLIERS_MOST (1.0 / 16)

/* The magnitude in the middle of a bin, or with half 0.5 at its upper end. */
static double magnitude(int bin, double half)
{
    return exp2(LLM_SPREAD_LOWEST + (bin + half) / LLM_SPREAD_STEPS);
}

void llm_spread_count(llm_spread *s, float value, double effect)
{
    const float size = fabsf(value);
    const float at =
        (log2f(size) - LLM_SPREAD_LOWEST) * LLM_SPREAD_STEPS + 0.5f;
    if (at >= 0) { /* smaller ones, and 0, are exact enough */
        const int bin = at < BINS - 1 ? (int)at : BINS - 1;
        s->effects[bin] += effect;
        s->values[bin]++;
    }
    if (size > s->largest)
        s->largest = size;
}

/* What becomes of the values at a range. */
typedef struct loss {
    double rounded, cut; /* squared errors by effect */
    double outside;      /* part of the values */
} loss;

static loss loss_of(const llm_spread *s, double range)
{
    const double step = range / 127;
    loss l = {0, 0, 0};
    double all = 0;
    for (int i = 0; i < BINS; i++) {
        const double x = magnitude(i, 0), over = x - range;
        all += (double)s->values[i];
        if (over > 0) {
            l.cut += s->effects[i] * over * over;
            l.outside += (double)s->values[i];
        } else {
            l.rounded += s->effects[i] * fmin(x * x, step * step / 12);
        }
    }
    l.outside /= all > 0 ? all : 1;
    return l;
}

llm_clamp llm_spread_choose(const llm_spread *s)
{
    llm_clamp c = {
        .largest = s->largest, .alone = s->largest, .range = s->largest};
    const loss whole = loss_of(s, s->largest);
    double least = whole.rounded + whole.cut, best = whole.rounded;
    double shared = whole.rounded;
    for (int i = 0; i < BINS && magnitude(i, 0.5) < s->largest; i++) {
        const double range = magnitude(i, 0.5);
        const loss l = loss_of(s, range);
        const double cost = l.rounded * exp(l.outside / OUTLIERS);
        if (l.rounded + l.cut < least) {
            least = l.rounded + l.cut;
            c.alone = (float)range;
        }
        if (cost < best && l.outside <= OUTLIERS_MOST) {
            best = cost;
            shared = l.rounded;
            c.range = (float)range;
        }
    }
    c.importance = least > 0 ? (least - shared) / least : 0;
    return c;
}
