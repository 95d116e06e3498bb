/* Ops that are computed row by row. An output may lie on an input of its size:
 * a row is read before it is written. */
#include "kernel.h"

#include <math.h>
#include <string.h>

#define GRAIN 16384 /* fewer elements are not worth a thread */

static float silu(float x)
{
    return (float)((double)x / (1 + exp(-(double)x)));
}

/* (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)), which keeps its digits in the
 * tails. */
static float gelu(float x)
{
    const double c = 0.79788456080286535588; /* sqrt(2 / pi) */
    double y = (double)x;
    return (float)(y / (1 + exp(-2 * c * (y + 0.044715 * y * y * y))));
}

static float softcap(float x, float cap)
{
    return cap > 0 ? (float)((double)cap * tanh((double)x / (double)cap)) : x;
}

static float rounded(float x, float scale)
{
    const float k = rintf(x / scale);
    return scale > 0 ? scale * (k < -127 ? -127 : k > 127 ? 127 : k) : x;
}

/* a: the row, in place; b: the second operand's, or zeros. */
static void combine(const npu_call *c, float *a, const float *b, int64_t n)
{
    const bool gated = c->node->attr.glu.activation == CLV_ACT_SILU;
    for (int64_t i = 0; i < n; i++)
        switch (c->node->op) {
        case CLV_OP_ADD:
            a[i] += b[i];
            break;
        case CLV_OP_MUL:
            a[i] *= b[i];
            break;
        case CLV_OP_SILU:
            a[i] = silu(a[i]);
            break;
        case CLV_OP_GELU:
            a[i] = gelu(a[i]);
            break;
        case CLV_OP_SIGMOID:
            a[i] = (float)(1 / (1 + exp(-(double)a[i])));
            break;
        case CLV_OP_SCALE:
            a[i] *= c->node->attr.scale.factor;
            break;
        case CLV_OP_ROUND:
            a[i] = rounded(a[i], c->node->attr.round.scale);
            break;
        case CLV_OP_EXCESS:
            a[i] -= fminf(fmaxf(a[i], -c->node->attr.excess.limit),
                          c->node->attr.excess.limit);
            break;
        case CLV_OP_SOFTCAP:
            a[i] = softcap(a[i], c->node->attr.softcap.cap);
            break;
        case CLV_OP_GLU:
            a[i] = (gated ? silu(a[i]) : gelu(a[i])) * b[i];
            break;
        default: /* CONVERT */
            break;
        }
}

