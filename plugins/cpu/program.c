#include "program.h"
#include "caps.h"
#include "device.h"
#include "host.h"
#include "machine.h"
#include "memory.h"

#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

clv_status cpu_bind(const clv_host_api *host, const clv_binding *binding,
                    uint64_t size, uint64_t align, bool write, void **out)
{
    const clv_plugin_buffer *buf = binding->buffer;
    if (!buf || !cpu_buffer_has(buf, binding->offset, binding->size) ||
        binding->size < size)
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: tensor %u takes %" PRIu64 " bytes, its binding "
                         "has %" PRIu64 " at %" PRIu64 " of a buffer of "
                         "%" PRIu64,
                         (unsigned)binding->tensor, size, binding->size,
                         binding->offset, buf ? buf->size : 0);
    if (write && !(buf->access & CLV_ACCESS_WRITE))
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: tensor %u is written, its memory was imported "
                         "read-only; import it with write access",
                         (unsigned)binding->tensor);
    char *data = buf->data + binding->offset;
    if ((uintptr_t)data % align)
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: tensor %u lies at %p, not at a multiple of its "
                         "element alignment %" PRIu64,
                         (unsigned)binding->tensor, (void *)data, align);
    *out = data;
    return CLV_OK;
}

static void *array(clv_plugin_program *prog, uint32_t n, size_t size)
{
    uint64_t bytes = (uint64_t)(n ? n : 1) * size;
    prog->memory_size += bytes;
    return cpu_alloc(prog->host, bytes, 16);
}

static clv_status program_new(const clv_host_api *host,
                              const clv_subgraph *graph,
                              clv_plugin_program **out)
{
    clv_plugin_program *prog =
        cpu_alloc(host, sizeof *prog, alignof(clv_plugin_program));
    if (!prog)
        return cpu_no_memory(host, "a program", sizeof *prog);
    prog->host = host;
    prog->memory_size = sizeof *prog;
    prog->n_tensors = graph->n_tensors;
    prog->n_symbols = graph->n_symbols;
    prog->n_steps = graph->n_nodes;
    prog->tensors = array(prog, prog->n_tensors, sizeof *prog->tensors);
    prog->weights = array(prog, prog->n_tensors, sizeof *prog->weights);
    prog->written = array(prog, prog->n_tensors, sizeof *prog->written);
    prog->symbols = array(prog, prog->n_symbols, sizeof *prog->symbols);
    prog->steps = array(prog, prog->n_steps, sizeof *prog->steps);
    if (!prog->tensors || !prog->weights || !prog->written || !prog->symbols ||
        !prog->steps) {
        clv_status status = cpu_no_memory(host, "a program", prog->memory_size);
        cpu_program_destroy(prog);
        return status;
    }
    if (prog->n_symbols)
        memcpy(prog->symbols, graph->symbols,
               prog->n_symbols * sizeof *prog->symbols);
    *out = prog;
    return CLV_OK;
}

void cpu_program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    const clv_host_api *host = prog->host;
    cpu_free(host, prog->steps);
    cpu_free(host, prog->symbols);
    cpu_free(host, prog->written);
    cpu_free(host, prog->weights);
    cpu_free(host, prog->tensors);
    cpu_free(host, prog);
}

/* Takes a node that was judged good into the program. */
static void add_step(clv_plugin_program *prog, uint32_t index,
                     const cpu_check *check)
{
    cpu_step *step = &prog->steps[index];
    step->op = check->op;
    step->attr = check->node.attr;
    step->node = index;
    for (uint32_t i = 0; i < CLV_MAX_INPUTS; i++) {
        step->in[i] = check->has[i] ? check->node.inputs[i] : CLV_NO_TENSOR;
        if (check->has[i])
            prog->tensors[step->in[i]] = check->in[i];
        if (check->has[i] && check->in[i].quant)
            prog->tensors[check->in[i].scales] = check->scales[i];
    }
    for (uint32_t i = 0; i < check->op->outputs; i++) {
        step->out[i] = check->node.outputs[i];
        prog->tensors[step->out[i]] = check->out[i];
        prog->written[step->out[i]] = true;
    }
    if (check->node.op == CLV_OP_SET_ROWS)
        prog->written[step->in[0]] = true;
}

static bool writes(const cpu_step *step, uint32_t tensor)
{
    if (tensor == CLV_NO_TENSOR)
        return false;
    for (uint32_t i = 0; i < step->op->outputs; i++)
        if (step->out[i] == tensor)
            return true;
    return !step->op->outputs && step->in[0] == tensor;
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
            step->op->share(dev->kernels, prog->tensors, step, &wants);
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
            step->op->share(run->kernels, prog->tensors, step, &wants);
        if (wants.region == CPU_REGION_COUNT)
            continue;
        uint64_t size = step->op->share_size(run, step);
        if (size > sizes[wants.region])
            sizes[wants.region] = size;
    }
}

