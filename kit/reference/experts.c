/* The reference of TOP_K, NONZERO, MATMUL_EXPERTS and SPARSE_MIXER. */
#include "rules.h"

#include <math.h>

/* What elements are chosen by. */
static double size_of(uint32_t op, double x)
{
    if (op == CLV_OP_NONZERO)
        return isnan(x) ? INFINITY : fabs(x);
    return isnan(x) ? -INFINITY : x;
}

/* The number of elements of a row that rank before element j. */
static int64_t rank_of(uint32_t op, const double *x, int64_t n, int64_t j)
{
    const double size = size_of(op, x[j]);
    int64_t before = 0;
    for (int64_t i = 0; i < n; i++) {
        double other = size_of(op, x[i]);
        before += other > size || (other == size && i < j);
    }
    return before;
}

void kit_rule_select(work *w)
{
    const kit_values *x = &w->in[0];
    const uint32_t op = w->node->op;
    const int64_t k = kit_columns(w->g, w->node->outputs[0]);
    w->out = kit_rule_values(w->g, x->rows, k);
    for (int64_t i = 0; i < x->rows * k; i++)
        w->out.v[i] = -1;
    for (int64_t i = 0; i < x->rows; i++) {
        const double *row = x->v + i * x->columns;
        for (int64_t j = 0; j < x->columns; j++) {
            int64_t at = rank_of(op, row, x->columns, j);
            if (at < k && (op != CLV_OP_NONZERO || row[j] != 0))
                w->out.v[i * k + at] = (double)j;
        }
    }
}

/* The expert of id k of row i; -1 if there is none. */
static int64_t expert_of(const work *w, int64_t i, int64_t k)
{
    const double id = w->in[2].v[i * w->in[2].columns + k];
    const int64_t held = w->g->descs[w->node->inputs[1]].dims[0];
    const int64_t n = clv_experts_total(&w->node->attr, held);
    return id >= 0 && id < (double)n ? (int64_t)id : -1;
}

/* Its weights; -1 if they are not here. */
static int64_t weights_of(const work *w, int64_t i, int64_t k)
{
    const int64_t expert = expert_of(w, i, k);
    const int64_t at = expert - w->node->attr.experts.first;
    const int64_t held = w->g->descs[w->node->inputs[1]].dims[0];
    return expert >= 0 && at >= 0 && at < held ? at : -1;
}

/* The factor of the product for id k of row i in the sum of all. */
static double share_of(const work *w, int64_t i, int64_t k)
{
    const double *scores = w->in[3].v + i * w->in[3].columns;
    double sum = 0;
    if (!w->node->attr.experts.normalised)
        return scores[expert_of(w, i, k)];
    for (int64_t j = 0; j < w->in[2].columns; j++)
        if (expert_of(w, i, j) >= 0)
            sum += scores[expert_of(w, i, j)];
    return scores[expert_of(w, i, k)] / sum;
}

/* Adds the product for id k of row i where it belongs. */
static void add_expert(work *w, int64_t i, int64_t k)
{
    const kit_values *x = &w->in[0], *weight = &w->in[1];
    const int64_t n = w->g->descs[w->node->inputs[1]].dims[1];
    const int64_t part = x->columns == weight->columns ? 0 : k;
    const double *a = x->v + i * x->columns + part * weight->columns;
    const double *b = weight->v + weights_of(w, i, k) * n * weight->columns;
    const double factor = w->has[3] ? share_of(w, i, k) : 1;
    const int64_t at = i * w->out.columns + (w->has[3] ? 0 : k * n);
    for (int64_t j = 0; j < n; j++, b += weight->columns) {
        double sum = 0, square = 0;
        for (int64_t l = 0; l < weight->columns; l++) {
            sum += a[l] * b[l];
            square += a[l] * b[l] * (a[l] * b[l]);
        }
        w->out.v[at + j] += factor * sum;
        w->out.square[at + j] += factor * factor * square;
    }
}

void kit_rule_experts(work *w)
{
    const int64_t n = w->g->descs[w->node->inputs[1]].dims[1];
    const int64_t used = w->in[2].columns;
    w->out = kit_rule_values(w->g, w->in[0].rows, w->has[3] ? n : used * n);
    kit_rule_squares(w);
    for (int64_t i = 0; i < w->out.rows; i++)
        for (int64_t k = 0; k < used; k++)
            if (weights_of(w, i, k) >= 0)
                add_expert(w, i, k);
}

/* The largest element of a row, of which `taken` does not count, gets its
 * score. Returns its place; -1 if there is none. */
static int64_t mix(const double *x, int64_t n, double jitter, int64_t taken,
                   double *y)
{
    double sum = 0;
    int64_t best = -1;
    for (int64_t j = 0; j < n; j++)
        if (j != taken && (best < 0 || x[j] > x[best]))
            best = j;
    for (int64_t j = 0; best >= 0 && j < n; j++) {
        double size = fabs(x[j]) > x[best] ? fabs(x[j]) : x[best];
        if (j != taken && x[best] - x[j] <= 2 * jitter * size)
            sum += exp(x[j] - x[best]);
    }
    if (best >= 0)
        y[best] = 1 / sum;
    return best;
}

void kit_rule_sparse_mixer(work *w)
{
    const int64_t n = w->in[0].columns;
    w->out = kit_rule_values(w->g, w->in[0].rows, n);
    for (int64_t i = 0; i < w->out.rows; i++) {
        const double *x = w->in[0].v + i * n;
        double *y = w->out.v + i * n, nothing = 0;
        for (int64_t j = 0; j < n; j++)
            nothing += x[j] * 0;
        const double jitter = w->node->attr.mixer.jitter;
        mix(x, n, jitter, mix(x, n, jitter, -1, y), y);
        for (int64_t j = 0; j < n; j++)
            y[j] += nothing;
    }
}
