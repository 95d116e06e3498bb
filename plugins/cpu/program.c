#include "program.h"
#include "caps.h"
#include "device.h"

#include <string.h>

/* Takes a node that was checked into the program. */
static void add_step(clv_plugin_program *prog, uint32_t index,
                     const cpu_check *check)
{
    const clv_checked_node *n = &check->n;
    cpu_step *step = &prog->steps[index];
    step->op = check->op;
    step->name = n->op->name;
    step->attr = n->node.attr;
    step->variant = n->node.variant;
    step->node = index;
    for (uint32_t i = 0; i < CLV_OP_OPERANDS; i++)
        step->in[i] = n->in[i].rank ? n->node.inputs[i] : CLV_NO_TENSOR;
    step->out[0] = n->out.rank ? n->node.outputs[0] : CLV_NO_TENSOR;
}

/* An op without an output writes its first input. */
static bool writes(const cpu_step *step, uint32_t tensor)
{
    uint32_t written =
        step->out[0] == CLV_NO_TENSOR ? step->in[0] : step->out[0];
    return tensor != CLV_NO_TENSOR && tensor == written;
}

/* Marks the steps that find in their region what they would put there. */
static void plan_sharing(const clv_plugin_device *dev, clv_plugin_program *prog)
{
    cpu_share held[CPU_REGION_COUNT];
    bool valid[CPU_REGION_COUNT] = {false};
    for (uint32_t i = 0; i < prog->n_steps; i++) {
        cpu_step *step = &prog->steps[i];
        cpu_share wants;
        memset(&wants, 0, sizeof wants);
        wants.region = CPU_REGION_COUNT;
        wants.tensors[0] = wants.tensors[1] = CLV_NO_TENSOR;
        if (step->op->share)
            step->op->share(dev->kernels, prog->base.tensors, step, &wants);
        if (wants.region < CPU_REGION_COUNT) {
            step->reuse = valid[wants.region] &&
                          !memcmp(&held[wants.region], &wants, sizeof wants);
            held[wants.region] = wants;
            valid[wants.region] = true;
        }
        for (uint32_t r = 0; r < CPU_REGION_COUNT; r++)
            if (valid[r] && (writes(step, held[r].tensors[0]) ||
                             writes(step, held[r].tensors[1])))
                valid[r] = false;
    }
}

void cpu_program_regions(const clv_plugin_program *prog, const cpu_run *run,
                         uint64_t sizes[CPU_REGION_COUNT])
{
    memset(sizes, 0, CPU_REGION_COUNT * sizeof *sizes);
    for (uint32_t i = 0; i < prog->n_steps; i++) {
        const cpu_step *step = &prog->steps[i];
        cpu_share wants = {.region = CPU_REGION_COUNT};
        if (step->op->share && !step->reuse)
            step->op->share(run->kernels, prog->base.tensors, step, &wants);
        if (wants.region == CPU_REGION_COUNT)
            continue;
        uint64_t size = step->op->share_size(run, step);
        if (size > sizes[wants.region])
            sizes[wants.region] = size;
    }
}

/* A weight's form must not wait for a run. */
static clv_status check_weights(const clv_program_base *base)
{
    for (uint32_t i = 0; i < base->n_tensors; i++)
        for (uint32_t d = 0; d < base->tensors[i].rank; d++)
            if (base->tensors[i].usage == CLV_USAGE_WEIGHT &&
                base->tensors[i].symbols[d])
                return clv_fail(base->host, CLV_ERR_INVALID,
                                "cpu: weight tensor %u has a symbolic "
                                "dimension",
                                (unsigned)i);
    return CLV_OK;
}

static clv_status add_steps(clv_plugin_device *dev, const clv_subgraph *graph,
                            const clv_compile *compile,
                            clv_plugin_program *prog)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        cpu_check check;
        cpu_check_node(dev->kernels, graph, i, &check);
        if (check.caps.answer != CLV_ANSWER_YES)
            return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                            "cpu: node %u: %s", (unsigned)i, check.caps.reason);
        add_step(prog, i, &check);
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(i + 1) / (float)graph->n_nodes))
            return clv_fail(dev->base.host, CLV_ERR_CANCELLED,
                            "cpu: compiling was cancelled at node %u of %u",
                            (unsigned)i, (unsigned)graph->n_nodes);
    }
    return CLV_OK;
}

/* Shared memory at the upper ends of the symbols' ranges. */
static void measure_scratch(const clv_plugin_device *dev,
                            clv_plugin_program *prog)
{
    const clv_program_base *base = &prog->base;
    int64_t most[CLV_MAX_SYMBOLS];
    uint64_t sizes[CPU_REGION_COUNT];
    for (uint32_t i = 0; i < base->n_symbols; i++)
        most[i] = base->symbols[i].max;
    cpu_run run = {.kernels = dev->kernels,
                   .tensors = base->tensors,
                   .data = (void *const *)(void *)base->weights,
                   .symbols = most};
    cpu_program_regions(prog, &run, sizes);
    for (int r = 0; r < CPU_REGION_COUNT; r++)
        prog->scratch_size += sizes[r];
}

static clv_status compile(clv_plugin_device *dev, const clv_subgraph *graph,
                          const clv_compile *c, clv_plugin_program *prog)
{
    CLV_TRY(add_steps(dev, graph, c, prog));
    CLV_TRY(clv_program_init(&prog->base, dev->base.host, c));
    CLV_TRY(check_weights(&prog->base));
    measure_scratch(dev, prog);
    plan_sharing(dev, prog);
    return CLV_OK;
}

clv_status cpu_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile_info,
                               clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    uint64_t begin = clv_queue_now();
    clv_compile c;
    clv_subgraph graph;
    clv_read(&c, sizeof c, compile_info);
    CLV_TRY(clv_queue_usable(dev));
    if (!c.graph)
        return clv_fail(host, CLV_ERR_INVALID,
                        "cpu: nothing to compile: the graph is NULL");
    clv_read(&graph, sizeof graph, c.graph);
    CLV_TRY(clv_check_graph(host, &graph));
    clv_plugin_program *prog =
        clv_new(host, sizeof *prog + graph.n_nodes * sizeof *prog->steps +
                          graph.n_tensors * sizeof *prog->data);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->base.host = host;
    prog->n_steps = graph.n_nodes;
    prog->data = (char **)(void *)(prog->steps + prog->n_steps);
    clv_status status = compile(dev, &graph, &c, prog);
    if (status) {
        clv_program_destroy(prog);
        return status;
    }
    prog->compile_ns = clv_queue_now() - begin;
    *out = prog;
    return CLV_OK;
}

clv_status cpu_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info = {.scratch_size = prog->scratch_size,
                             .compile_ns = prog->compile_ns,
                             .n_kernels = prog->n_steps};
    info.memory_size = sizeof *prog + prog->n_steps * sizeof *prog->steps +
                       prog->base.n_tensors *
                           (sizeof *prog->data + sizeof *prog->base.tensors +
                            sizeof *prog->base.weights);
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}
