/*
 * Work for the mock device: a graph of one product, y [n, 8] = x [n, 4] *
 * transpose(w [8, 4]) with n of 1 to 16, its program, and buffers.
 */
#pragma once

#include "mock_device.h"

#include "../../core/device/submit.h"

typedef struct graph {
    clv_tensor_desc tensors[3]; /* x, w, y */
    clv_node node;
    clv_symbol_range symbol;
    clv_subgraph sub;
} graph;

static inline clv_tensor_desc desc(uint32_t usage, int64_t rows, int64_t cols,
                                   uint32_t symbol)
{
    clv_tensor_desc d = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    d.dtype = CLV_DTYPE_F32;
    d.usage = usage;
    d.rank = 2;
    d.dims[0] = rows;
    d.dims[1] = cols;
    d.symbols[0] = symbol;
    return d;
}

static inline void make_graph(graph *g)
{
    g->tensors[0] = desc(CLV_USAGE_INPUT, 16, 4, 1);
    g->tensors[1] = desc(CLV_USAGE_WEIGHT, 8, 4, 0);
    g->tensors[2] = desc(CLV_USAGE_OUTPUT, 16, 8, 1);
    g->node = (clv_node)CLV_INIT(clv_node, CLV_STRUCT_NODE);
    g->node.op = CLV_OP_MATMUL;
    g->node.revision = 1;
    g->node.n_inputs = 3;
    g->node.n_outputs = 1;
    g->node.inputs[1] = 1;
    g->node.inputs[2] = CLV_NO_TENSOR;
    g->node.outputs[0] = 2;
    g->symbol = (clv_symbol_range){1, 16};
    g->sub = (clv_subgraph)CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    g->sub.tensors = g->tensors;
    g->sub.nodes = &g->node;
    g->sub.symbols = &g->symbol;
    g->sub.n_tensors = 3;
    g->sub.tensor_stride = sizeof g->tensors[0];
    g->sub.n_nodes = 1;
    g->sub.node_stride = sizeof g->node;
    g->sub.n_symbols = 1;
}

typedef struct work {
    graph g;
    core_buffer *x, *w, *y;
    core_binding weight, bound[2];
    core_compile compile;
    core_program *prog;
    int64_t rows;
    core_command run;
} work;

static inline void work_init(work *k)
{
    memset(k, 0, sizeof *k);
    make_graph(&k->g);
    assert_ok(core_buffer_alloc(dev, 1, 16 * 4 * 4, &k->x));
    assert_ok(core_buffer_alloc(dev, 1, 8 * 4 * 4, &k->w));
    assert_ok(core_buffer_alloc(dev, 1, 16 * 8 * 4, &k->y));
    k->weight = (core_binding){1, k->w, 0, 8 * 4 * 4};
    k->compile = (core_compile){
        .graph = &k->g.sub, .weights = &k->weight, .n_weights = 1};
    assert_ok(core_program_compile(dev, &k->compile, &k->prog));
    k->bound[0] = (core_binding){0, k->x, 0, 16 * 4 * 4};
    k->bound[1] = (core_binding){2, k->y, 0, 16 * 8 * 4};
    k->rows = 16;
    k->run = (core_command){.kind = CLV_COMMAND_RUN,
                            .program = k->prog,
                            .bindings = k->bound,
                            .n_bindings = 2,
                            .symbols = &k->rows};
}

static inline void work_finish(work *k)
{
    core_program_destroy(k->prog);
    core_buffer_free(k->x);
    core_buffer_free(k->w);
    core_buffer_free(k->y);
}
