#include "../work/element.h"
#include "rules.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------ */
/* Values                                                                    */

static int64_t dimension(const kit_graph *g, uint32_t t, uint32_t i)
{
    const clv_tensor_desc *d = &g->descs[t];
    return d->symbols[i] ? g->values[d->symbols[i] - 1] : d->dims[i];
}

int64_t kit_rows(const kit_graph *g, uint32_t tensor)
{
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < g->descs[tensor].rank; i++)
        n *= dimension(g, tensor, i);
    return n;
}

int64_t kit_columns(const kit_graph *g, uint32_t tensor)
{
    return dimension(g, tensor, g->descs[tensor].rank - 1);
}

static double *numbers(const kit_graph *g, int64_t rows, int64_t columns)
{
    size_t n = (size_t)rows * (size_t)columns;
    double *v = calloc(n ? n : 1, sizeof *v);
    if (!v)
        kit_fail(g->k, "no memory for %zu numbers of the reference", n);
    return v;
}

kit_values kit_rule_values(const kit_graph *g, int64_t rows, int64_t columns)
{
    return (kit_values){
        .v = numbers(g, rows, columns), .rows = rows, .columns = columns};
}

void kit_values_free(kit_values *values)
{
    free(values->v);
    free(values->square);
    free(values->slack);
    *values = (kit_values){0};
}

static double scale_of(const kit_graph *g, uint32_t t, int64_t i, int64_t j)
{
    const clv_tensor_desc *d = &g->descs[t];
    const uint32_t scales = d->quant_scales - 1;
    switch (d->quant) {
    case CLV_QUANT_PER_TENSOR:
        return kit_get(g, scales, 0, 0);
    case CLV_QUANT_PER_CHANNEL:
        return kit_get(g, scales, 0, i);
    case CLV_QUANT_PER_GROUP:
        return kit_get(g, scales, i, j / d->quant_group);
    }
    return 1;
}

kit_values kit_read(const kit_graph *g, uint32_t tensor)
{
    if (g->descs[tensor].rank > 3)
        kit_fail(g->k, "the reference reads tensors of rank 1 to 3, not %u",
                 g->descs[tensor].rank);
    kit_values out =
        kit_rule_values(g, kit_rows(g, tensor), kit_columns(g, tensor));
    const bool scaled = g->descs[tensor].quant != CLV_QUANT_NONE;
    for (int64_t i = 0; i < out.rows; i++)
        for (int64_t j = 0; j < out.columns; j++)
            out.v[i * out.columns + j] =
                kit_get(g, tensor, i, j) *
                (scaled ? scale_of(g, tensor, i, j) : 1);
    return out;
}

void kit_rule_squares(work *w)
{
    w->out.square = numbers(w->g, w->out.rows, w->out.columns);
}

static void want_slack(work *w)
{
    w->out.slack = numbers(w->g, w->out.rows, w->out.columns);
}

/* ------------------------------------------------------------------------ */
/* Rows                                                                      */

static void get_rows(work *w)
{
    const kit_values *table = &w->in[0], *ids = &w->in[1];
    w->out = kit_rule_values(w->g, ids->columns, table->columns);
    for (int64_t i = 0; i < w->out.rows; i++)
        for (int64_t j = 0; j < w->out.columns; j++) {
            double id = ids->v[i];
            bool inside = id >= 0 && id < (double)table->rows;
            w->out.v[i * w->out.columns + j] =
                inside ? table->v[(int64_t)id * table->columns + j] : NAN;
        }
}

/* The most a value moves when it is stored in a dtype; top: the largest
 * magnitude of its block. */
static double store_slack(uint32_t dtype, double value, double top)
{
    const clv_format *f = clv_format_of(dtype);
    if (f->format_class == CLV_FORMAT_BLOCK) /* and the scale's own rounding */
        return top * f->error + top * 0x1p-10 + f->largest / 65504 * 0x1p-25;
    return fabs(value) * f->error + (dtype == CLV_DTYPE_F16 ? 0x1p-25 : 0);
}

/* Row `from` of src, stored as row `to` of the result. */
static void store_row(work *w, const kit_values *src, int64_t from, int64_t to,
                      uint32_t dtype)
{
    const double *x = src->v + from * src->columns;
    const int64_t block = kit_block_length(dtype);
    for (int64_t j = 0; j < src->columns; j++) {
        double top = 0, value = x[j];
        for (int64_t l = j / block * block;
             l < src->columns && l < j / block * block + block; l++)
            top = fmax(top, fabs(x[l]));
        if (dtype == CLV_DTYPE_F16 && fabs(value) >= 65520)
            value = copysign(INFINITY, value);
        w->out.v[to * w->out.columns + j] = value;
        w->out.slack[to * w->out.columns + j] = store_slack(dtype, value, top);
    }
}

