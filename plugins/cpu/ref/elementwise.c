#include "ref.h"

#include <math.h>

static void add(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void mul(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static float silu1(float x)
{
    return x / (1 + expf(-x));
}

static float gelu1(float x)
{
    const float root = 0.79788456080286535588f; /* sqrt(2 / pi) */
    return 0.5f * x * (1 + tanhf(root * (x + 0.044715f * x * x * x)));
}

static void silu(const float *x, float *y, int64_t n, float unused)
{
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        y[i] = silu1(x[i]);
}

static void gelu(const float *x, float *y, int64_t n, float unused)
{
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        y[i] = gelu1(x[i]);
}

static void sigmoid(const float *x, float *y, int64_t n, float unused)
{
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        y[i] = 1 / (1 + expf(-x[i]));
}

static void scale(const float *x, float *y, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

static void round_by(const float *x, float *y, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        const float k = rintf(x[i] / scale);
        y[i] = scale ? scale * (k < -127 ? -127 : k > 127 ? 127 : k) : x[i];
    }
}

static void excess(const float *x, float *y, int64_t n, float limit)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - fminf(fmaxf(x[i], -limit), limit);
}

static void softcap(const float *x, float *y, int64_t n, float cap)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = cap ? cap * tanhf(x[i] / cap) : x[i];
}

static void glu_silu(const float *gate, const float *up, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = silu1(gate[i]) * up[i];
}

static void glu_gelu(const float *gate, const float *up, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = gelu1(gate[i]) * up[i];
}

static void rms_norm(const float *x, const float *weight, float *y, int64_t c,
                     float eps)
{
    double sum = 0;
    for (int64_t i = 0; i < c; i++)
        sum += (double)x[i] * x[i];
    float scale = (float)(1 / sqrt(sum / (double)c + eps));
    for (int64_t i = 0; i < c; i++)
        y[i] = x[i] * scale * weight[i];
}

static void layer_norm(const float *x, const float *weight, const float *bias,
                       float *y, int64_t c, float eps)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < c; i++)
        sum += x[i];
    double mean = sum / (double)c;
    for (int64_t i = 0; i < c; i++)
        square += (x[i] - mean) * (x[i] - mean);
    float scale = (float)(1 / sqrt(square / (double)c + eps));
    for (int64_t i = 0; i < c; i++)
        y[i] = (float)(x[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0);
}

static void softmax(const float *x, float *y, int64_t c)
{
    float top = -INFINITY;
    for (int64_t i = 0; i < c; i++)
        top = fmaxf(top, x[i]);
    double sum = 0;
    for (int64_t i = 0; i < c; i++) {
        y[i] = expf(x[i] - top);
        sum += y[i];
    }
    float scale = (float)(1 / sum);
    for (int64_t i = 0; i < c; i++)
        y[i] *= scale;
}

/* The score of the largest of a row, of which element `taken` does not count.
 * It is at *best; -1: nowhere. */
static float mixer_score(const float *x, int64_t c, float jitter, int64_t taken,
                         int64_t *best)
{
    double sum = 0;
    *best = -1;
    for (int64_t i = 0; i < c; i++)
        if (i != taken && (*best < 0 || x[i] > x[*best]))
            *best = i;
    for (int64_t i = 0; *best >= 0 && i < c; i++) {
        const float top = x[*best], size = fmaxf(fabsf(x[i]), top);
        if (i != taken && top - x[i] <= 2 * jitter * size)
            sum += exp((double)x[i] - top);
    }
    return (float)(1 / sum);
}

static void sparse_mixer(const float *x, float *y, int64_t c, float jitter)
{
    int64_t first, second;
    float nothing = 0; /* NaN if one of the row is not finite */
    for (int64_t i = 0; i < c; i++)
        nothing += x[i] * 0;
    const float a = mixer_score(x, c, jitter, -1, &first);
    const float b = mixer_score(x, c, jitter, first, &second);
    for (int64_t i = 0; i < c; i++)
        y[i] = nothing + (i == first ? a : i == second ? b : 0);
}

void cpu_ref_elementwise(cpu_kernels *table)
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
    table->sparse_mixer = sparse_mixer;
}
