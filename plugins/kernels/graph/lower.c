#include "graph/group.h"
#include "graph/place.h"
#include "graph/series.h"
#include "ops/gemm_wgmma.h"
#include "ops/gemv_tensor.h"
#include "ops/norms.h"
#include "ops/rows.h"
#include "ops/tiles.h"

/* The node, or a sum with its norm. */
static clv_status lower_alone(gpu_lowering *lowering, gpu_fusion *fusion,
                              const gpu_node *node)
{
    gpu_node norm;
    if (gpu_place_slices(fusion, node, &node->out))
        CLV_TRY(gpu_place(fusion, &lowering->builder, node, &node->out));
    if (!gpu_fusion_norm(fusion, node, &norm))
        return node->op->lower(lowering, node);
    CLV_TRY(gpu_place(fusion, &lowering->builder, node, &norm.out));
    fusion->covered[norm.index] = true;
    return gpu_lower_add_norm(lowering, node, &norm);
}

/* Where what a chain computes is written: into the rows of a state, or into
 * out, which gets memory of its own. */
static clv_status place_out(gpu_lowering *lowering, gpu_fusion *fusion,
                            const gpu_node *node, gpu_chain *chain,
                            const gpu_tensor *out)
{
    return chain->sets
               ? gpu_row_map(lowering, &chain->ids, &chain->state, &chain->map)
               : gpu_place(fusion, &lowering->builder, node, out);
}

/* The node with what follows it in its kernel. */
static clv_status lower_chain(gpu_lowering *lowering, gpu_fusion *fusion,
                              const gpu_node *node, gpu_chain *chain)
{
    gpu_code *code = lowering->builder.code;
    gpu_node whole = *node;
    whole.out = chain->out;
    CLV_TRY(place_out(lowering, fusion, node, chain, &chain->out));
    CLV_TRY(gpu_build_kept(&lowering->builder));
    const uint32_t dispatches = code->n_dispatches, setup = code->n_setup;
    lowering->chain = chain;
    lowering->chained = false;
    clv_status status = node->op->lower(lowering, &whole);
    lowering->chain = NULL;
    if (!status && lowering->chained) {
        gpu_fusion_cover(fusion, chain);
        return CLV_OK;
    }
    /* More operands or params than a kernel may have: each node by itself. */
    gpu_place_undo(fusion, &chain->out);
    gpu_build_undo(&lowering->builder, dispatches, setup);
    lowering->halves_of = 0;
    lowering->bytes.of = 0;
    lowering->order.ids = 0;
    lowering->n_counters = 0;
    if (status && status != CLV_ERR_INTERNAL)
        return status;
    return lower_alone(lowering, fusion, node);
}

/* Products that share their x, in one kernel. */
static clv_status lower_fused(gpu_lowering *lowering, gpu_fusion *fusion,
                              const gpu_node *node, gpu_fused *fused)
{
    for (uint32_t i = 0; i < fused->n_outs; i++)
        CLV_TRY(place_out(lowering, fusion, node, &fused->members[i].sets,
                          &fused->members[i].out));
    for (uint32_t i = 0; i < fused->n_covered; i++)
        fusion->covered[fused->covered[i]] = true;
    return gpu_is_gemv(&fused->members[0].product)
               ? gpu_gemv_fused_lower(lowering, fused)
               : gpu_wgmma_fused_lower(lowering, fused);
}

/* The one step that is kept, as if it had not been. */
static clv_status lower_step(gpu_lowering *lowering, gpu_fusion *fusion,
                             gpu_series *series)
{
    gpu_chain *chain = &series->chains[0];
    const gpu_node *node = &series->nodes[0];
    if (!series->alone[0])
        return lower_fused(lowering, fusion, node, &series->steps[0].fused);
    if (!chain->n_nodes)
        return lower_alone(lowering, fusion, node);
    CLV_TRY(lower_chain(lowering, fusion, node, chain));
    return lowering->chained
               ? CLV_OK
               : clv_fail(lowering->builder.host, CLV_ERR_INTERNAL,
                          "node %u: its sum does not fit into its kernel",
                          (unsigned)node->index);
}

/* The steps that are kept. */
static clv_status lower_steps(gpu_lowering *lowering, gpu_fusion *fusion,
                              gpu_series *series, uint32_t n)
{
    if (n == 1 && !gpu_series_pays(&series->steps[0]))
        return lower_step(lowering, fusion, series);
    for (uint32_t i = 0; i < n; i++) {
        gpu_fused *fused = &series->steps[i].fused;
        if (series->alone[i] && !series->chains[i].n_nodes)
            continue; /* where it is bound */
        for (uint32_t k = 0; k < fused->n_outs; k++)
            CLV_TRY(place_out(lowering, fusion, &series->nodes[i],
                              &fused->members[k].sets, &fused->members[k].out));
    }
    return gpu_series_lower(lowering, series->steps, n);
}

