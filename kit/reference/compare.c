#include "reference.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* An element whose error is this many times the allowed root mean square is
 * wrong. */
#define OUTLIER 32

/* Of fewer elements than this, what rounding of activations does to them all
 * scatters, up to this many times its average. */
#define FEW 64
#define SCATTER 10

double kit_error_bound(uint32_t error_class)
{
    switch (error_class) {
    case CLV_ERROR_EXACT:
        return 0;
    case CLV_ERROR_F32:
        return 1e-10;
    case CLV_ERROR_F16:
        return 1e-6;
    case CLV_ERROR_Q8:
        return 1e-4;
    case CLV_ERROR_Q8_TENSOR:
        return 1e-2;
    }
    return 1e-3; /* unstated, or a class of a later version */
}

/* Rounds x to that many bits of mantissa, the lowest of which is at least
 * `least`. */
static double round_bits(double x, int bits, double least)
{
    int exponent;
    if (!isfinite(x) || !x)
        return x;
    frexp(x, &exponent);
    double unit = ldexp(1, exponent - bits);
    unit = unit < least ? least : unit;
    return rint(x / unit) * unit;
}

/* What an exact result is in the tensor's dtype. */
static double rounded(uint32_t dtype, double x)
{
    double y = x;
    switch (dtype) {
    case CLV_DTYPE_F32:
        return (float)x;
    case CLV_DTYPE_F16:
        y = round_bits(x, 11, 0x1p-24);
        return fabs(y) > 65504 ? copysign(INFINITY, y) : y;
    case CLV_DTYPE_BF16:
        return (float)round_bits(x, 8, 0x1p-133);
    }
    return y;
}

typedef struct difference {
    double error, square; /* sums of squares */
    double worst, got, want;
    int64_t row, column, n;
} difference;

static bool same(double got, double want)
{
    return got == want || (isnan(got) && isnan(want));
}

__attribute__((format(printf, 2, 0))) static _Noreturn void
wrong(kit_graph *g, const char *what, va_list args, const difference *d,
      const char *why)
{
    char text[KIT_TEXT_SIZE / 2];
    vsnprintf(text, sizeof text, what, args);
    kit_fail(g->k, "%s: element [%lld, %lld] is %.9g, not %.9g%s", text,
             (long long)d->row, (long long)d->column, d->got, d->want, why);
}

/* How results are judged. */
typedef struct judge {
    double bound;
    bool exact;
    bool rounds; /* activations become integers, which have no NaN: where one
                    was, nothing finite may come out */
    bool shared; /* and one scale serves them all: nothing else holds then */
    uint32_t dtype;
} judge;

/* Adds one element; false if it must be met exactly and is not. */
static bool add_element(difference *d, const kit_values *want, int64_t i,
                        int64_t j, double got, const judge *how)
{
    const int64_t at = i * want->columns + j;
    const double w = want->v[at], slack = want->slack ? want->slack[at] : 0;
    const bool half =
        how->dtype == CLV_DTYPE_F16 || how->dtype == CLV_DTYPE_BF16;
    if (how->rounds && !isfinite(w) && !isfinite(got))
        return true;
    if (how->shared && isfinite(w))
        return true;
    if (!isfinite(w) || !isfinite(got) || slack < 0 ||
        (how->exact && (!slack || half))) {
        double target = how->exact ? rounded(how->dtype, w) : w;
        if (same(got, target))
            return true;
        *d = (difference){.row = i, .column = j, .got = got, .want = target};
        return false;
    }
    double off = fabs(got - w) - slack;
    off = off > 0 ? off : 0;
    double square = want->square ? want->square[at] : 0;
    d->square += square > w * w ? square : w * w;
    d->error += off * off;
    d->n++;
    if (off > d->worst) {
        d->worst = off;
        d->row = i;
        d->column = j;
        d->got = got;
        d->want = w;
    }
    return true;
}

static bool all_finite(const kit_values *values)
{
    for (int64_t i = 0; i < values->rows * values->columns; i++)
        if (!isfinite(values->v[i]))
            return false;
    return true;
}

__attribute__((format(printf, 5, 0))) static void
compare(kit_graph *g, uint32_t t, const kit_values *want, judge how,
        const char *what, va_list args)
{
    difference d = {0};
    char why[128];
    how.dtype = g->descs[t].dtype;
    how.shared = how.shared && !all_finite(want);
    kit_checked(g->k);
    for (int64_t i = 0; i < want->rows; i++)
        for (int64_t j = 0; j < want->columns; j++)
            if (!add_element(&d, want, i, j, kit_get(g, t, i, j), &how))
                wrong(g, what, args, &d, "");
    if (how.rounds && d.n < FEW)
        how.bound *= SCATTER;
    double nmse = d.square > 0 ? d.error / d.square : d.error;
    if (nmse > how.bound) {
        snprintf(why, sizeof why, "; the error of all is %.3g, %.3g is allowed",
                 nmse, how.bound);
        wrong(g, what, args, &d, why);
    }
    double rms = d.n ? sqrt(d.square / (double)d.n) : 0;
    if (rms > 0 && d.worst > OUTLIER * sqrt(how.bound) * rms) {
        snprintf(why, sizeof why, "; %.3g off where %.3g is allowed on average",
                 d.worst, sqrt(how.bound) * rms);
        wrong(g, what, args, &d, why);
    }
}

void kit_compare(kit_graph *g, uint32_t tensor, const kit_values *want,
                 uint32_t error_class, const char *what, ...)
{
    va_list args;
    judge how = {.bound = kit_error_bound(error_class),
                 .exact = error_class == CLV_ERROR_EXACT,
                 .rounds = error_class == CLV_ERROR_Q8 ||
                           error_class == CLV_ERROR_Q8_TENSOR,
                 .shared = error_class == CLV_ERROR_Q8_TENSOR};
    va_start(args, what);
    compare(g, tensor, want, how, what, args);
    va_end(args);
}

void kit_compare_within(kit_graph *g, uint32_t tensor, const kit_values *want,
                        double bound, const char *what, ...)
{
    va_list args;
    judge how = {.bound = bound};
    va_start(args, what);
    compare(g, tensor, want, how, what, args);
    va_end(args);
}
