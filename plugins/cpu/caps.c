#include "caps.h"
#include "check.h"
#include "device.h"
#include "host.h"
#include "op.h"

#include <string.h>

clv_status cpu_graph_read(const clv_host_api *host, const clv_subgraph *graph,
                          clv_subgraph *out)
{
    cpu_read(out, sizeof *out, graph);
    clv_status status = cpu_check_chain(host, &out->header);
    if (status)
        return status;
    if ((out->n_tensors && !out->tensors) || (out->n_nodes && !out->nodes) ||
        (out->n_symbols && !out->symbols))
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: the graph counts elements in an array that is "
                         "NULL");
    for (uint32_t i = 0; i < out->n_symbols; i++)
        if (out->symbols[i].min > out->symbols[i].max)
            return cpu_error(host, CLV_ERR_INVALID,
                             "cpu: symbol %u of the graph has min above max",
                             (unsigned)i);
    return CLV_OK;
}

clv_status cpu_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride)
{
    clv_subgraph g;
    clv_status status = cpu_device_usable(dev);
    if (!status)
        status = cpu_graph_read(dev->host, graph, &g);
    for (uint32_t i = 0; !status && i < g.n_nodes; i++) {
        cpu_check check;
        cpu_check_node(dev->kernels, &g, i, &check);
        cpu_write((char *)out + (size_t)i * stride, &check.caps,
                  sizeof check.caps);
    }
    return status;
}
