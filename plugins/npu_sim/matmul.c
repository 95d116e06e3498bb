/* y [n,O] = x [n,I] * transpose(w [O,I]) + bias [O] */
#include "kernel.h"

#include <math.h>
#include <string.h>

#define GRAIN 65536 /* fewer products are not worth a thread */
#define MAX_Q 127

typedef struct product {
    const npu_call *call;
    int64_t n, inputs;
    float *x;    /* [n,I], rounded as the path does */
    int16_t *q;  /* [n,I] of the integer paths */
    float scale; /* of q */
    float *bias; /* [O] or NULL */
} product;

static void put(const product *p, int64_t i, int64_t o, float y)
{
    const npu_view *out = &p->call->out;
    float sum = p->bias ? y + p->bias[o] : y;
    memcpy(out->data + i * out->strides[0] + o * out->strides[1], &sum,
           sizeof sum);
}

/* The sum of a tile is in F32, that over tiles in F16. */
static float half_dot(const float *a, const float *b, int64_t n, int64_t tile)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i += tile) {
        int64_t left = n - i < tile ? n - i : tile;
        sum = npu_round_half(sum + npu_dot(a + i, b + i, left));
    }
    return sum;
}

static bool run_floats(void *ctx, int64_t begin, int64_t end)
{
    const product *p = ctx;
    const npu_call *c = p->call;
    float *w = clv_new(c->host, (uint64_t)p->inputs * sizeof *w);
    if (!w)
        return false;
    for (int64_t o = begin; o < end; o++) {
        npu_weight_row(&c->weight, o, w);
        for (int64_t j = 0; c->path == NPU_PATH_F16 && j < p->inputs; j++)
            w[j] = npu_round_half(w[j]);
        for (int64_t i = 0; i < p->n; i++) {
            const float *x = p->x + i * p->inputs;
            bool half = c->path == NPU_PATH_F16 && c->half_sums;
            put(p, i, o,
                half ? half_dot(x, w, p->inputs, c->array_rows)
                     : npu_dot(x, w, p->inputs));
        }
    }
    clv_free(c->host, w);
    return true;
}

static int32_t integer_dot(const int16_t *a, const int16_t *b, int64_t n)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (int32_t)a[i] * b[i];
    return sum;
}

/* One product of integers for each group of w, the groups' summed as floats. A
 * sum of 2^16 products of bytes fits; longer ones are cut. */
static float grouped_dot(const product *p, const npu_weight *weight,
                         const int16_t *x, const int16_t *w, int64_t o)
{
    const int64_t most = 65536;
    int64_t group = weight->group < most ? weight->group : most;
    float sum = 0;
    for (int64_t i = 0; i < p->inputs; i += group) {
        int64_t left = p->inputs - i < group ? p->inputs - i : group;
        sum += (float)integer_dot(x + i, w + i, left) *
               npu_weight_scale(weight, o, i);
    }
    return sum * p->scale;
}

static bool run_integers(void *ctx, int64_t begin, int64_t end)
{
    const product *p = ctx;
    const npu_call *c = p->call;
    int16_t *w = clv_new(c->host, (uint64_t)p->inputs * sizeof *w);
    if (!w)
        return false;
    for (int64_t o = begin; o < end; o++) {
        npu_get_integers(&c->weight.view, o, w);
        for (int64_t i = 0; i < p->n; i++)
            put(p, i, o,
                grouped_dot(p, &c->weight, p->q + i * p->inputs, w, o));
    }
    clv_free(c->host, w);
    return true;
}

/* One scale for the whole activation, that of the node if it has one; one that
 * is not finite has no integers, and then nothing has a value. */
static void quantise(product *p)
{
    const int64_t count = p->n * p->inputs;
    float most = 0;
    for (int64_t i = 0; i < count; i++) {
        float size = fabsf(p->x[i]);
        most = size <= most ? most : size; /* a NaN is taken, and remains */
        if (!isfinite(size))
            break;
    }
    const float known = p->call->node->attr.matmul.input_scale;
    p->scale = !isfinite(most) ? NAN : known > 0 ? known : most / MAX_Q;
    float inverse = p->scale > 0 ? 1 / p->scale : 0;
    bool fits = isfinite(inverse);
    for (int64_t i = 0; i < count; i++) {
        float q = fits ? p->x[i] * inverse : p->x[i] / p->scale;
        p->q[i] = isfinite(p->scale) && p->scale > 0
                      ? (int16_t)lrintf(fmaxf(-MAX_Q, fminf(MAX_Q, q)))
                      : 0;
    }
}

static clv_status prepare(product *p)
{
    const npu_call *c = p->call;
    const bool integers =
        c->path == NPU_PATH_I8 || c->path == NPU_PATH_I8_GROUPS;
    const uint64_t count = (uint64_t)p->n * (uint64_t)p->inputs;
    p->x = clv_new(c->host, count * sizeof *p->x);
    if (integers)
        p->q = clv_new(c->host, count * sizeof *p->q);
    if (c->in[2].data)
        p->bias =
            clv_new(c->host, (uint64_t)c->in[2].columns * sizeof *p->bias);
    if (!p->x || (integers && !p->q) || (c->in[2].data && !p->bias))
        return CLV_ERR_NO_MEMORY;
    for (int64_t i = 0; i < p->n; i++)
        npu_get_row(&c->in[0], i, p->x + i * p->inputs);
    for (uint64_t i = 0; c->path == NPU_PATH_F16 && i < count; i++)
        p->x[i] = npu_round_half(p->x[i]);
    if (integers)
        quantise(p);
    if (p->bias)
        npu_get_row(&c->in[2], 0, p->bias);
    return CLV_OK;
}

clv_status npu_run_matmul(const npu_call *call)
{
    product p = {
        .call = call, .n = call->in[0].rows, .inputs = call->in[0].columns};
    const int64_t outputs = call->out.columns;
    if (!p.n || !outputs)
        return CLV_OK;
    clv_status status = prepare(&p);
    int64_t work = p.n * (p.inputs ? p.inputs : 1);
    if (!status)
        status = npu_parts(call->host, outputs, GRAIN / work + 1,
                           p.q ? run_integers : run_floats, &p);
    clv_free(call->host, p.x);
    clv_free(call->host, p.q);
    clv_free(call->host, p.bias);
    return status;
}
