/* Bindings of tensors, checked against what was compiled. */
#include "program.h"

static clv_status refuse_binding(const clv_plugin_program *prog,
                                 const clv_binding *b, uint64_t need)
{
    return clv_fail(prog->dev->base.host, CLV_ERR_INVALID,
                    "vulkan:%s: tensor %u takes %llu bytes; its binding has "
                    "%llu at %llu of a buffer of %llu, not at its elements' "
                    "alignment, or memory that it may not write",
                    prog->dev->phys->id, (unsigned)b->tensor,
                    (unsigned long long)need, (unsigned long long)b->size,
                    (unsigned long long)b->offset,
                    (unsigned long long)(b->buffer ? b->buffer->size : 0));
}

static vk_place find_place(const clv_binding *b)
{
    const clv_plugin_buffer *buf = b->buffer;
    return (vk_place){.buffer = buf->block->buffer,
                      .begin = buf->offset + b->offset,
                      .end = buf->offset + b->offset + b->size,
                      .limit = buf->block->size};
}

/* places: [n_tensors], buffer NULL where unbound. */
static clv_status bind_one(const clv_plugin_program *prog, const clv_binding *b,
                           const int64_t *symbols, bool weights,
                           vk_place *places)
{
    const clv_tensor_desc *t =
        b->tensor < prog->n_tensors ? &prog->tensors[b->tensor] : NULL;
    if (!t || places[b->tensor].buffer ||
        (t->usage == CLV_USAGE_WEIGHT) != weights)
        return clv_fail(
            prog->dev->base.host, CLV_ERR_INVALID,
            "vulkan:%s: tensor %u of %u is bound twice, unknown, or "
            "%s weight",
            prog->dev->phys->id, (unsigned)b->tensor, (unsigned)prog->n_tensors,
            weights ? "no" : "a");
    uint32_t access =
        t->usage == CLV_USAGE_WEIGHT || t->usage == CLV_USAGE_INPUT
            ? CLV_ACCESS_READ
            : CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    uint64_t need = clv_tensor_size(t, symbols);
    if (!vk_buffer_has(b->buffer, b->offset, b->size, access) ||
        b->size < need || b->offset % clv_align(t->dtype))
        return refuse_binding(prog, b, need);
    if (b->buffer->dev != prog->dev)
        return clv_fail(prog->dev->base.host, CLV_ERR_INVALID,
                        "vulkan:%s: tensor %u is bound to another device's "
                        "memory",
                        prog->dev->phys->id, (unsigned)b->tensor);
    places[b->tensor] = find_place(b);
    return CLV_OK;
}

/* Binds them all; every tensor of that kind must get its memory. */
static clv_status bind_all(const clv_plugin_program *prog,
                           const clv_binding *bindings, uint32_t n,
                           const int64_t *symbols, bool weights,
                           vk_place *places)
{
    const clv_host_api *host = prog->dev->base.host;
    clv_status status = CLV_OK;
    if (n && !bindings)
        return clv_fail(host, CLV_ERR_INVALID,
                        "%u bindings in an array that is NULL", (unsigned)n);
    for (uint32_t i = 0; i < n && !status; i++)
        status = bind_one(prog, &bindings[i], symbols, weights, places);
    for (uint32_t t = 0; t < prog->n_tensors && !status; t++)
        if (!places[t].buffer &&
            (prog->tensors[t].usage == CLV_USAGE_WEIGHT) == weights)
            status = clv_fail(host, CLV_ERR_INVALID, "tensor %u is not bound",
                              (unsigned)t);
    return status;
}

static clv_status copy_tensors(clv_plugin_program *prog,
                               const clv_subgraph *graph)
{
    const clv_host_api *host = prog->dev->base.host;
    uint64_t n = graph->n_tensors;
    prog->tensors = clv_new(host, n * sizeof *prog->tensors);
    prog->weights = clv_new(host, n * sizeof *prog->weights);
    prog->places = clv_new(host, n * sizeof *prog->places);
    if (!prog->tensors || !prog->weights || !prog->places)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        const clv_tensor_desc *t = clv_graph_tensor(graph, i);
        int64_t elements, bytes;
        if (!t || !clv_block(t->dtype, &elements, &bytes))
            return clv_fail(host, CLV_ERR_UNSUPPORTED,
                            "tensor %u is malformed, or of an unknown type",
                            (unsigned)i);
        clv_read(&prog->tensors[i], sizeof *t, t);
        prog->n_tensors++;
    }
    return CLV_OK;
}

clv_status vk_program_bind(clv_plugin_program *prog, const clv_compile *compile)
{
    const clv_host_api *host = prog->dev->base.host;
    const clv_subgraph *graph = compile->graph;
    if (!graph)
        return clv_fail(host, CLV_ERR_INVALID, "there is no graph to compile");
    if (!clv_chain_known(compile) || !clv_chain_known(graph))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "the program needs an extension that is not known "
                        "here; use a newer plugin");
    if (graph->n_symbols > CLV_MAX_SYMBOLS || !graph->n_tensors)
        return clv_fail(host, CLV_ERR_INVALID,
                        "a graph of %u tensors and %u symbols; there can be %d "
                        "symbols",
                        (unsigned)graph->n_tensors, (unsigned)graph->n_symbols,
                        CLV_MAX_SYMBOLS);
    for (uint32_t i = 0; i < graph->n_symbols; i++)
        prog->symbols[i] = graph->symbols[i];
    prog->n_symbols = graph->n_symbols;
    clv_status status = copy_tensors(prog, graph);
    return status ? status
                  : bind_all(prog, compile->weights, compile->n_weights, NULL,
                             true, prog->weights);
}

clv_status vk_program_check(const clv_command *command)
{
    const clv_plugin_program *prog = command->program;
    const clv_host_api *host = prog->dev->base.host;
    if (command->n_symbols != prog->n_symbols ||
        (prog->n_symbols && !command->symbols))
        return clv_fail(host, CLV_ERR_INVALID, "%u values for %u symbols",
                        (unsigned)command->n_symbols,
                        (unsigned)prog->n_symbols);
    for (uint32_t i = 0; i < prog->n_symbols; i++)
        if (command->symbols[i] < prog->symbols[i].min ||
            command->symbols[i] > prog->symbols[i].max)
            return clv_fail(host, CLV_ERR_INVALID,
                            "symbol %u is %lld, compiled for %lld to %lld",
                            (unsigned)i, (long long)command->symbols[i],
                            (long long)prog->symbols[i].min,
                            (long long)prog->symbols[i].max);
    vk_place *places = clv_new(host, prog->n_tensors * sizeof *places);
    if (!places)
        return CLV_ERR_NO_MEMORY;
    clv_status status = bind_all(prog, command->bindings, command->n_bindings,
                                 command->symbols, false, places);
    clv_free(host, places);
    return status;
}

void vk_program_places(const clv_command *command, vk_place *places)
{
    const clv_plugin_program *prog = command->program;
    memcpy(places, prog->weights, prog->n_tensors * sizeof *places);
    for (uint32_t i = 0; i < command->n_bindings; i++)
        places[command->bindings[i].tensor] = find_place(&command->bindings[i]);
}
