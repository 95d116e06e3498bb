#include "ref.h"

#include <inttypes.h>
#include <string.h>

void ref_program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    clv_plugin_device *dev = prog->dev;
    for (uint32_t i = 0; prog->hidden && i < prog->graph->n_tensors; i++)
        clv_free(dev->host, prog->hidden[i]);
    clv_free(dev->host, prog->hidden);
    clv_free(dev->host, prog->weights);
    clv_free(dev->host, prog->written);
    clv_free(dev->host, prog->graph);
    clv_free(dev->host, prog);
    atomic_fetch_sub(&dev->n_programs, 1);
}

clv_status ref_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info;
    memset(&info, 0, sizeof info);
    info.memory_size = prog->memory_size;
    info.compile_ns = prog->compile_ns;
    info.n_kernels = prog->graph->n_nodes;
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* The shape bucket must be one row count of the list. */
static bool length_fits(const ref_settings *s, const clv_subgraph *g,
                        const clv_node *node)
{
    const clv_tensor_desc *t =
        &g->tensors[node->inputs[ref_activation(node->op)]];
    int64_t n = t->rank == 1 && node->op != CLV_OP_GET_ROWS ? 1 : t->dims[0];
    if (t->symbols[0]) {
        const clv_symbol_range *range = &g->symbols[t->symbols[0] - 1];
        if (range->min != range->max)
            return !s->n_static;
        n = range->min;
    }
    for (uint32_t i = 0; i < s->n_static; i++)
        if (s->statics[i] == n)
            return true;
    return !s->n_static;
}

static clv_status check_nodes(const clv_plugin_program *prog,
                              const clv_compile *compile)
{
    const clv_plugin_device *dev = prog->dev;
    const clv_subgraph *g = prog->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        clv_op_caps caps;
        ref_answer(dev, g, i, &caps);
        if (caps.answer == CLV_ANSWER_NO)
            return clv_fail(dev->host, CLV_ERR_UNSUPPORTED,
                            REF_NAME ": node %" PRIu32 " is not taken: %s", i,
                            caps.reason);
        if (!length_fits(dev->settings, g, &g->nodes[i]))
            return clv_fail(dev->host, CLV_ERR_UNSUPPORTED,
                            REF_NAME
                            ": node %" PRIu32 " has a row count that "
                            "varies or is not among those of static%" PRIu32,
                            i, dev->index);
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(i + 1) / (float)g->n_nodes))
            return clv_fail(dev->host, CLV_ERR_CANCELLED,
                            REF_NAME ": the compilation was cancelled");
    }
    return CLV_OK;
}

static clv_status bind_weight(clv_plugin_program *prog, const clv_binding *b)
{
    const clv_plugin_device *dev = prog->dev;
    const clv_subgraph *g = prog->graph;
    if (b->tensor >= g->n_tensors ||
        g->tensors[b->tensor].usage != CLV_USAGE_WEIGHT)
        return clv_fail(dev->host, CLV_ERR_INVALID,
                        REF_NAME ": tensor %" PRIu32 " is bound as a weight "
                                 "but is none",
                        b->tensor);
    ref_view view;
    uint32_t align = clv_align(g->tensors[b->tensor].dtype);
    if (dev->settings->pointer_align > align)
        align = dev->settings->pointer_align;
    if (!b->buffer || !ref_buffer_has(b->buffer, b->offset, b->size) ||
        !ref_view_make(&g->tensors[b->tensor], NULL, &view) ||
        b->size < ref_view_extent(&view))
        return clv_fail(dev->host, CLV_ERR_INVALID,
                        REF_NAME ": weight tensor %" PRIu32 " does not lie "
                                 "inside its buffer",
                        b->tensor);
    if (((uintptr_t)b->buffer->data + b->offset) % align)
        return clv_fail(dev->host, CLV_ERR_INVALID,
                        REF_NAME ": weight tensor %" PRIu32 " does not begin "
                                 "at a multiple of %" PRIu32 " bytes",
                        b->tensor, align);
    if (prog->weights[b->tensor])
        return clv_fail(dev->host, CLV_ERR_INVALID,
                        REF_NAME ": weight tensor %" PRIu32 " is bound twice",
                        b->tensor);
    prog->weights[b->tensor] = b->buffer->data + b->offset;
    return CLV_OK;
}

