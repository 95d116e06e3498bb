/* Elementwise ops, norms, softmax and rotary embedding. */
#include "vecmath.h"
#include "x86.h"

#include <math.h>

static int64_t lanes(int64_t left) { return left < VL ? left : VL; }

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

#define UNARY(name, expression)                                                \
    static void name(const float *x, float *y, int64_t n)                      \
    {                                                                          \
        int64_t i = 0;                                                         \
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
UNARY(silu, vf_silu(a))
UNARY(gelu, vf_gelu(a))

/* Sums run in doubles: squares of large activations pass the range of f32. */
static void rms_norm(const float *x, const float *weight, float *y, int64_t c,
                     float eps)
{
    vd low = vd_zero(), high = vd_zero();
    for (int64_t i = 0; i < c; i += VL) {
        vf v = vf_load_n(x + i, lanes(c - i));
        low = vd_fma(vf_low(v), vf_low(v), low);
        high = vd_fma(vf_high(v), vf_high(v), high);
    }
    double mean = vd_hsum(vd_add(low, high)) / (double)c;
    vf scale = vf_set1((float)(1 / sqrt(mean + (double)eps)));
    for (int64_t i = 0; i < c; i += VL) {
        int64_t n = lanes(c - i);
        vf v = vf_mul(vf_load_n(x + i, n), scale);
        vf_store_n(y + i, vf_mul(v, vf_load_n(weight + i, n)), n);
    }
}

static void layer_norm(const float *x, const float *weight, const float *bias,
                       float *y, int64_t c, float eps)
{
    vd low = vd_zero(), high = vd_zero();
    for (int64_t i = 0; i < c; i += VL) {
        vf v = vf_load_n(x + i, lanes(c - i));
        low = vd_add(vf_low(v), low);
        high = vd_add(vf_high(v), high);
    }
    double mean = vd_hsum(vd_add(low, high)) / (double)c, square = 0;
    vd m = vd_set1(mean);
    int64_t whole = c / VL * VL;
    low = high = vd_zero();
    for (int64_t i = 0; i < whole; i += VL) {
        vf v = vf_load(x + i);
        vd a = vd_sub(vf_low(v), m), b = vd_sub(vf_high(v), m);
        low = vd_fma(a, a, low);
        high = vd_fma(b, b, high);
    }
    for (int64_t i = whole; i < c; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean);
    square += vd_hsum(vd_add(low, high));
    vf scale = vf_set1((float)(1 / sqrt(square / (double)c + (double)eps)));
    for (int64_t i = 0; i < c; i += VL) {
        int64_t n = lanes(c - i);
        vf v = vf_load_n(x + i, n);
        v = vf_from_doubles(vd_sub(vf_low(v), m), vd_sub(vf_high(v), m));
        v = vf_mul(vf_mul(v, scale), vf_load_n(weight + i, n));
        if (bias)
            v = vf_add(v, vf_load_n(bias + i, n));
        vf_store_n(y + i, v, n);
    }
}

static void softmax(const float *x, float *y, int64_t c)
{
    vf top = vf_set1(-INFINITY), sum = vf_zero();
    int64_t whole = c / VL * VL;
    float highest, total = 0;

    for (int64_t i = 0; i < whole; i += VL)
        top = vf_max(vf_load(x + i), top);
    highest = vf_hmax(top);
    for (int64_t i = whole; i < c; i++)
        highest = fmaxf(highest, x[i]);
    for (int64_t i = 0; i < c; i += VL) {
        int64_t n = lanes(c - i);
        vf e = vf_exp(vf_sub(vf_load_n(x + i, n), vf_set1(highest)));
        vf_store_n(y + i, e, n);
        if (n == VL)
            sum = vf_add(sum, e);
    }
    for (int64_t i = whole; i < c; i++)
        total += y[i];
    vf scale = vf_set1(1 / (total + vf_hsum(sum)));
    for (int64_t i = 0; i < c; i += VL) {
        int64_t n = lanes(c - i);
        vf_store_n(y + i, vf_mul(vf_load_n(y + i, n), scale), n);
    }
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
        vf_store(y + 2 * j, vf_turn(vf_load(x + 2 * j),
                                    vf_load(sin_cos + 2 * j)));
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

void ISA(cpu_x86_rowops)(cpu_kernels *table)
{
    table->add = add;
    table->mul = mul;
    table->silu = silu;
    table->gelu = gelu;
    table->glu_silu = glu_silu;
    table->glu_gelu = glu_gelu;
    table->rms_norm = rms_norm;
    table->layer_norm = layer_norm;
    table->softmax = softmax;
    table->rope = rope;
}
