#include "program.h"
#include "loss.h"
#include "subgraph.h"
#include "answer.h"
#include "../base/unreleased.h"

#include <stdlib.h>
#include <string.h>

static uint32_t count_weights(const clv_subgraph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        n += core_subgraph_tensor(g, i)->usage == CLV_USAGE_WEIGHT;
    return n;
}

static clv_status check_weight(clv_device *dev, const clv_subgraph *g,
                               const core_binding *b)
{
    if (b->tensor >= g->n_tensors ||
        core_subgraph_tensor(g, b->tensor)->usage != CLV_USAGE_WEIGHT)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "tensor %u is bound as a weight but is none",
                                 b->tensor);
    if (!b->buffer || b->buffer->dev != dev || b->offset > b->buffer->size ||
        b->size > b->buffer->size - b->offset)
        return core_device_error(
            dev, CLV_ERR_INVALID,
            "weight tensor %u is not inside a buffer of the device", b->tensor);
    uint64_t need;
    clv_status st =
        core_desc_size(core_subgraph_tensor(g, b->tensor), NULL, &need);
    if (st == CLV_OK && b->size < need)
        st = core_device_error(
            dev, CLV_ERR_INVALID,
            "weight tensor %u needs %llu bytes, its binding has %llu",
            b->tensor, (unsigned long long)need, (unsigned long long)b->size);
    return st;
}

/* Whether a tensor's shape depends on it: a part of a graph has all of the
 * graph's symbols. */
static bool uses_symbol(const clv_subgraph *g, uint32_t symbol)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const clv_tensor_desc *t = core_subgraph_tensor(g, i);
        for (uint32_t d = 0; d < t->rank && d < CLV_MAX_RANK; d++)
            if (t->symbols[d] == symbol + 1)
                return true;
    }
    return false;
}

/* Weights must be in the order of their tensors, so that each is there once. */
static clv_status check_compile(clv_device *dev, const core_compile *compile)
{
    const clv_subgraph *g = compile->graph;
    CLV_TRY(core_device_usable(dev));
    clv_status st = core_subgraph_check(g);
    if (st != CLV_OK)
        return clv_error_prefix(st, "device '%s'", dev->id);
    uint32_t n = count_weights(g);
    if (n != compile->n_weights)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "%u weights are bound, the graph has %u",
                                 compile->n_weights, n);
    if (dev->info.flags & CLV_DEVICE_STATIC_SHAPES)
        for (uint32_t i = 0; i < g->n_symbols; i++)
            if (g->symbols[i].min != g->symbols[i].max && uses_symbol(g, i))
                return core_device_error(
                    dev, CLV_ERR_UNSUPPORTED,
                    "it compiles static shapes only, symbol %u ranges over "
                    "%lld..%lld; compile a bucket",
                    i, (long long)g->symbols[i].min,
                    (long long)g->symbols[i].max);
    for (uint32_t i = 0; i < n; i++) {
        const core_binding *weight = &compile->weights[i];
        CLV_TRY(check_weight(dev, g, weight));
        if (i && weight->tensor <= weight[-1].tensor)
            return core_device_error(
                dev, CLV_ERR_INVALID,
                "weights are not bound in the order of their tensors");
    }
    return CLV_OK;
}

/* Checks compile and makes the plugin's form of it. *bindings is to be freed,
 * unless this fails. */
static clv_status translate(clv_device *dev, const core_compile *compile,
                            clv_compile *out, clv_binding **bindings)
{
    const uint32_t n = compile->n_weights;
    CLV_TRY(check_compile(dev, compile));
    clv_binding *b = calloc(n ? n : 1, sizeof *b);
    if (!b)
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory to bind %u weights", n);
    for (uint32_t i = 0; i < n; i++)
        b[i] = (clv_binding){.tensor = compile->weights[i].tensor,
                             .buffer = compile->weights[i].buffer->handle,
                             .offset = compile->weights[i].offset,
                             .size = compile->weights[i].size};
    *out = (clv_compile)CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    out->graph = compile->graph;
    out->weights = b;
    out->n_weights = n;
    out->flags = compile->flags;
    out->repack_size = compile->repack_size;
    out->options = compile->options;
    out->progress = compile->progress;
    out->progress_ctx = compile->progress_ctx;
    *bindings = b;
    return CLV_OK;
}

/* A program without its handle: what submits are checked against. */
static core_program *new_program(clv_device *dev, const clv_subgraph *g)
{
    core_program *prog = calloc(1, sizeof *prog);
    if (!prog)
        return NULL;
    prog->dev = dev;
    prog->n_tensors = g->n_tensors;
    prog->n_symbols = g->n_symbols;
    prog->tensors = calloc(g->n_tensors + 1u, sizeof *prog->tensors);
    prog->symbols = calloc(g->n_symbols + 1u, sizeof *prog->symbols);
    prog->binds = calloc(g->n_tensors + 1u, sizeof *prog->binds);
    if (!prog->tensors || !prog->symbols || !prog->binds) {
        core_program_destroy(prog);
        return NULL;
    }
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        prog->tensors[i] = *core_subgraph_tensor(g, i);
        prog->binds[i] = prog->tensors[i].usage != CLV_USAGE_WEIGHT;
        prog->n_bound += prog->binds[i];
    }
    if (g->n_symbols)
        memcpy(prog->symbols, g->symbols, g->n_symbols * sizeof *g->symbols);
    return prog;
}