static void set_rows(work *w)
{
    const kit_values *state = &w->in[0], *src = &w->in[1], *ids = &w->in[2];
    w->out = kit_rule_values(w->g, state->rows, state->columns);
    want_slack(w);
    for (int64_t i = 0; i < state->rows * state->columns; i++) {
        w->out.v[i] = state->v[i];
        w->out.slack[i] = -1;
    }
    for (int64_t i = 0; i < src->rows; i++)
        if (ids->v[i] >= 0 && ids->v[i] < (double)state->rows)
            store_row(w, src, i, (int64_t)ids->v[i],
                      w->g->descs[w->node->inputs[0]].dtype);
}

static void convert(work *w)
{
    const kit_values *x = &w->in[0];
    uint32_t from = w->g->descs[w->node->inputs[0]].dtype;
    uint32_t to = w->g->descs[w->node->outputs[0]].dtype;
    w->out = kit_rule_values(w->g, x->rows, x->columns);
    want_slack(w);
    for (int64_t i = 0; i < x->rows; i++)
        store_row(w, x, i, i, to);
    for (int64_t i = 0; from == to && i < x->rows * x->columns; i++)
        w->out.slack[i] = -1;
}

/* ------------------------------------------------------------------------ */
/* Products                                                                  */

static void matmul(work *w)
{
    const kit_values *x = &w->in[0], *weight = &w->in[1];
    w->out = kit_rule_values(w->g, x->rows, weight->rows);
    kit_rule_squares(w);
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < weight->rows; j++) {
            const double *a = x->v + i * x->columns;
            const double *b = weight->v + j * weight->columns;
            double sum = w->has[2] ? w->in[2].v[j] : 0, square = sum * sum;
            for (int64_t l = 0; l < x->columns; l++) {
                sum += a[l] * b[l];
                square += a[l] * b[l] * (a[l] * b[l]);
            }
            w->out.v[i * weight->rows + j] = sum;
            w->out.square[i * weight->rows + j] = square;
        }
}

/* ------------------------------------------------------------------------ */
/* Elements                                                                  */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)), which keeps its digits in the
 * tails. */
static double gelu(double x)
{
    return x /
           (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double rounded(double x, double scale)
{
    const double k = rint(x / scale);
    return scale == 0 ? x : scale * (k < -127 ? -127 : k > 127 ? 127 : k);
}

static double element(const clv_node *node, double a, double b)
{
    switch (node->op) {
    case CLV_OP_ADD:
        return a + b;
    case CLV_OP_MUL:
        return a * b;
    case CLV_OP_SILU:
        return silu(a);
    case CLV_OP_GELU:
        return gelu(a);
    case CLV_OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case CLV_OP_SCALE:
        return node->attr.scale.factor * a;
    case CLV_OP_ROUND:
        return rounded(a, node->attr.round.scale);
    case CLV_OP_EXCESS:
        return a - fmin(fmax(a, -(double)node->attr.excess.limit),
                        (double)node->attr.excess.limit);
    case CLV_OP_SOFTCAP:
        return node->attr.softcap.cap
                   ? node->attr.softcap.cap * tanh(a / node->attr.softcap.cap)
                   : a;
    }
    return (node->attr.glu.activation == CLV_ACT_SILU ? silu(a) : gelu(a)) * b;
}

static void elementwise(work *w)
{
    const kit_values *a = &w->in[0], *b = &w->in[1];
    w->out = kit_rule_values(w->g, a->rows, a->columns);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->columns; j++) {
            int64_t at = i * a->columns + j;
            int64_t other = b->rows == 1 && a->rows > 1 ? j : at;
            w->out.v[at] =
                element(w->node, a->v[at], w->has[1] ? b->v[other] : 0);
        }
}

/* ------------------------------------------------------------------------ */
/* Norms, softmax                                                            */

static void softmax(work *w)
{
    const kit_values *x = &w->in[0];
    if (w->node->op == CLV_OP_SPARSE_MIXER) {
        kit_rule_sparse_mixer(w);
        return;
    }
    w->out = kit_rule_values(w->g, x->rows, x->columns);
    for (int64_t i = 0; i < x->rows; i++) {
        const double *a = x->v + i * x->columns;
        double *y = w->out.v + i * x->columns, top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < x->columns; j++)
            top = a[j] > top || isnan(a[j]) ? a[j] : top;
        for (int64_t j = 0; j < x->columns; j++)
            sum += y[j] = exp(a[j] - top);
        for (int64_t j = 0; j < x->columns; j++)
            y[j] /= sum;
    }
}