static clv_status bind_weights(clv_plugin_program *prog,
                               const clv_compile *compile)
{
    const clv_subgraph *g = prog->graph;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < compile->n_weights && !status; i++)
        status = bind_weight(prog, &compile->weights[i]);
    for (uint32_t i = 0; i < g->n_tensors && !status; i++)
        if (g->tensors[i].usage == CLV_USAGE_WEIGHT && !prog->weights[i])
            status = clv_fail(
                prog->dev->host, CLV_ERR_INVALID,
                REF_NAME ": weight tensor %" PRIu32 " is not bound", i);
    return status;
}

/* As if the weights were brought into another layout. */
static void count_repacked(clv_plugin_program *prog, const clv_compile *compile)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < compile->n_weights; i++)
        size += compile->weights[i].size;
    if (compile->flags & CLV_COMPILE_SCARCE && compile->repack_size < size)
        size = compile->repack_size;
    if (prog->dev->settings->repacks)
        prog->memory_size += size;
}

/* Own memory of the transients, and which tensors a run writes. */
static clv_status place_tensors(clv_plugin_program *prog)
{
    const clv_subgraph *g = prog->graph;
    const clv_host_api *host = prog->dev->host;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        ref_view view;
        if (!prog->dev->settings->hide ||
            g->tensors[i].usage != CLV_USAGE_TRANSIENT ||
            !ref_view_make(&g->tensors[i], NULL, &view))
            continue;
        prog->hidden[i] = clv_new(host, ref_view_extent(&view));
        if (!prog->hidden[i])
            return CLV_ERR_NO_MEMORY;
        prog->memory_size += ref_view_extent(&view);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        if (node->n_outputs)
            prog->written[node->outputs[0]] = true;
        else
            prog->written[node->inputs[0]] = true;
    }
    return CLV_OK;
}

static clv_status fill(clv_plugin_program *prog, const clv_compile *compile)
{
    const clv_host_api *host = prog->dev->host;
    CLV_TRY(clv_graph_copy(host, compile->graph, &prog->graph));
    uint32_t n = prog->graph->n_tensors;
    prog->weights = clv_new(host, n * sizeof *prog->weights);
    prog->hidden = clv_new(host, n * sizeof *prog->hidden);
    prog->written = clv_new(host, n * sizeof *prog->written);
    if (!prog->weights || !prog->hidden || !prog->written)
        return CLV_ERR_NO_MEMORY;
    prog->memory_size = sizeof *prog + n * sizeof *prog->graph->tensors +
                        prog->graph->n_nodes * sizeof *prog->graph->nodes;
    clv_status status = check_nodes(prog, compile);
    if (!status)
        status = bind_weights(prog, compile);
    if (!status)
        status = place_tensors(prog);
    count_repacked(prog, compile);
    return status;
}

clv_status ref_program_compile(clv_plugin_device *dev, const clv_compile *from,
                               clv_plugin_program **out)
{
    const clv_host_api *host = dev->host;
    uint64_t begin = host->now_ns(host->host);
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    clv_status status = ref_check_device(dev);
    if (!status)
        status = clv_check_chain(host, &compile);
    if (status)
        return status;
    const uint32_t known = dev->settings->repacks ? CLV_COMPILE_SCARCE : 0;
    if (!compile.graph || compile.flags & ~known ||
        (compile.n_weights && !compile.weights))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a compilation without graph or weights, "
                                 "or with flags that are not known");
    clv_plugin_program *prog = clv_new(host, sizeof *prog);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->dev = dev;
    prog->maker = ref_hash_maker(dev, compile.options);
    uint32_t resident = atomic_fetch_add(&dev->n_programs, 1);
    if (dev->settings->max_programs && resident >= dev->settings->max_programs)
        status = clv_fail(host, CLV_ERR_LIMIT,
                          REF_NAME ": %" PRIu32 " programs are resident, the "
                                   "limit; destroy one",
                          resident);
    if (!status)
        status = fill(prog, &compile);
    if (status) {
        ref_program_destroy(prog);
        return status;
    }
    prog->compile_ns = host->now_ns(host->host) - begin;
    *out = prog;
    return CLV_OK;
}
