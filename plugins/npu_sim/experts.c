/* Index sets, by TOP_K and NONZERO, and products with the experts in them,
 * MATMUL_EXPERTS: in F32, for a device of the roofline model. */
#include "kernel.h"

#include <math.h>
#include <string.h>

#define GRAIN 65536 /* fewer products are not worth a thread */

static void put_id(const npu_view *out, int64_t i, int64_t k, int32_t id)
{
    memcpy(npu_view_row(out, i) + k * out->strides[out->rank - 1], &id,
           sizeof id);
}

static int32_t get_id(const npu_view *ids, int64_t i, int64_t k)
{
    int32_t id;
    memcpy(&id, npu_view_row(ids, i) + k * ids->strides[ids->rank - 1],
           sizeof id);
    return id;
}

/* What elements are chosen by; no NaN. */
static float size_of(bool nonzero, float x)
{
    if (nonzero)
        return isnan(x) ? INFINITY : fabsf(x);
    return isnan(x) ? -INFINITY : x;
}

/* Takes the largest out of a row k times; of NONZERO while it is not 0. */
clv_status npu_run_select(const npu_call *c)
{
    const int64_t n = c->in[0].columns, k = c->out.columns;
    const bool nonzero = c->node->op == CLV_OP_NONZERO;
    float *row = clv_new(c->host, (uint64_t)n * sizeof *row);
    bool *taken = clv_new(c->host, (uint64_t)n * sizeof *taken);
    const bool good = row && taken;
    for (int64_t i = 0; good && i < c->out.rows; i++) {
        npu_get_row(&c->in[0], i, row);
        for (int64_t j = 0; j < n; j++) {
            taken[j] = nonzero && row[j] == 0;
            row[j] = size_of(nonzero, row[j]);
        }
        for (int64_t at = 0; at < k; at++) {
            int64_t best = -1;
            for (int64_t j = 0; j < n; j++)
                if (!taken[j] && (best < 0 || row[j] > row[best]))
                    best = j;
            if (best >= 0)
                taken[best] = true;
            put_id(&c->out, i, at, (int32_t)best);
        }
    }
    clv_free(c->host, row);
    clv_free(c->host, taken);
    return good ? CLV_OK : CLV_ERR_NO_MEMORY;
}

typedef struct experts {
    const npu_call *call;
    int64_t n, used, inputs, outputs;
    int64_t first, held, total; /* experts: of the weights, and of all */
    float *x;                   /* [n,inputs] or [n,used,inputs] */
    float *y;                   /* [n,used,outputs] */
    /* Those who chose expert first + e, numbers of [n,used], are
     * order[begin[e]] to order[begin[e + 1] - 1]. */
    int64_t *order, *begin;
} experts;

/* False if memory runs out. */
static bool group(experts *e)
{
    const npu_view *ids = &e->call->in[2];
    const int64_t n = e->n * e->used, held = e->held;
    e->order =
        clv_new(e->call->host, (uint64_t)(n + held + 2) * sizeof(int64_t));
    if (!e->order)
        return false;
    e->begin = e->order + n;
    memset(e->begin, 0, (size_t)(held + 2) * sizeof *e->begin);
    for (int pass = 0; pass < 2; pass++) {
        /* Counts stand two places on, then places one. */
        for (int64_t at = 0; at < n; at++) {
            const int64_t i =
                get_id(ids, at / e->used, at % e->used) - e->first;
            if (i < 0 || i >= held)
                continue;
            if (pass)
                e->order[e->begin[i + 1]++] = at;
            else
                e->begin[i + 2]++;
        }
        for (int64_t i = 2; !pass && i < held + 2; i++)
            e->begin[i] += e->begin[i - 1];
    }
    return true;
}

/* Rows begin..end of the weights of all experts, each for all who chose its
 * expert. */
static bool run_range(void *ctx, int64_t begin, int64_t end)
{
    const experts *e = ctx;
    const npu_call *c = e->call;
    const bool each = c->in[0].columns != e->inputs;
    float *w = clv_new(c->host, (uint64_t)e->inputs * sizeof *w);
    for (int64_t r = begin; w && r < end; r++) {
        const int64_t expert = r / e->outputs, o = r % e->outputs;
        const int64_t from = e->begin[expert], to = e->begin[expert + 1];
        if (from < to)
            npu_weight_row(&c->weight, r, w);
        for (int64_t i = from; i < to; i++) {
            const int64_t at = e->order[i], row = each ? at : at / e->used;
            e->y[at * e->outputs + o] =
                npu_dot(e->x + row * e->inputs, w, e->inputs);
        }
    }
    clv_free(c->host, w);
    return w;
}

