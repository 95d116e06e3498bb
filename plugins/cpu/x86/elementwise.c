/* Elementwise ops, norms, softmax and rotary embedding. */
#include "vecmath.h"
#include "x86.h"

#include <math.h>

/* y[i] = expression of a and b, the vectors of the two inputs. */
#define BINARY(name, first, second, expression)                                \
    static void name(const float *first, const float *second, float *y,        \
                     int64_t n)                                                \
    {                                                                          \
        int64_t i = 0;                                                         \
        for (; i + VL <= n; i += VL) {                                         \
            vf a = vf_load(first + i), b = vf_load(second + i);                \
            vf_store(y + i, expression);                                       \
        }                                                                      \
        if (i < n) {                                                           \
            vf a = vf_load_n(first + i, n - i);                                \
            vf b = vf_load_n(second + i, n - i);                               \
            vf_store_n(y + i, expression, n - i);                              \
        }                                                                      \
    }

/* arg: the op's attribute. */
#define UNARY(name, arg, expression)                                           \
    static void name(const float *x, float *y, int64_t n, float arg)           \
    {                                                                          \
        int64_t i = 0;                                                         \
        (void)arg;                                                             \
        for (; i + VL <= n; i += VL) {                                         \
            vf a = vf_load(x + i);                                             \
            vf_store(y + i, expression);                                       \
        }                                                                      \
        if (i < n) {                                                           \
            vf a = vf_load_n(x + i, n - i);                                    \
            vf_store_n(y + i, expression, n - i);                              \
        }                                                                      \
    }

BINARY(add, p, q, vf_add(a, b))
BINARY(mul, p, q, vf_mul(a, b))
BINARY(glu_silu, gate, up, vf_mul(vf_silu(a), b))
BINARY(glu_gelu, gate, up, vf_mul(vf_gelu(a), b))
UNARY(silu, unused, vf_silu(a))
UNARY(gelu, unused, vf_gelu(a))
UNARY(sigmoid, unused, vf_sigmoid(a))
UNARY(scale, factor, vf_mul(a, vf_set1(factor)))
UNARY(capped, cap, vf_mul(vf_set1(cap), vf_tanh(vf_div(a, vf_set1(cap)))))
/* NaN stays NaN: the second operand is taken where one is. */
UNARY(rounded, scale,
      vf_mul(vf_set1(scale),
             vf_max(vf_set1(-127),
                    vf_min(vf_set1(127), vf_round(vf_div(a, vf_set1(scale)))))))

UNARY(excess, limit,
      vf_sub(a, vf_max(vf_set1(-limit), vf_min(vf_set1(limit), a))))

static void round_by(const float *x, float *y, int64_t n, float step)
{
    if (step)
        rounded(x, y, n, step);
    else
        scale(x, y, n, 1);
}

static void softcap(const float *x, float *y, int64_t n, float cap)
{
    if (cap)
        capped(x, y, n, cap);
    else
        scale(x, y, n, 1);
}

/* Sum of (x - mean)^2, in doubles: squares of large activations pass the range
 * of f32. */
static double sum_squares(const float *x, int64_t c, double mean)
{
    vd low = vd_zero(), high = vd_zero(), m = vd_set1(mean);
    double sum = 0;
    int64_t i = 0;
    for (; i + VL <= c; i += VL) {
        vf v = vf_load(x + i);
        vd a = vd_sub(vf_low(v), m), b = vd_sub(vf_high(v), m);
        low = vd_fma(a, a, low);
        high = vd_fma(b, b, high);
    }
    for (; i < c; i++)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sum + vd_hsum(vd_add(low, high));
}

static double sum_values(const float *x, int64_t c)
{
    vd low = vd_zero(), high = vd_zero();
    double sum = 0;
    int64_t i = 0;
    for (; i + VL <= c; i += VL) {
        vf v = vf_load(x + i);
        low = vd_add(vf_low(v), low);
        high = vd_add(vf_high(v), high);
    }
    for (; i < c; i++)
        sum += (double)x[i];
    return sum + vd_hsum(vd_add(low, high));
}

static void rms_norm(const float *x, const float *weight, float *y, int64_t c,
                     float eps)
{
    double mean = sum_squares(x, c, 0) / (double)c;
    float scale = (float)(1 / sqrt(mean + (double)eps));
    vf s = vf_set1(scale);
    int64_t i = 0;
    for (; i + VL <= c; i += VL)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), s), vf_load(weight + i)));
    for (; i < c; i++)
        y[i] = x[i] * scale * weight[i];
}

