#include "graph.h"
#include "../base/hash.h"

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = core_hash(*hash, &value, sizeof value);
}

static void mix_tensor(uint64_t *hash, const clv_tensor_desc *desc)
{
    mix(hash, desc->dtype);
    mix(hash, desc->usage);
    mix(hash, desc->quant);
    mix(hash, desc->quant_group);
    mix(hash, desc->rank);
    for (uint32_t i = 0; i < desc->rank; i++) {
        mix(hash, (uint64_t)desc->dims[i]);
        mix(hash, desc->symbols[i]);
    }
}

static void mix_attributes(uint64_t *hash, const clv_node *node)
{
    const clv_op_info *info = clv_op_find(node->op);
    const clv_attr_field *field;
    for (uint32_t i = 0; info && (field = clv_op_field(info, i)); i++)
        mix(hash, clv_attr_bits(&node->attr, field));
}

uint64_t core_graph_fingerprint(const clv_graph *graph)
{
    uint64_t hash = CORE_HASH_SEED;
    mix(&hash, graph->n_symbols);
    for (uint32_t i = 0; i < graph->n_symbols; i++) {
        mix(&hash, (uint64_t)graph->symbols[i].min);
        mix(&hash, (uint64_t)graph->symbols[i].max);
    }
    mix(&hash, graph->n_tensors);
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        mix_tensor(&hash, &graph->tensors[i]);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const clv_node *node = &graph->nodes[i];
        mix(&hash, node->op);
        mix_attributes(&hash, node);
        for (uint32_t j = 0; j < node->n_inputs; j++)
            mix(&hash, node->inputs[j]);
        for (uint32_t j = 0; j < node->n_outputs; j++)
            mix(&hash, node->outputs[j]);
    }
    return hash;
}