static clv_status bind_weights(clv_plugin_program *prog,
                               const clv_compile *compile)
{
    for (uint32_t i = 0; i < compile->n_weights; i++) {
        const clv_binding *binding = &compile->weights[i];
        if (binding->tensor >= prog->n_tensors)
            return cpu_error(prog->host, CLV_ERR_INVALID,
                             "cpu: a weight is bound to tensor %u of %u",
                             (unsigned)binding->tensor,
                             (unsigned)prog->n_tensors);
        const cpu_tensor *t = &prog->tensors[binding->tensor];
        if (!t->rank || t->usage != CLV_USAGE_WEIGHT)
            continue;
        if (prog->weights[binding->tensor])
            return cpu_error(prog->host, CLV_ERR_INVALID,
                             "cpu: weight tensor %u is bound twice",
                             (unsigned)binding->tensor);
        cpu_shape shape;
        cpu_tensor_shape(t, NULL, &shape);
        clv_status status = cpu_bind(
            prog->host, binding, cpu_shape_extent(&shape),
            cpu_dtype_align(t->dtype), false, &prog->weights[binding->tensor]);
        if (status)
            return status;
    }
    for (uint32_t i = 0; i < prog->n_tensors; i++)
        if (prog->tensors[i].rank &&
            prog->tensors[i].usage == CLV_USAGE_WEIGHT && !prog->weights[i])
            return cpu_error(prog->host, CLV_ERR_INVALID,
                             "cpu: weight tensor %u is not bound", (unsigned)i);
    return CLV_OK;
}

/* A weight's form must not wait for a run. */
static clv_status check_weights(const clv_plugin_program *prog)
{
    for (uint32_t i = 0; i < prog->n_tensors; i++) {
        const cpu_tensor *t = &prog->tensors[i];
        for (uint32_t d = 0; d < t->rank; d++)
            if (t->usage == CLV_USAGE_WEIGHT && t->symbols[d])
                return cpu_error(prog->host, CLV_ERR_INVALID,
                                 "cpu: weight tensor %u has a symbolic "
                                 "dimension",
                                 (unsigned)i);
    }
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
            return cpu_error(dev->host, CLV_ERR_UNSUPPORTED, "cpu: node %u: %s",
                             (unsigned)i, check.caps.reason);
        add_step(prog, i, &check);
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(i + 1) / (float)graph->n_nodes))
            return cpu_error(dev->host, CLV_ERR_CANCELLED,
                             "cpu: compiling was cancelled at node %u of %u",
                             (unsigned)i, (unsigned)graph->n_nodes);
    }
    return CLV_OK;
}

/* Shared memory at the upper ends of the symbols' ranges. */
static clv_status measure_scratch(const clv_plugin_device *dev,
                                  clv_plugin_program *prog)
{
    uint64_t size =
        (uint64_t)(prog->n_symbols ? prog->n_symbols : 1) * sizeof(int64_t);
    int64_t *most = cpu_alloc(prog->host, size, alignof(int64_t));
    if (!most)
        return cpu_no_memory(prog->host, "symbol values", size);
    for (uint32_t i = 0; i < prog->n_symbols; i++)
        most[i] = prog->symbols[i].max;
    cpu_run run = {.kernels = dev->kernels,
                   .tensors = prog->tensors,
                   .data = prog->weights,
                   .symbols = most};
    uint64_t sizes[CPU_REGION_COUNT];
    cpu_program_regions(prog, &run, sizes);
    for (int r = 0; r < CPU_REGION_COUNT; r++)
        prog->scratch_size += sizes[r];
    cpu_free(prog->host, most);
    return CLV_OK;
}

clv_status cpu_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out)
{
    const clv_host_api *host = dev->host;
    uint64_t begin = cpu_now();
    clv_compile c;
    clv_subgraph graph;
    clv_plugin_program *prog = NULL;
    cpu_read(&c, sizeof c, compile);
    clv_status status = cpu_device_usable(dev);
    if (!status)
        status = cpu_check_chain(host, &c.header);
    if (!status && (!c.graph || (c.n_weights && !c.weights)))
        status = cpu_error(host, CLV_ERR_INVALID,
                           "cpu: nothing to compile: the graph or its weights "
                           "are NULL");
    if (!status)
        status = cpu_graph_read(host, c.graph, &graph);
    if (!status)
        status = program_new(host, &graph, &prog);
    if (!status)
        status = add_steps(dev, &graph, &c, prog);
    if (!status)
        status = check_weights(prog);
    if (!status)
        status = bind_weights(prog, &c);
    if (!status)
        status = measure_scratch(dev, prog);
    if (status) {
        cpu_program_destroy(prog);
        return status;
    }
    plan_sharing(dev, prog);
    prog->compile_ns = cpu_now() - begin;
    *out = prog;
    return CLV_OK;
}

clv_status cpu_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info;
    memset(&info, 0, sizeof info);
    info.memory_size = prog->memory_size;
    info.scratch_size = prog->scratch_size;
    info.compile_ns = prog->compile_ns;
    info.n_kernels = prog->n_steps;
    cpu_write(out, &info, sizeof info);
    return CLV_OK;
}
