/*
 * What decides the time of a work, as features of a model. Sums of products of
 * sizes are what devices do: multiply, move weights, move activations, begin
 * rows. Single sizes are there for trees to split on.
 */
#include "store.h"

static uint32_t of_matmul(const core_work *work, double *x)
{
    double n = (double)work->n, in = (double)work->in, out = (double)work->out;
    x[0] = n * in * out;
    x[1] = in * out;
    x[2] = n * in;
    x[3] = n * out;
    x[4] = n;
    x[5] = out;
    x[6] = in;
    return 7;
}

static uint32_t of_attention(const core_work *work, double *x)
{
    double n = (double)work->n, depth = (double)work->depth;
    uint32_t head_dim = work->kind.variant ? work->kind.variant : 1;
    double heads = (double)work->out / head_dim;
    x[0] = core_work_pairs(work) * heads;
    x[1] = n * depth * heads;
    x[2] = depth * (double)work->in;
    x[3] = n * (double)work->out;
    x[4] = (double)work->in;
    x[5] = n;
    x[6] = depth;
    return 7;
}

static uint32_t of_experts(const core_work *work, double *x)
{
    double n = (double)work->n, in = (double)work->in, out = (double)work->out;
    x[0] = n * work->kind.span * in * out;
    x[1] = core_work_experts(work) * in * out;
    x[2] = n * in;
    x[3] = n * out;
    x[4] = n;
    x[5] = out;
    x[6] = in;
    return 7;
}

uint32_t planner_work_features(const core_work *work, double *x)
{
    if (work->kind.op == CLV_OP_MATMUL)
        return of_matmul(work, x);
    if (work->kind.op == CLV_OP_ATTENTION)
        return of_attention(work, x);
    if (work->kind.op == CLV_OP_MATMUL_EXPERTS)
        return of_experts(work, x);
    x[0] = (double)work->n * (double)work->out;
    x[1] = (double)work->n;
    x[2] = (double)work->out;
    return 3;
}
