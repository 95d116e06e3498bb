#include "arch.h"

#include <stdio.h>
#include <string.h>

static const llm_arch *const architectures[] = {
    &llm_arch_llama,
};
static const uint32_t n_architectures =
    sizeof(architectures) / sizeof(architectures[0]);

const llm_arch *llm_arch_find(const char *name)
{
    for (uint32_t i = 0; i < n_architectures; i++)
        if (!strcmp(architectures[i]->name, name))
            return architectures[i];
    return NULL;
}

clv_status llm_arch_unknown(const char *name)
{
    char known[256] = "";
    for (uint32_t i = 0, at = 0; i < n_architectures && at < sizeof(known); i++)
        at += (uint32_t)snprintf(known + at, sizeof(known) - at, "%s%s",
                                 i ? ", " : "", architectures[i]->name);
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "architecture '%s' is not supported; there is: %s", name,
                     known);
}

clv_value llm_graph_use(llm_graph *g, const llm_weight *w)
{
    if (!w)
        return CLV_NO_TENSOR;
    return clv_graph_weight(g->graph, w->name, w->tensor);
}

clv_value llm_graph_linear(llm_graph *g, clv_value x, const llm_weight *w,
                           const llm_weight *bias)
{
    return clv_graph_matmul(g->graph, x, llm_graph_use(g, w),
                            llm_graph_use(g, bias));
}
