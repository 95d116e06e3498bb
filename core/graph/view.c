#include "graph.h"

uint64_t core_view_offset(const clv_graph *graph, clv_value value)
{
    const core_value *v = &graph->values[value];
    clv_tensor_desc base = graph->tensors[v->base];
    uint32_t elements, bytes;
    if (v->base == value || !clv_dtype_block(base.dtype, &elements, &bytes))
        return 0;
    int64_t offset = 0;
    core_desc_set_dense(&base);
    for (uint32_t i = 0; i < base.rank; i++) {
        int64_t step = i + 1 == base.rank ? v->origin[i] / (int64_t)elements
                                          : v->origin[i];
        offset += step * base.strides[i];
    }
    return (uint64_t)offset;
}

bool core_values_overlap(const clv_graph *graph, clv_value a, clv_value b)
{
    const core_value *va = &graph->values[a], *vb = &graph->values[b];
    if (va->base != vb->base)
        return false;
    const clv_tensor_desc *da = &graph->tensors[a], *db = &graph->tensors[b];
    for (uint32_t i = 0; i < da->rank; i++)
        if (va->origin[i] >= vb->origin[i] + db->dims[i] ||
            vb->origin[i] >= va->origin[i] + da->dims[i])
            return false;
    return true;
}

void core_desc_set_dense(clv_tensor_desc *desc)
{
    uint32_t elements, bytes;
    clv_dtype_block(desc->dtype, &elements, &bytes);
    int64_t stride = bytes;
    desc->strides[desc->rank - 1] = stride;
    stride *= desc->dims[desc->rank - 1] / (int64_t)elements;
    for (uint32_t i = desc->rank - 1; i-- > 0;) {
        desc->strides[i] = stride;
        stride *= desc->dims[i];
    }
}
