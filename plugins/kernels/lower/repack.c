#include "lower/repack.h"

uint32_t gpu_count_repacked(const gpu_target *target, const clv_subgraph *graph,
                            uint64_t size)
{
    gpu_target all = *target;
    all.scarce = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        gpu_node node;
        gpu_check_node(&all, graph, i, &node);
        const uint64_t bytes =
            node.caps.answer == CLV_ANSWER_YES && node.op->repacked
                ? node.op->repacked(&node)
                : 0;
        if (bytes > size)
            return i;
        size -= bytes;
    }
    return graph->n_nodes;
}