static void norm_row(work *w, int64_t i)
{
    const bool layer = w->node->op == CLV_OP_LAYER_NORM;
    const int64_t c = w->in[0].columns;
    const double *x = w->in[0].v + i * c;
    double mean = 0, square = 0;
    for (int64_t j = 0; layer && j < c; j++)
        mean += x[j] / (double)c;
    for (int64_t j = 0; j < c; j++)
        square += (x[j] - mean) * (x[j] - mean) / (double)c;
    const double factor = 1 / sqrt(square + w->node->attr.norm.eps);
    for (int64_t j = 0; j < c; j++) {
        const double weight = factor * w->in[1].v[j];
        const double bias = w->has[2] ? w->in[2].v[j] : 0;
        w->out.v[i * c + j] = (x[j] - mean) * weight + bias;
        if (layer)
            w->out.square[i * c + j] = x[j] * weight * x[j] * weight +
                                       mean * weight * mean * weight +
                                       bias * bias;
    }
}

static void norm(work *w)
{
    w->out = kit_rule_values(w->g, w->in[0].rows, w->in[0].columns);
    if (w->node->op == CLV_OP_LAYER_NORM)
        kit_rule_squares(w);
    for (int64_t i = 0; i < w->out.rows; i++)
        norm_row(w, i);
}

static void head_norm(work *w)
{
    const kit_values *x = &w->in[0];
    const int64_t d = w->node->attr.norm.head_dim;
    w->out = kit_rule_values(w->g, x->rows, x->columns);
    for (int64_t at = 0; at < x->rows * x->columns; at += d) {
        double square = 0;
        for (int64_t j = at; j < at + d; j++)
            square += x->v[j] * x->v[j] / (double)d;
        for (int64_t j = at; j < at + d; j++)
            w->out.v[j] = x->v[j] / sqrt(square + w->node->attr.norm.eps) *
                          w->in[1].v[j - at];
    }
}

/* ------------------------------------------------------------------------ */
/* Rotation                                                                  */

/* Angles are exact here; a device may round them to f32, which moves a pair by
 * its length times half an ulp of the angle. */
static void rope_pair(work *w, int64_t i, int64_t first, int64_t second,
                      double angle)
{
    const double *x = w->in[0].v + i * w->in[0].columns;
    double *y = w->out.v + i * w->out.columns;
    const double given = w->node->attr.rope.scale;
    const double scale = given ? given : 1, a = scale * x[first],
                 b = scale * x[second];
    y[first] = a * cos(angle) - b * sin(angle);
    y[second] = a * sin(angle) + b * cos(angle);
    for (int k = 0; k < 2; k++) {
        int64_t at = i * w->out.columns + (k ? second : first);
        w->out.square[at] = a * a + b * b;
        w->out.slack[at] = isfinite(y[first]) && isfinite(y[second])
                               ? hypot(a, b) * fabs(angle) * 0x1.02p-24
                               : 0;
    }
}

static void rope(work *w)
{
    const kit_values *x = &w->in[0], *pos = &w->in[1], *freq = &w->in[2];
    const int64_t d = w->node->attr.rope.head_dim, half = freq->columns;
    const bool halves = w->node->attr.rope.mode == CLV_ROPE_HALVES;
    w->out = kit_rule_values(w->g, x->rows, x->columns);
    kit_rule_squares(w);
    want_slack(w);
    for (int64_t i = 0; i < x->rows * x->columns; i++) {
        w->out.v[i] = x->v[i];
        w->out.slack[i] = -1; /* channels that pass through */
    }
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t head = 0; head < x->columns; head += d)
            for (int64_t j = 0; j < half; j++)
                rope_pair(w, i, head + (halves ? j : 2 * j),
                          head + (halves ? j + half : 2 * j + 1),
                          pos->v[i] * freq->v[j]);
}

/* ------------------------------------------------------------------------ */
/* Attention                                                                 */

