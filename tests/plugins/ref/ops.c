#include "ref.h"

#include <math.h>

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    const double c = 0.79788456080286535588; /* sqrt(2 / pi) */
    return 0.5 * x * (1 + tanh(c * (x + 0.044715 * x * x * x)));
}

static void get_rows(const ref_view *in, const ref_view *out)
{
    for (int64_t i = 0; i < out->rows; i++) {
        int32_t id = ref_get_index(&in[1], i);
        bool inside = id >= 0 && id < in[0].rows;
        for (int64_t c = 0; c < out->columns; c++)
            ref_set(out, i, c, inside ? ref_get(&in[0], id, c) : NAN);
    }
}

static void set_rows(const ref_view *in)
{
    for (int64_t i = 0; i < in[1].rows; i++) {
        int32_t id = ref_get_index(&in[2], i);
        if (id < 0 || id >= in[0].rows)
            continue;
        for (int64_t c = 0; c < in[1].columns; c++)
            ref_set(&in[0], id, c, ref_get(&in[1], i, c));
    }
}

static double round_half(double x)
{
    return clv_f16_to_f32(clv_f32_to_f16((float)x));
}

/* A few rows at a time, so that a weight is not decoded for each of them. */
static void matmul(const clv_node *node, const ref_view *in,
                   const ref_view *out)
{
    const bool backward = node->variant == REF_VARIANT_BACKWARD;
    const bool halves = node->variant == REF_VARIANT_HALVES;
    const int64_t last = in[0].columns - 1;
    double sums[8];
    for (int64_t first = 0; first < out->rows; first += 8) {
        int64_t n = out->rows - first < 8 ? out->rows - first : 8;
        for (int64_t o = 0; o < out->columns; o++) {
            for (int64_t i = 0; i < n; i++)
                sums[i] = in[2].data ? ref_get(&in[2], 0, o) : 0;
            for (int64_t k = 0; k <= last; k++) {
                const int64_t c = backward ? last - k : k;
                double w = ref_get(&in[1], o, c);
                for (int64_t i = 0; i < n; i++) {
                    const double x = ref_get(&in[0], first + i, c);
                    sums[i] += (halves ? round_half(x) : x) * w;
                }
            }
            for (int64_t i = 0; i < n; i++)
                ref_set(out, first + i, o, sums[i]);
        }
    }
}

static double combine(const clv_node *node, double a, double b)
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
    case CLV_OP_GLU:
        return (node->attr.glu.activation == CLV_ACT_SILU ? silu(a) : gelu(a)) *
               b;
    default: /* CONVERT */
        return a;
    }
}

/* Weights into CLV_LAYOUT_PRIVATE: the bytes of their rows. */
static void convert_private(const ref_view *in, const ref_view *out)
{
    int64_t elements, bytes;
    clv_block(in->dtype, &elements, &bytes);
    for (int64_t i = 0; i < out->rows; i++)
        memcpy(ref_view_row(out, i), ref_view_row(in, i),
               (size_t)(out->columns / elements * bytes));
}

/* A second operand of fewer dimensions is a vector for every row. */
static void elementwise(const clv_node *node, const ref_view *in,
                        const ref_view *out)
{
    for (int64_t i = 0; i < out->rows; i++)
        for (int64_t c = 0; c < out->columns; c++) {
            double b =
                in[1].data ? ref_get(&in[1], in[1].rank == 1 ? 0 : i, c) : 0;
            ref_set(out, i, c, combine(node, ref_get(&in[0], i, c), b));
        }
}

static void norm(const clv_node *node, const ref_view *in, const ref_view *out)
{
    bool centred = node->op == CLV_OP_LAYER_NORM;
    int64_t n = in[0].columns;
    for (int64_t i = 0; i < out->rows; i++) {
        double mean = 0, square = 0;
        for (int64_t c = 0; c < n && centred; c++)
            mean += ref_get(&in[0], i, c) / (double)n;
        for (int64_t c = 0; c < n; c++) {
            double x = ref_get(&in[0], i, c) - mean;
            square += x * x / (double)n;
        }
        double scale = 1 / sqrt(square + (double)node->attr.norm.eps);
        for (int64_t c = 0; c < n; c++) {
            double x =
                (ref_get(&in[0], i, c) - mean) * scale * ref_get(&in[1], 0, c);
            ref_set(out, i, c, x + (in[2].data ? ref_get(&in[2], 0, c) : 0));
        }
    }
}