/* Runs do without transients that the program does not touch. */
static clv_status leave_out_untouched(core_program *prog,
                                      const clv_program_info *info)
{
    if (info->n_untouched && !info->untouched)
        return core_device_broken(prog->dev, "program_info",
                                  "%u untouched tensors in an array that is "
                                  "NULL",
                                  info->n_untouched);
    for (uint32_t i = 0; i < info->n_untouched; i++) {
        const uint32_t t = info->untouched[i];
        if (t >= prog->n_tensors ||
            prog->tensors[t].usage != CLV_USAGE_TRANSIENT ||
            (i && t <= info->untouched[i - 1]))
            return core_device_broken(prog->dev, "program_info",
                                      "tensor %u as untouched, which is no "
                                      "transient or out of order",
                                      t);
        prog->binds[t] = 0;
        prog->n_bound--;
    }
    return CLV_OK;
}

static clv_status read_info(core_program *prog)
{
    clv_program_info info = CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    clv_header header = info.header;
    clv_status st = CORE_CALL(prog->dev, program_info, prog->handle, &info);
    if (st == CLV_OK && !core_chain_ok(&info.header))
        st = core_device_extended(prog->dev, "program_info");
    if (st == CLV_OK)
        st = leave_out_untouched(prog, &info);
    info.header = header;
    prog->info = info;
    return st;
}

/* Compiles, or loads where there is a blob. */
static clv_status make(clv_device *dev, const core_compile *compile,
                       const clv_blob *blob, core_program **out)
{
    clv_compile c;
    clv_binding *bindings;
    CLV_TRY(translate(dev, compile, &c, &bindings));
    core_program *prog = new_program(dev, compile->graph);
    clv_status st;
    if (!prog)
        st = core_device_error(dev, CLV_ERR_NO_MEMORY,
                               "no memory for a program of %u nodes",
                               compile->graph->n_nodes);
    else if (blob)
        st = CORE_CALL(dev, program_load, dev->handle, &c, blob, &prog->handle);
    else
        st = CORE_CALL(dev, program_compile, dev->handle, &c, &prog->handle);
    if (st == CLV_OK && !prog->handle)
        st = core_device_broken(dev, blob ? "program_load" : "program_compile",
                                "no program");
    if (st == CLV_OK)
        st = read_info(prog);
    if (st == CLV_OK)
        *out = prog;
    else
        core_program_destroy(prog);
    free(bindings);
    return st;
}

clv_status core_program_compile(clv_device *dev, const core_compile *compile,
                                core_program **out)
{
    return make(dev, compile, NULL, out);
}

void core_program_destroy(core_program *prog)
{
    if (!prog)
        return;
    if (core_device_abandoned(prog->dev)) {
        core_unreleased_add(prog);
        return;
    }
    if (prog->handle)
        CORE_CALL_VOID(prog->dev, program_destroy, prog->handle);
    free(prog->tensors);
    free(prog->symbols);
    free(prog->binds);
    free(prog);
}

bool core_device_serialises(const clv_device *dev)
{
    return dev->api->program_serialize && dev->api->program_validate &&
           dev->api->program_load && dev->api->program_key;
}

clv_status core_program_serialize(
    core_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx)
{
    CLV_TRY(core_device_usable(prog->dev));
    return CORE_CALL(prog->dev, program_serialize, prog->handle, write, ctx);
}

clv_status core_program_load(clv_device *dev, const core_compile *compile,
                             const clv_blob *blob, core_program **out)
{
    clv_compile c;
    clv_binding *bindings;
    uint32_t verdict = CLV_VERDICT_FOREIGN;
    *out = NULL;
    CLV_TRY(translate(dev, compile, &c, &bindings));
    clv_status st =
        CORE_CALL(dev, program_validate, dev->handle, &c, blob, &verdict);
    free(bindings);
    if (st == CLV_OK && verdict > CLV_VERDICT_FOREIGN)
        st = core_device_broken(dev, "program_validate",
                                "the unknown verdict %u", verdict);
    return st == CLV_OK && verdict == CLV_VERDICT_GOOD
               ? make(dev, compile, blob, out)
               : st;
}

clv_status core_program_key(clv_device *dev, const core_compile *compile,
                            uint8_t key[32])
{
    clv_compile c;
    clv_binding *bindings;
    CLV_TRY(translate(dev, compile, &c, &bindings));
    clv_status st = CORE_CALL(dev, program_key, dev->handle, &c, key);
    free(bindings);
    return st;
}
