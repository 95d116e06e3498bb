/* Views of weights on devices that copy them. */
#include "cut.h"

#include <stdlib.h>

#define COPIED 1
#define IN_PLACE 2

/* Notes how a weight, and its scales, are used. */
static void note_use(const clv_graph *g, clv_value value, uint8_t how,
                     uint8_t *uses)
{
    while (value != CLV_NO_TENSOR &&
           g->tensors[value].usage == CLV_USAGE_WEIGHT) {
        uint32_t scales = g->tensors[value].quant_scales;
        uses[value] |= how;
        value = scales ? scales - 1 : CLV_NO_TENSOR;
    }
}

clv_status core_cut_pack(core_cut *cut, const bool *local)
{
    const clv_graph *g = cut->graph;
    uint8_t *uses = calloc(g->n_tensors + 1u, sizeof *uses);
    if (!uses)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to cut a graph");
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->nodes[i].n_inputs; j++)
            note_use(g, g->nodes[i].inputs[j],
                     local[cut->devices[i]] ? COPIED : IN_PLACE, uses);
    for (clv_value v = 0; v < g->n_tensors; v++)
        if (g->values[v].base != v && uses[v] == COPIED)
            core_desc_set_dense(&g->tensors[v]);
    free(uses);
    return CLV_OK;
}