/* One head's pair (a, b) of channels, turned by the angle. */
static void rotate(const ref_view *in, const ref_view *out, int64_t row,
                   int64_t a, int64_t b, double angle, double scale)
{
    double x = ref_get(in, row, a), y = ref_get(in, row, b);
    ref_set(out, row, a, scale * (x * cos(angle) - y * sin(angle)));
    ref_set(out, row, b, scale * (x * sin(angle) + y * cos(angle)));
}

static void rope(const clv_node *node, const ref_view *in, const ref_view *out)
{
    int64_t head_dim = node->attr.rope.head_dim, half = in[2].columns;
    bool pairs = node->attr.rope.mode == CLV_ROPE_PAIRS;
    double scale = node->attr.rope.scale != 0 ? node->attr.rope.scale : 1;
    for (int64_t i = 0; i < out->rows; i++) {
        double position = ref_get_index(&in[1], i);
        for (int64_t first = 0; first < out->columns; first += head_dim) {
            for (int64_t j = 0; j < half; j++)
                rotate(&in[0], out, i, first + (pairs ? 2 * j : j),
                       first + (pairs ? 2 * j + 1 : j + half),
                       position * ref_get(&in[2], 0, j), scale);
            for (int64_t c = 2 * half; c < head_dim; c++)
                ref_set(out, i, first + c, ref_get(&in[0], i, first + c));
        }
    }
}

static void softmax(const ref_view *x, const ref_view *out)
{
    for (int64_t i = 0; i < x->rows; i++) {
        double top = -INFINITY, sum = 0;
        for (int64_t c = 0; c < x->columns; c++)
            top = fmax(top, ref_get(x, i, c));
        for (int64_t c = 0; c < x->columns; c++)
            sum += exp(ref_get(x, i, c) - top);
        for (int64_t c = 0; c < x->columns; c++)
            ref_set(out, i, c, exp(ref_get(x, i, c) - top) / sum);
    }
}

/* ------------------------------------------------------------------------ */

typedef struct head {
    const clv_node *node;
    const ref_view *in;
    int64_t query, q, kv; /* row of q; first channel of q, of k and v */
    int64_t first, end;   /* the rows of the cache that it sees */
} head;

static double score(const head *h, int64_t j)
{
    double sum = 0, cap = h->node->attr.attention.softcap;
    for (uint32_t c = 0; c < h->node->attr.attention.head_dim; c++)
        sum += ref_get(&h->in[0], h->query, h->q + c) *
               ref_get(&h->in[1], j, h->kv + c);
    sum *= (double)h->node->attr.attention.scale;
    return cap > 0 ? cap * tanh(sum / cap) : sum;
}

#define CHUNK 64 /* channels summed at once */

/* Channels from to from + n - 1 of the head's output. A row without weight adds
 * nothing, whatever is in it; where no row has any, zeros. */
static void sum_values(const head *h, double top, int64_t from, int64_t n,
                       const ref_view *out)
{
    double y[CHUNK] = {0}, sum = 0;
    for (int64_t j = h->first; j < h->end; j++) {
        double s = score(h, j), weight = s == -INFINITY ? 0 : exp(s - top);
        sum += weight;
        for (int64_t c = 0; c < n && weight != 0; c++)
            y[c] += weight * ref_get(&h->in[2], j, h->kv + from + c);
    }
    for (int64_t c = 0; c < n; c++)
        ref_set(out, h->query, h->q + from + c, sum != 0 ? y[c] / sum : 0);
}

static void attend(const head *h, const ref_view *out)
{
    int64_t head_dim = h->node->attr.attention.head_dim;
    double top = -INFINITY;
    for (int64_t j = h->first; j < h->end; j++)
        top = fmax(top, score(h, j));
    for (int64_t c = 0; c < head_dim; c += CHUNK)
        sum_values(h, top, c, head_dim - c < CHUNK ? head_dim - c : CHUNK, out);
}

static void attention(const clv_node *node, const ref_view *in,
                      const ref_view *out)
{
    int64_t head_dim = node->attr.attention.head_dim;
    int64_t heads = in[0].columns / head_dim, groups = in[1].columns / head_dim;
    int64_t window = node->attr.attention.window;
    for (int64_t i = 0; i < in[0].rows; i++) {
        int64_t position = ref_get_index(&in[3], i);
        int64_t end = position + 1 < in[1].rows ? position + 1 : in[1].rows;
        int64_t first = window ? position + 1 - window : 0;
        if (in[4].data && ref_get_index(&in[4], i) > first)
            first = ref_get_index(&in[4], i);
        for (int64_t k = 0; k < heads; k++) {
            head h = {node,
                      in,
                      i,
                      k * head_dim,
                      k / (heads / groups) * head_dim,
                      first > 0 ? first : 0,
                      end};
            attend(&h, out);
        }
    }
}

