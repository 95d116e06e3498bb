/* How often experts are chosen: what plans expect slices of weights to cost. */
#include "../base/error.h"
#include "../base/hash.h"
#include "tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

clv_status clv_tensor_set_popularity(clv_tensor *tensor, const float *chances)
{
    const size_t n = (size_t)tensor->dims[0];
    float *copy = NULL;
    for (size_t i = 0; chances && i < n; i++)
        if (!(chances[i] >= 0 && chances[i] <= 1))
            return clv_error(CLV_ERR_INVALID,
                             "the chance of expert %zu is %g, not in 0..1", i,
                             (double)chances[i]);
    if (chances && !(copy = malloc(n * sizeof *copy)))
        return core_no_memory("for the popularity of experts");
    if (chances)
        memcpy(copy, chances, n * sizeof *copy);
    free(tensor->popularity);
    tensor->popularity = copy;
    return CLV_OK;
}

bool core_tensor_expected(const clv_tensor *tensor, int64_t first, int64_t end,
                          double n, double *experts, double *products)
{
    *experts = *products = 0;
    if (!tensor || !tensor->popularity)
        return false;
    for (int64_t i = first; i < end && i < tensor->dims[0]; i++) {
        const double chance = tensor->popularity[i];
        *experts += 1 - pow(1 - chance, n);
        *products += chance;
    }
    return true;
}

uint64_t core_tensor_mix_popularity(uint64_t hash, const clv_tensor *tensor)
{
    return tensor && tensor->popularity
               ? core_hash(hash, tensor->popularity,
                           (size_t)tensor->dims[0] * sizeof(float))
               : hash;
}

bool core_graph_has_popularity(const clv_graph *graph)
{
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->values[v].weight && graph->values[v].weight->popularity)
            return true;
    return false;
}
