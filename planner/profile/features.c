/*
 * Features of a workload, for models of its time. Products of sizes stand for
 * what devices do: multiply, move weights, move activations, begin rows. Single
 * sizes are there for decision trees to split on.
 */
#include "store.h"

static uint32_t of_matmul(const planner_workload *workload, double *x)
{
    double n = (double)workload->n, in = (double)workload->in,
           out = (double)workload->out;
    x[0] = n * in * out;
    x[1] = in * out;
    x[2] = n * in;
    x[3] = n * out;
    x[4] = n;
    x[5] = out;
    x[6] = in;
    return 7;
}

static uint32_t of_attention(const planner_workload *workload, double *x)
{
    double n = (double)workload->n, depth = (double)workload->depth;
    const bool apart = workload->kind.detail & PLANNER_ATTENTION_APART;
    uint32_t head_dim = workload->kind.variant ? workload->kind.variant : 1;
    double heads = (double)workload->out / head_dim;
    x[0] = planner_workload_pairs(workload) * heads;
    x[1] = n * depth * heads;
    x[2] = depth * (double)workload->in * (apart ? n : 1);
    x[3] = n * (double)workload->out;
    x[4] = (double)workload->in;
    x[5] = n;
    x[6] = depth;
    return 7;
}

static uint32_t of_experts(const planner_workload *workload, double *x)
{
    const uint32_t n = of_matmul(workload, x);
    x[0] *= planner_workload_products(workload);
    x[1] *= planner_workload_experts(workload);
    return n;
}

uint32_t planner_workload_features(const planner_workload *workload, double *x)
{
    switch (clv_op_class_of(workload->kind.op)) {
    case CLV_CLASS_MATMUL:
        return of_matmul(workload, x);
    case CLV_CLASS_ATTENTION:
        return of_attention(workload, x);
    case CLV_CLASS_EXPERTS:
        return of_experts(workload, x);
    }
    x[0] = (double)workload->n * (double)workload->out;
    x[1] = (double)workload->n;
    x[2] = (double)workload->out;
    return 3;
}