static double ranked(double x)
{
    return isnan(x) ? -INFINITY : x;
}

static void top_k(const ref_view *x, const ref_view *out)
{
    for (int64_t i = 0; i < out->rows; i++)
        for (int64_t j = 0; j < x->columns; j++) {
            const double value = ranked(ref_get(x, i, j));
            int64_t before = 0;
            for (int64_t l = 0; l < x->columns; l++) {
                const double other = ranked(ref_get(x, i, l));
                before += other > value || (l < j && other >= value);
            }
            if (before < out->columns)
                ref_set_index(out, i, before, (int32_t)j);
        }
}

typedef struct product {
    const clv_node *node;
    const ref_view *in, *out;
    int64_t held, inputs, outputs, used; /* of the weights, and ids of a row */
} product;

/* The score of an id; 0 of none. */
static double score_of(const product *p, int64_t i, int64_t k)
{
    const int32_t id = ref_get_index_at(&p->in[2], i, k);
    const bool known =
        id >= 0 && id < clv_experts_total(&p->node->attr, p->held);
    return known ? ref_get(&p->in[3], i, id) : 0;
}

/* What the product for id k of row i is multiplied by. */
static double factor_of(const product *p, int64_t i, int64_t k)
{
    double sum = 0;
    if (!p->in[3].data)
        return 1;
    for (int64_t j = 0; j < p->used; j++)
        sum += score_of(p, i, j);
    return score_of(p, i, k) / (p->node->attr.experts.normalised ? sum : 1);
}

/* Adds the product for id k of row i, with its expert's weights. */
static void add_product(const product *p, int64_t i, int64_t k, int64_t expert)
{
    const double factor = factor_of(p, i, k);
    const bool each = p->in[0].columns != p->inputs;
    const int64_t from = each ? k * p->inputs : 0;
    const int64_t to = p->in[3].data ? 0 : k * p->outputs;
    for (int64_t o = 0; o < p->outputs; o++) {
        double sum = ref_get(p->out, i, to + o);
        for (int64_t c = 0; c < p->inputs; c++)
            sum += factor * ref_get(&p->in[0], i, from + c) *
                   ref_get(&p->in[1], expert * p->outputs + o, c);
        ref_set(p->out, i, to + o, sum);
    }
}

static void matmul_experts(const clv_node *node, const ref_view *in,
                           const ref_view *out)
{
    const product p = {
        node,          in,           out, in[1].dims[0], in[1].columns,
        in[1].dims[1], in[2].columns};
    for (int64_t i = 0; i < out->rows; i++) {
        for (int64_t c = 0; c < out->columns; c++)
            ref_set(out, i, c, 0);
        for (int64_t k = 0; k < p.used; k++) {
            const int64_t expert = ref_get_index_at(&in[2], i, k) -
                                   (int64_t)node->attr.experts.first;
            if (expert >= 0 && expert < p.held)
                add_product(&p, i, k, expert);
        }
    }
}

void ref_run_node(const clv_node *node, const ref_view *in, const ref_view *out)
{
    switch (node->op) {
    case CLV_OP_GET_ROWS:
        get_rows(in, out);
        break;
    case CLV_OP_SET_ROWS:
        set_rows(in);
        break;
    case CLV_OP_MATMUL:
        matmul(node, in, out);
        break;
    case CLV_OP_RMS_NORM:
    case CLV_OP_LAYER_NORM:
        norm(node, in, out);
        break;
    case CLV_OP_ROPE:
        rope(node, in, out);
        break;
    case CLV_OP_SOFTMAX:
        softmax(&in[0], out);
        break;
    case CLV_OP_ATTENTION:
        attention(node, in, out);
        break;
    case CLV_OP_TOP_K:
        top_k(&in[0], out);
        break;
    case CLV_OP_MATMUL_EXPERTS:
        matmul_experts(node, in, out);
        break;
    default:
        if (out->is_private)
            convert_private(in, out);
        else
            elementwise(node, in, out);
    }
}
