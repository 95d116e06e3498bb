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

/* Rough speeds of one core; the host's measurements replace them. */
static const struct {
    double matmul, other; /* operations a ns */
} speeds[CPU_LEVEL_COUNT] = {
    [CPU_LEVEL_REF] = {1, 0.5},
    [CPU_LEVEL_AVX2] = {60, 4},
    [CPU_LEVEL_AVX512] = {90, 8},
    [CPU_LEVEL_AVX512VNNI] = {180, 8},
};

#define CORE_BANDWIDTH 12.0   /* bytes a ns that one core can read */
#define MEMORY_BANDWIDTH 40.0 /* and all of them */
#define NODE_NS 500.0         /* starting a node on all threads */
#define SUBMIT_NS 3000.0
#define WAIT_NS 5000.0

static bool is_symbolic(const cpu_tensor *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->symbols[i])
            return true;
    return false;
}

/* Elements of one step of the first dimension. */
static double row_elements(const cpu_tensor *t)
{
    double n = 1;
    for (uint32_t i = 1; i < t->rank; i++)
        n *= (double)t->dims[i];
    return n;
}

static double row_bytes(const cpu_tensor *t)
{
    cpu_block block = cpu_dtype_block(t->dtype);
    return row_elements(t) * (double)block.bytes / (double)block.elements;
}

static double row_operations(const cpu_check *check)
{
    const cpu_tensor *in = check->n.in;
    switch (check->n.node.op) {
    case CLV_OP_MATMUL:
        return 2 * (double)in[1].dims[0] * (double)in[1].dims[1];
    case CLV_OP_MATMUL_EXPERTS:
        return 2 * (double)in[2].dims[1] * (double)in[1].dims[1] *
               (double)in[1].dims[2];
    case CLV_OP_TOP_K:
        return 4 * row_elements(&in[0]);
    case CLV_OP_ATTENTION: /* half of the cache is seen, on average */
        return 2 * (double)in[1].dims[0] * row_elements(&in[0]);
    default:
        return 4 * row_elements(check->n.out.rank ? &check->n.out : &in[1]);
    }
}

static void estimate(const clv_plugin_device *dev, const cpu_check *check,
                     clv_cost_hint *hint)
{
    double cores = dev->setup->threads;
    double bandwidth = CORE_BANDWIDTH * cores < MEMORY_BANDWIDTH
                           ? CORE_BANDWIDTH * cores
                           : MEMORY_BANDWIDTH;
    uint32_t op = check->n.node.op;
    bool experts = op == CLV_OP_MATMUL_EXPERTS;
    bool dense = op == CLV_OP_MATMUL || experts;
    double speed = cores * (dense ? speeds[dev->inst->level].matmul
                                  : speeds[dev->inst->level].other);
    /* Weights are read once a run; a table's rows, or the state's, as needed.
     */
    if (dense && !is_symbolic(&check->n.in[1]))
        hint->fixed_ns = (double)check->n.in[1].dims[0] *
                         row_bytes(&check->n.in[1]) / bandwidth;
    if (experts && check->n.in[2].dims[1] < check->n.in[1].dims[0])
        hint->fixed_ns *=
            (double)check->n.in[2].dims[1] / (double)check->n.in[1].dims[0];
    double rows_ns = row_operations(check) / speed;
    double bytes_ns =
        row_bytes(check->n.out.rank ? &check->n.out : &check->n.in[1]) /
        bandwidth;
    hint->row_ns = rows_ns > bytes_ns ? rows_ns : bytes_ns;
    hint->fixed_ns += NODE_NS;
    hint->confidence = CLV_CONFIDENCE_GUESS;
    hint->submit_ns = SUBMIT_NS;
    hint->wait_ns = WAIT_NS;
}

clv_status cpu_cost_hints(clv_plugin_device *dev, const clv_subgraph *graph,
                          clv_cost_hint *out, uint32_t stride)
{
    clv_subgraph g;
    CLV_TRY(clv_queue_usable(dev));
    clv_read(&g, sizeof g, graph);
    CLV_TRY(clv_check_graph(dev->base.host, &g));
    for (uint32_t i = 0; i < g.n_nodes; i++) {
        cpu_check check;
        clv_cost_hint hint;
        memset(&hint, 0, sizeof hint);
        cpu_check_node(dev->kernels, &g, i, &check);
        if (check.caps.answer == CLV_ANSWER_YES)
            estimate(dev, &check, &hint);
        clv_write(clv_at(out, i, stride), &hint, sizeof hint);
    }
    return CLV_OK;
}
