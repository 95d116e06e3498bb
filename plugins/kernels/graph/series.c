#include "graph/series.h"

static bool is_off(const gpu_fusion *f, const gpu_series *series)
{
    return !series || f->off || f->target->slices ||
           series->n == GPU_SERIES_MAX;
}

/* Whether the step behind the last is for the next layer what the first is for
 * this one. Layers that begin alike can be one kernel (code/repeat.c). */
static bool begins_layer(const gpu_series *series)
{
    const gpu_step *first = &series->steps[0];
    const gpu_step *next = &series->steps[series->n];
    const gpu_fused *a = &first->fused, *b = &next->fused;
    bool attended = false;
    for (uint32_t i = 0; i < series->n; i++)
        attended = attended || series->steps[i].attends;
    return attended && !first->attends && !next->attends &&
           a->has_norm == b->has_norm && a->has_glu == b->has_glu &&
           !a->rope == !b->rope && a->x.d.dims[1] == b->x.d.dims[1];
}

/* The step behind the last, if it fits there. */
static bool keep(gpu_series *series, const gpu_node *node, bool alone)
{
    if (begins_layer(series) || !gpu_series_fits(series->steps, series->n + 1))
        return false;
    series->nodes[series->n] = *node;
    series->alone[series->n++] = alone;
    return true;
}

bool gpu_series_keep(gpu_fusion *f, gpu_series *series, const gpu_node *node,
                     const gpu_fused *fused, const gpu_sum *sum)
{
    if (is_off(f, series))
        return false;
    gpu_step *step = &series->steps[series->n];
    step->attends = false;
    step->fused = *fused;
    step->sum = sum ? *sum : (gpu_sum){.n = 0};
    step->add.index = CLV_NO_TENSOR;
    if (fused->rope) /* which is in a member */
        step->fused.rope = (const gpu_node *)((const char *)&step->fused +
                                              ((const char *)fused->rope -
                                               (const char *)fused));
    if (!keep(series, node, false))
        return false;
    for (uint32_t i = 0; i < fused->n_covered; i++)
        f->covered[fused->covered[i]] = true;
    return true;
}

/* An attention, that nothing is fused with. */
static bool keep_attention(gpu_fusion *f, gpu_series *series,
                           const gpu_node *node, const gpu_chain *chain)
{
    gpu_step *step = &series->steps[series->n];
    if (chain->n_nodes)
        return false;
    memset(step, 0, sizeof *step);
    step->attends = true;
    step->attention = *node;
    if (!keep(series, node, true))
        return false;
    series->chains[series->n - 1] = *chain;
    f->covered[node->index] = true;
    return true;
}

bool gpu_series_keep_alone(gpu_fusion *f, gpu_series *series,
                           const gpu_node *node, const gpu_chain *chain)
{
    const gpu_link *link = &chain->links[0];
    if (is_off(f, series))
        return false;
    if (node->node.op == CLV_OP_ATTENTION)
        return keep_attention(f, series, node, chain);
    if (node->node.op != CLV_OP_MATMUL || chain->sets || chain->n_links > 1 ||
        (chain->n_links &&
         (link->op != GPU_POST_ADD || !gpu_has(&link->operand))))
        return false;
    gpu_step *step = &series->steps[series->n];
    memset(step, 0, sizeof *step);
    step->fused.n = step->fused.n_outs = 1;
    step->fused.x = node->in[0];
    step->fused.members[0].product = *node;
    step->fused.members[0].out = chain->out;
    step->add.index = CLV_NO_TENSOR;
    if (chain->n_links)
        step->add = link->operand;
    if (!keep(series, node, true))
        return false;
    series->chains[series->n - 1] = *chain;
    f->covered[node->index] = true;
    gpu_fusion_cover(f, chain);
    return true;
}