/* The factors of a row's experts; 0 for ids of none. */
static void read_scores(const experts *e, int64_t i, float *scores,
                        float *factors)
{
    const npu_call *c = e->call;
    double sum = 0;
    npu_get_row(&c->in[3], i, scores);
    for (int64_t k = 0; k < e->used; k++) {
        const int32_t id = get_id(&c->in[2], i, k);
        factors[k] = id >= 0 && id < e->total ? scores[id] : 0;
        sum += (double)factors[k];
    }
    for (int64_t k = 0; c->node->attr.experts.normalised && k < e->used; k++)
        factors[k] = (float)((double)factors[k] / sum);
}

/* The K parts of a row, or their sum by scores. An id of no expert here adds
 * nothing, whatever the factors are. */
static bool write_rows(const experts *e)
{
    const npu_call *c = e->call;
    const int64_t all = c->in[3].data ? e->total : 0;
    float *sum =
        clv_new(c->host, (uint64_t)(e->outputs + all + e->used) * sizeof *sum);
    float *factors = sum + e->outputs, *scores = factors + e->used;
    for (int64_t i = 0; sum && i < e->n; i++) {
        const float *y = e->y + i * e->used * e->outputs;
        if (!all) {
            npu_set_row(&c->out, i, y);
            continue;
        }
        read_scores(e, i, scores, factors);
        memset(sum, 0, (size_t)e->outputs * sizeof *sum);
        for (int64_t k = 0; k < e->used; k++) {
            const int64_t at = get_id(&c->in[2], i, k) - e->first;
            for (int64_t o = 0; at >= 0 && at < e->held && o < e->outputs; o++)
                sum[o] += factors[k] * y[k * e->outputs + o];
        }
        npu_set_row(&c->out, i, sum);
    }
    clv_free(c->host, sum);
    return sum;
}

static experts of_call(const npu_call *c)
{
    const npu_view *w = &c->weight.view;
    return (experts){.call = c,
                     .n = c->in[0].rows,
                     .used = c->in[2].columns,
                     .inputs = w->columns,
                     .outputs = w->dims[1],
                     .first = c->node->attr.experts.first,
                     .held = w->dims[0],
                     .total = clv_experts_total(&c->node->attr, w->dims[0])};
}

clv_status npu_count_experts(const npu_call *c, int64_t *n, int64_t *products)
{
    experts e = of_call(c);
    if (!group(&e))
        return CLV_ERR_NO_MEMORY;
    *n = 0;
    *products = e.begin[e.held];
    for (int64_t i = 0; i < e.held; i++)
        *n += e.begin[i] < e.begin[i + 1];
    clv_free(c->host, e.order);
    return CLV_OK;
}

clv_status npu_run_experts(const npu_call *c)
{
    const npu_view *w = &c->weight.view;
    experts e = of_call(c);
    if (!e.n || !e.outputs)
        return CLV_OK;
    clv_status status = CLV_ERR_NO_MEMORY;
    e.x = clv_new(c->host, (uint64_t)(e.n * c->in[0].columns) * sizeof *e.x);
    e.y = clv_new(c->host, (uint64_t)(e.n * e.used * e.outputs) * sizeof *e.y);
    if (e.x && e.y && group(&e)) {
        memset(e.y, 0, (size_t)(e.n * e.used * e.outputs) * sizeof *e.y);
        for (int64_t i = 0; i < e.n; i++)
            npu_get_row(&c->in[0], i, e.x + i * c->in[0].columns);
        status =
            npu_parts(c->host, w->rows,
                      GRAIN / (e.n * e.used * e.inputs + 1) + 1, run_range, &e);
        if (!status && !write_rows(&e))
            status = CLV_ERR_NO_MEMORY;
    }
    clv_free(c->host, e.x);
    clv_free(c->host, e.y);
    clv_free(c->host, e.order);
    return status;
}