static void normalise(const npu_call *c, float *a, const float *weight,
                      const float *bias, int64_t n)
{
    double mean = 0, square = 0;
    if (c->node->op == CLV_OP_LAYER_NORM) {
        for (int64_t i = 0; i < n; i++)
            mean += (double)a[i];
        mean /= (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = (double)a[i] - mean;
        square += x * x;
    }
    double scale =
        1 / sqrt(square / (double)n + (double)c->node->attr.norm.eps);
    for (int64_t i = 0; i < n; i++) {
        double y = ((double)a[i] - mean) * scale * (double)weight[i];
        a[i] = (float)(c->in[2].data ? y + (double)bias[i] : y);
    }
}

static void normalise_heads(const npu_call *c, float *a, const float *weight,
                            int64_t n)
{
    const int64_t dim = c->node->attr.norm.head_dim;
    for (int64_t at = 0; at < n; at += dim)
        normalise(c, a + at, weight, NULL, dim);
}

static void soften(float *a, int64_t n)
{
    float top = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = a[i] > top || isnan(a[i]) ? a[i] : top;
    for (int64_t i = 0; i < n; i++)
        sum += (double)(a[i] = expf(a[i] - top));
    for (int64_t i = 0; i < n; i++)
        a[i] = (float)((double)a[i] / sum);
}

/* The score of the largest of a row but `taken`, which is at *best. */
static double mixer_score(const npu_call *c, const float *x, int64_t n,
                          int64_t taken, int64_t *best)
{
    const double span = 2 * (double)c->node->attr.mixer.jitter;
    double sum = 0;
    *best = -1;
    for (int64_t i = 0; i < n; i++)
        if (i != taken && (*best < 0 || x[i] > x[*best]))
            *best = i;
    for (int64_t i = 0; *best >= 0 && i < n; i++) {
        const double top = (double)x[*best], at = (double)x[i];
        if (i != taken && top - at <= span * fmax(fabs(at), top))
            sum += exp(at - top);
    }
    return 1 / sum;
}

static void mix(const npu_call *c, float *y, const float *x, int64_t n)
{
    int64_t first, second;
    const double a = mixer_score(c, x, n, -1, &first);
    const double b = mixer_score(c, x, n, first, &second);
    float nothing = 0; /* NaN if one of the row is not finite */
    for (int64_t i = 0; i < n; i++)
        nothing += x[i] * 0;
    for (int64_t i = 0; i < n; i++)
        y[i] = nothing;
    y[first] += (float)a;
    if (second >= 0)
        y[second] += (float)b;
}

static void rotate(const npu_call *c, int64_t row, float *a,
                   const float *inv_freq)
{
    const clv_op_attr *attr = &c->node->attr;
    const int64_t head_dim = attr->rope.head_dim, half = c->in[2].columns;
    const bool pairs = attr->rope.mode == CLV_ROPE_PAIRS;
    const double scale = attr->rope.scale != 0 ? (double)attr->rope.scale : 1;
    const double position = npu_get_index(&c->in[1], row);
    for (int64_t j = 0; j < half; j++) {
        double angle = position * (double)inv_freq[j];
        double cosine = cos(angle) * scale, sine = sin(angle) * scale;
        int64_t u = pairs ? 2 * j : j, v = pairs ? 2 * j + 1 : j + half;
        for (int64_t at = 0; at < c->in[0].columns; at += head_dim) {
            double x = (double)a[at + u], y = (double)a[at + v];
            a[at + u] = (float)(x * cosine - y * sine);
            a[at + v] = (float)(x * sine + y * cosine);
        }
    }
}

static void run_row(const npu_call *c, int64_t i, float *a, float *b, float *d)
{
    const npu_view *in = c->in;
    npu_get_row(&in[0], i, a);
    switch (c->node->op) {
    case CLV_OP_RMS_NORM:
    case CLV_OP_LAYER_NORM:
        normalise(c, a, b, d, c->out.columns);
        break;
    case CLV_OP_HEAD_NORM:
        normalise_heads(c, a, b, c->out.columns);
        break;
    case CLV_OP_SPARSE_MIXER:
        memcpy(b, a, (size_t)c->out.columns * sizeof *b);
        mix(c, a, b, c->out.columns);
        break;
    case CLV_OP_SOFTMAX:
        soften(a, c->out.columns);
        break;
    case CLV_OP_ROPE:
        rotate(c, i, a, b);
        break;
    default:
        if (in[1].data && in[1].rank > 1)
            npu_get_row(&in[1], i, b);
        combine(c, a, b, c->out.columns);
    }
    npu_set_row(&c->out, i, a);
}

static bool run_range(void *ctx, int64_t begin, int64_t end)
{
    const npu_call *c = ctx;
    const npu_view *in = c->in;
    const int64_t n = c->out.columns;
    float *rows = clv_new(c->host, (uint64_t)(3 * n) * sizeof *rows);
    if (!rows)
        return false;
    float *b = rows + n, *d = rows + 2 * n;
    /* Vectors that serve every row. */
    if (c->node->op == CLV_OP_ROPE)
        npu_get_row(&in[2], 0, b);
    else if (in[1].data && in[1].rank == 1)
        npu_get_row(&in[1], 0, b);
    if (c->node->op == CLV_OP_LAYER_NORM && in[2].data)
        npu_get_row(&in[2], 0, d);
    for (int64_t i = begin; i < end; i++)
        run_row(c, i, rows, b, d);
    clv_free(c->host, rows);
    return true;
}

static bool get_range(void *ctx, int64_t begin, int64_t end)
{
    const npu_call *c = ctx;
    const int64_t n = c->out.columns;
    float *row = clv_new(c->host, (uint64_t)n * sizeof *row);
    if (!row)
        return false;
    for (int64_t i = begin; i < end; i++) {
        int32_t id = npu_get_index(&c->in[1], i);
        bool inside = id >= 0 && id < c->in[0].rows;
        if (inside)
            npu_weight_row(&c->weight, id, row);
        for (int64_t j = 0; !inside && j < n; j++)
            row[j] = NAN;
        npu_set_row(&c->out, i, row);
    }
    clv_free(c->host, row);
    return true;
}

/* In order: of rows with the same id the last one stays. */
static clv_status set_rows(const npu_call *c)
{
    float *row = clv_new(c->host, (uint64_t)c->in[1].columns * sizeof *row);
    if (!row)
        return CLV_ERR_NO_MEMORY;
    for (int64_t i = 0; i < c->in[1].rows; i++) {
        int32_t id = npu_get_index(&c->in[2], i);
        if (id < 0 || id >= c->in[0].rows)
            continue;
        npu_get_row(&c->in[1], i, row);
        npu_set_row(&c->in[0], id, row);
    }
    clv_free(c->host, row);
    return CLV_OK;
}

clv_status npu_run_rows(const npu_call *c)
{
    if (c->node->op == CLV_OP_SET_ROWS)
        return set_rows(c);
    int64_t grain = GRAIN / (c->out.columns ? c->out.columns : 1) + 1;
    return npu_parts(c->host, c->out.rows, grain,
                     c->node->op == CLV_OP_GET_ROWS ? get_range : run_range,
                     (void *)(uintptr_t)c);
}