/* exp(score - top) of the cache rows that query i sees, 0 for the others. */
static bool scores(work *w, int64_t i, const double *q, int64_t column,
                   double *p)
{
    const clv_op_attr *attr = &w->node->attr;
    const kit_values *k = &w->in[1];
    const double pos = w->in[3].v[i], cap = attr->attention.softcap;
    const double first = w->in[4].v ? w->in[4].v[i] : 0;
    double top = -INFINITY;
    bool any = false;
    for (int64_t j = 0; j < k->rows; j++) {
        p[j] = -INFINITY;
        if ((double)j < first || (double)j > pos ||
            (attr->attention.window > 0 &&
             (double)j <= pos - attr->attention.window))
            continue;
        double s = 0;
        for (int64_t d = 0; d < attr->attention.head_dim; d++)
            s += q[d] * k->v[j * k->columns + column + d];
        s *= attr->attention.scale;
        p[j] = cap ? cap * tanh(s / cap) : s;
        top = p[j] > top || isnan(p[j]) ? p[j] : top;
        any = true;
    }
    for (int64_t j = 0; j < k->rows; j++)
        p[j] = p[j] == -INFINITY ? 0 : exp(p[j] - top);
    return any;
}

static void attention_head(work *w, int64_t i, int64_t h, double *p)
{
    const int64_t dim = w->node->attr.attention.head_dim;
    const kit_values *q = &w->in[0], *v = &w->in[2];
    const int64_t per_group = q->columns / v->columns;
    const int64_t column = h / per_group * dim;
    double *y = w->out.v + i * q->columns + h * dim, sum = 0;
    if (!scores(w, i, q->v + i * q->columns + h * dim, column, p))
        return; /* sees nothing: zeros */
    for (int64_t j = 0; j < v->rows; j++)
        sum += p[j];
    for (int64_t j = 0; j < v->rows; j++)
        for (int64_t d = 0; p[j] != 0 && d < dim; d++)
            y[d] += p[j] / sum * v->v[j * v->columns + column + d];
}

static void attention(work *w)
{
    const int64_t dim = w->node->attr.attention.head_dim;
    w->out = kit_rule_values(w->g, w->in[0].rows, w->in[0].columns);
    double *p = numbers(w->g, 1, w->in[1].rows);
    for (int64_t i = 0; i < w->out.rows; i++)
        for (int64_t h = 0; h < w->out.columns / dim; h++)
            attention_head(w, i, h, p);
    free(p);
}

/* ------------------------------------------------------------------------ */

/* By clv_op_class. */
static void (*const rules[])(work *w) = {
    [CLV_CLASS_UNARY] = elementwise,   [CLV_CLASS_BINARY] = elementwise,
    [CLV_CLASS_GATED] = elementwise,   [CLV_CLASS_NORM] = norm,
    [CLV_CLASS_SOFTMAX] = softmax,     [CLV_CLASS_SELECT] = kit_rule_select,
    [CLV_CLASS_ROPE] = rope,           [CLV_CLASS_GET_ROWS] = get_rows,
    [CLV_CLASS_SET_ROWS] = set_rows,   [CLV_CLASS_CONVERT] = convert,
    [CLV_CLASS_MATMUL] = matmul,       [CLV_CLASS_EXPERTS] = kit_rule_experts,
    [CLV_CLASS_ATTENTION] = attention, [CLV_CLASS_HEAD_NORM] = head_norm,
};

kit_values kit_reference(const kit_graph *g, uint32_t node)
{
    work w = {.g = g, .node = &g->nodes[node]};
    const uint32_t op_class = clv_op_class_of(w.node->op);
    if (op_class == CLV_CLASS_NONE)
        kit_fail(g->k, "op %u is not known to the reference", w.node->op);
    for (uint32_t i = 0; i < w.node->n_inputs; i++)
        if (w.node->inputs[i] != CLV_NO_TENSOR) {
            w.has[i] = true;
            w.in[i] = kit_read(g, w.node->inputs[i]);
        }
    rules[op_class](&w);
    for (int64_t i = 0; i < w.out.rows * w.out.columns; i++)
        if (fabs(w.out.v[i]) > FLT_MAX) /* what f32 cannot hold */
            w.out.v[i] = copysign(INFINITY, w.out.v[i]);
    for (uint32_t i = 0; i < w.node->n_inputs; i++)
        kit_values_free(&w.in[i]);
    return w.out;
}
