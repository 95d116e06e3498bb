#include "caps.h"
#include "check.h"
#include "device.h"
#include "op.h"

#include <string.h>

clv_status cpu_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride)
{
    clv_subgraph g;
    CLV_TRY(clv_queue_usable(dev));
    clv_read(&g, sizeof g, graph);
    CLV_TRY(clv_check_graph(dev->base.host, &g));
    for (uint32_t i = 0; i < g.n_nodes; i++) {
        cpu_check check;
        cpu_check_node(dev->kernels, &g, i, &check);
        clv_write(clv_at(out, i, stride), &check.caps, sizeof check.caps);
    }
    return CLV_OK;
}