/* What is kept, which began at an earlier node. */
static clv_status lower_series(gpu_lowering *lowering, gpu_fusion *fusion,
                               gpu_series *series)
{
    const uint32_t n = series ? series->n : 0;
    const uint32_t node = lowering->builder.node;
    if (!n)
        return CLV_OK;
    series->n = 0;
    lowering->builder.node = series->nodes[0].index;
    CLV_TRY(lower_steps(lowering, fusion, series, n));
    lowering->builder.node = node;
    return CLV_OK;
}

static clv_status lower_group(gpu_lowering *lowering, gpu_fusion *fusion,
                              gpu_series *series, const gpu_node *node,
                              gpu_fused *fused)
{
    if (gpu_series_keep(fusion, series, node, fused, NULL))
        return CLV_OK;
    CLV_TRY(lower_series(lowering, fusion, series));
    return gpu_series_keep(fusion, series, node, fused, NULL)
               ? CLV_OK
               : lower_fused(lowering, fusion, node, fused);
}

/* A sum with the group that it is x of, if a series can begin with it. */
static clv_status lower_sum(gpu_lowering *lowering, gpu_fusion *fusion,
                            gpu_series *series, const gpu_node *node,
                            bool *kept)
{
    gpu_fused fused;
    gpu_sum sum;
    *kept = false;
    if (!series || !gpu_fused_find_sum(fusion, node, &fused, &sum))
        return CLV_OK;
    CLV_TRY(lower_series(lowering, fusion, series));
    *kept = gpu_series_keep(fusion, series, node, &fused, &sum);
    return CLV_OK;
}

static clv_status lower_some(gpu_lowering *lowering, gpu_fusion *fusion,
                             gpu_series *series, const gpu_node *node)
{
    gpu_chain chain;
    gpu_fused fused;
    bool kept;
    CLV_TRY(lower_sum(lowering, fusion, series, node, &kept));
    if (kept)
        return CLV_OK;
    while (gpu_fused_find(fusion, node, &fused)) {
        CLV_TRY(lower_group(lowering, fusion, series, node, &fused));
        if (!fused.n_others)
            return CLV_OK;
    }
    gpu_fusion_find(fusion, node, &chain);
    if (gpu_series_keep_alone(fusion, series, node, &chain))
        return CLV_OK;
    CLV_TRY(lower_series(lowering, fusion, series));
    if (gpu_series_keep_alone(fusion, series, node, &chain))
        return CLV_OK;
    return chain.n_nodes ? lower_chain(lowering, fusion, node, &chain)
                         : lower_alone(lowering, fusion, node);
}

static clv_status lower_node(gpu_lowering *lowering, gpu_fusion *fusion,
                             gpu_series *series, uint32_t index)
{
    gpu_node node;
    gpu_replaced replaced;
    lowering->builder.node = index;
    gpu_check_node(lowering->target, fusion->graph, index, &node);
    if (node.caps.answer != CLV_ANSWER_YES)
        return clv_fail(lowering->builder.host, CLV_ERR_UNSUPPORTED,
                        "node %u: %s", (unsigned)index, node.caps.reason);
    if (gpu_has(&node.out) && lowering->order.ids == node.out.index + 1)
        lowering->order.ids = 0; /* other ids from now on */
    clv_status status =
        gpu_place_rows(fusion, &lowering->builder, &node, &replaced);
    if (!status)
        status = lower_some(lowering, fusion, series, &node);
    gpu_place_back(fusion, &replaced);
    return status;
}

clv_status gpu_lower(const clv_host_api *host, const gpu_target *target,
                     const clv_subgraph *graph, gpu_code **out)
{
    gpu_lowering lowering = {.target = target,
                             .builder = {.host = host, .target = target}};
    gpu_fusion fusion;
    gpu_code *code = lowering.builder.code = clv_new(host, sizeof *code);
    if (!code)
        return CLV_ERR_NO_MEMORY;
    /* Without memory for it, nothing is kept. */
    gpu_series *series = target->series ? clv_new(host, sizeof *series) : NULL;
    clv_status status = gpu_fusion_init(&fusion, host, target, graph);
    lowering.builder.moved = fusion.moved;
    lowering.aliased = fusion.off;
    lowering.builder.maps = fusion.maps;
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++)
        if (!fusion.covered[i])
            status = lower_node(&lowering, &fusion, series, i);
    if (!status)
        status = lower_series(&lowering, &fusion, series);
    if (!status)
        status = gpu_build_kept(&lowering.builder);
    clv_free(host, series);
    gpu_builder_finish(&lowering.builder);
    gpu_fusion_finish(&fusion);
    if (status) {
        gpu_code_free(host, code);
        return status;
    }
    *out = code;
    return CLV_OK;
}
