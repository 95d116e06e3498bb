/* Transcendental functions on vectors. Infinities and NaN behave as in libm. */
#pragma once

#include "vec.h"

/* e^x, relative error below 2e-7, results in the denormal range included. */
static ALWAYS_INLINE vf vf_exp(vf x)
{
    /* min and max hand on their second operand where it is NaN */
    x = vf_min(vf_set1(89.0f), vf_max(vf_set1(-105.0f), x));
    vf n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693359375f), x); /* ln 2 in two parts */
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    /* (e^r - 1 - r) / r^2, fitted on |r| <= ln 2 / 2 */
    vf p = vf_set1(0.00139261836f);
    p = vf_fma(p, r, vf_set1(0.00836317905f));
    p = vf_fma(p, r, vf_set1(0.0416665546f));
    p = vf_fma(p, r, vf_set1(0.166665770f));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(vf_mul(p, r), r, r);
    return vf_scale2(vf_add(p, vf_set1(1.0f)), n);
}

static ALWAYS_INLINE vf vf_tanh(vf x)
{
    vf one = vf_set1(1.0f), two = vf_set1(2.0f);
    vf t = vf_mul(x, x);
    /* (tanh(x) / x - 1) / x^2, fitted on x^2 <= 0.4 */
    vf p = vf_set1(-0.00604516510f);
    p = vf_fma(p, t, vf_set1(0.0209613291f));
    p = vf_fma(p, t, vf_set1(-0.0538432632f));
    p = vf_fma(p, t, vf_set1(0.133327188f));
    p = vf_fma(p, t, vf_set1(-0.333333284f));
    vf near = vf_fma(vf_mul(p, t), x, x);
    vf e = vf_exp(vf_mul(two, x));
    vf far = vf_sub(one, vf_div(two, vf_add(e, one)));
    return vf_if_less(t, vf_set1(0.4f), near, far);
}

/* x / (1 + e^-x) */
static ALWAYS_INLINE vf vf_sigmoid(vf x)
{
    vf e = vf_exp(vf_sub(vf_zero(), x));
    return vf_div(vf_set1(1.0f), vf_add(vf_set1(1.0f), e));
}

static ALWAYS_INLINE vf vf_silu(vf x)
{
    vf e = vf_exp(vf_sub(vf_zero(), x));
    return vf_div(x, vf_add(vf_set1(1.0f), e));
}

/* x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), written as
 * x / (1 + e^-2u), which keeps its precision for negative x. */
static ALWAYS_INLINE vf vf_gelu(vf x)
{
    vf u = vf_fma(vf_mul(vf_mul(x, x), x), vf_set1(0.044715f), x);
    vf e = vf_exp(vf_mul(u, vf_set1(-1.59576912f)));
    return vf_div(x, vf_add(vf_set1(1.0f), e));
}
