#include "kernel.h"

#include <math.h>
#include <string.h>

/* All of it in F32: q [n,H*D], k and v [R,G*D] up to the last row that a query
 * sees. */
typedef struct attention {
    const npu_call *call;
    int64_t head_dim, heads, groups, seen;
    float *k, *v;
} attention;

static void round_row(float *row, int64_t n, bool half)
{
    for (int64_t i = 0; half && i < n; i++)
        row[i] = npu_round_half(row[i]);
}

/* The rows of the cache that query i sees. */
static void range_of(const attention *a, int64_t i, int64_t *first,
                     int64_t *end)
{
    const npu_call *c = a->call;
    int64_t position = npu_get_index(&c->in[3], i);
    int64_t window = c->node->attr.attention.window;
    *end = position + 1 < c->in[1].rows ? position + 1 : c->in[1].rows;
    *first = window && position + 1 > window ? position + 1 - window : 0;
    if (c->in[4].data && npu_get_index(&c->in[4], i) > *first)
        *first = npu_get_index(&c->in[4], i);
}

static void weigh(const attention *a, const float *q, int64_t group,
                  int64_t first, int64_t end, float *p)
{
    const clv_op_attr *attr = &a->call->node->attr;
    const int64_t width = a->groups * a->head_dim;
    const float cap = attr->attention.softcap;
    float top = -INFINITY, sum = 0;
    for (int64_t j = first; j < end; j++) {
        float s =
            npu_dot(q, a->k + j * width + group * a->head_dim, a->head_dim) *
            attr->attention.scale;
        p[j - first] = cap > 0 ? cap * tanhf(s / cap) : s;
        top = p[j - first] > top || isnan(p[j - first]) ? p[j - first] : top;
    }
    for (int64_t j = 0; j < end - first; j++)
        sum += p[j] = p[j] == -INFINITY ? 0 : expf(p[j] - top);
    for (int64_t j = 0; j < end - first && sum != 0; j++)
        p[j] /= sum;
}

static void mix(const attention *a, const float *p, int64_t group,
                int64_t first, int64_t end, float *out)
{
    const int64_t width = a->groups * a->head_dim;
    memset(out, 0, (size_t)a->head_dim * sizeof *out);
    for (int64_t j = first; j < end; j++) {
        const float *v = a->v + j * width + group * a->head_dim;
        if (p[j - first] == 0) /* NaN in v does not count there */
            continue;
        for (int64_t c = 0; c < a->head_dim; c++)
            out[c] += p[j - first] * v[c];
    }
}

static bool run_queries(void *ctx, int64_t begin, int64_t end)
{
    const attention *a = ctx;
    const npu_call *c = a->call;
    const int64_t columns = c->in[0].columns;
    float *rows =
        clv_new(c->host, (uint64_t)(2 * columns + a->seen + 1) * sizeof *rows);
    if (!rows)
        return false;
    float *q = rows, *out = rows + columns, *p = rows + 2 * columns;
    for (int64_t i = begin; i < end; i++) {
        int64_t first, last;
        range_of(a, i, &first, &last);
        npu_get_row(&c->in[0], i, q);
        round_row(q, columns, c->half_attention);
        for (int64_t h = 0; h < a->heads; h++) {
            int64_t group = h / (a->heads / a->groups);
            if (first < last)
                weigh(a, q + h * a->head_dim, group, first, last, p);
            mix(a, p, group, first, last, out + h * a->head_dim);
        }
        npu_set_row(&c->out, i, out);
    }
    clv_free(c->host, rows);
    return true;
}

clv_status npu_run_attention(const npu_call *call)
{
    attention a = {.call = call,
                   .head_dim = call->node->attr.attention.head_dim};
    const int64_t n = call->in[0].rows, width = call->in[1].columns;
    a.heads = call->in[0].columns / a.head_dim;
    a.groups = width / a.head_dim;
    for (int64_t i = 0; i < n; i++) {
        int64_t first, end;
        range_of(&a, i, &first, &end);
        a.seen = end > a.seen ? end : a.seen;
    }
    a.k = clv_new(call->host, (uint64_t)(a.seen * width) * sizeof *a.k);
    a.v = clv_new(call->host, (uint64_t)(a.seen * width) * sizeof *a.v);
    clv_status status = a.k && a.v ? CLV_OK : CLV_ERR_NO_MEMORY;
    for (int64_t j = 0; !status && j < a.seen; j++) {
        npu_get_row(&call->in[1], j, a.k + j * width);
        npu_get_row(&call->in[2], j, a.v + j * width);
        round_row(a.k + j * width, width, call->half_attention);
        round_row(a.v + j * width, width, call->half_attention);
    }
    if (!status)
        status = npu_parts(call->host, n, n / 16 + 1, run_queries, &a);
    clv_free(call->host, a.k);
    clv_free(call->host, a.v);
    return status;
}