static void layer_norm(const float *x, const float *weight, const float *bias,
                       float *y, int64_t c, float eps)
{
    double mean = sum_values(x, c) / (double)c;
    double square = sum_squares(x, c, mean) / (double)c;
    float scale = (float)(1 / sqrt(square + (double)eps));
    vd m = vd_set1(mean);
    vf s = vf_set1(scale);
    int64_t i = 0;
    for (; i + VL <= c; i += VL) {
        vf v = vf_load(x + i);
        v = vf_from_doubles(vd_sub(vf_low(v), m), vd_sub(vf_high(v), m));
        v = vf_mul(vf_mul(v, s), vf_load(weight + i));
        vf_store(y + i, bias ? vf_add(v, vf_load(bias + i)) : v);
    }
    for (; i < c; i++)
        y[i] = (float)((double)x[i] - mean) * scale * weight[i] +
               (bias ? bias[i] : 0);
}

/* y = e^(x - top); the sum of y */
static float exponentials(const float *x, float *y, int64_t c, float top)
{
    vf sum = vf_zero(), t = vf_set1(top);
    int64_t i = 0;
    float tail = 0;
    for (; i + VL <= c; i += VL) {
        vf e = vf_exp(vf_sub(vf_load(x + i), t));
        vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    if (i < c)
        vf_store_n(y + i, vf_exp(vf_sub(vf_load_n(x + i, c - i), t)), c - i);
    for (; i < c; i++)
        tail += y[i];
    return tail + vf_hsum(sum);
}

static void softmax(const float *x, float *y, int64_t c)
{
    vf top = vf_set1(-INFINITY);
    int64_t i = 0;
    for (; i + VL <= c; i += VL)
        top = vf_max(vf_load(x + i), top);
    float highest = vf_hmax(top);
    for (; i < c; i++)
        highest = fmaxf(highest, x[i]);
    float scale = 1 / exponentials(x, y, c, highest);
    for (i = 0; i + VL <= c; i += VL)
        vf_store(y + i, vf_mul(vf_load(y + i), vf_set1(scale)));
    for (; i < c; i++)
        y[i] *= scale;
}

static void turn(const float *x, const float *sin_cos, float *y, int64_t apart)
{
    float a = x[0], b = x[apart];
    y[0] = a * sin_cos[1] - b * sin_cos[0];
    y[apart] = a * sin_cos[0] + b * sin_cos[1];
}

/* Pairs (j, j + half) */
static void rope_halves(const float *x, const float *sin_cos, float *y,
                        int64_t half)
{
    int64_t j = 0;
    for (; j + VL <= half; j += VL) {
        vf s0 = vf_load(sin_cos + 2 * j), s1 = vf_load(sin_cos + 2 * j + VL);
        vf s = vf_even(s0, s1), c = vf_odd(s0, s1);
        vf a = vf_load(x + j), b = vf_load(x + half + j);
        vf_store(y + j, vf_sub(vf_mul(a, c), vf_mul(b, s)));
        vf_store(y + half + j, vf_add(vf_mul(a, s), vf_mul(b, c)));
    }
    for (; j < half; j++)
        turn(x + j, sin_cos + 2 * j, y + j, half);
}

/* Pairs (2j, 2j + 1) */
static void rope_pairs(const float *x, const float *sin_cos, float *y,
                       int64_t half)
{
    int64_t j = 0;
    for (; j + VL / 2 <= half; j += VL / 2)
        vf_store(y + 2 * j,
                 vf_turn(vf_load(x + 2 * j), vf_load(sin_cos + 2 * j)));
    for (; j < half; j++)
        turn(x + 2 * j, sin_cos + 2 * j, y + 2 * j, 1);
}

static void rope(const float *x, const float *sin_cos, float *y, int64_t heads,
                 int64_t head_dim, int64_t n_rot, uint32_t mode)
{
    for (int64_t h = 0; h < heads; h++, x += head_dim, y += head_dim) {
        if (mode == CLV_ROPE_HALVES)
            rope_halves(x, sin_cos, y, n_rot / 2);
        else
            rope_pairs(x, sin_cos, y, n_rot / 2);
        if (y != x)
            memcpy(y + n_rot, x + n_rot,
                   (size_t)(head_dim - n_rot) * sizeof(*y));
    }
}

void ISA(cpu_x86_elementwise)(cpu_kernels *table)
{
    table->add = add;
    table->mul = mul;
    table->silu = silu;
    table->gelu = gelu;
    table->sigmoid = sigmoid;
    table->scale = scale;
    table->softcap = softcap;
    table->round = round_by;
    table->excess = excess;
    table->glu_silu = glu_silu;
    table->glu_gelu = glu_gelu;
    table->rms_norm = rms_norm;
    table->layer_norm = layer_norm;
    table->softmax = softmax;
    table->rope = rope;
}
