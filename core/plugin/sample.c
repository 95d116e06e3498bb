#include "sample.h"
#include "../base/error.h"
#include "../device/caps.h"
#include "../device/memory.h"
#include "../device/subgraph.h"
#include "../device/submit.h"

#include <cleave/plugin_op.h>

#include <string.h>

#define MAX_ROWS 512 /* of the symbol */
#define FEW_ROWS 4   /* of a run */
#define MAX_TENSORS (CLV_OP_OPERANDS + 1)

/* Dimensions: N the symbol, others their value. */
#define N (-1)
#define C 64 /* channels, 2 heads of 32 */
#define R 64 /* rows of tables and states */

typedef enum kind { NONE, ROWS, IDS, STATE, WEIGHT, HALF, Q8_0, Q4_0 } kind;

static const struct {
    uint32_t dtype, usage;
} kinds[] = {
    [ROWS] = {CLV_DTYPE_F32, CLV_USAGE_INPUT},
    [IDS] = {CLV_DTYPE_I32, CLV_USAGE_INPUT},
    [STATE] = {CLV_DTYPE_F16, CLV_USAGE_STATE},
    [WEIGHT] = {CLV_DTYPE_F32, CLV_USAGE_WEIGHT},
    [HALF] = {CLV_DTYPE_F16, CLV_USAGE_WEIGHT},
    [Q8_0] = {CLV_DTYPE_Q8_0, CLV_USAGE_WEIGHT},
    [Q4_0] = {CLV_DTYPE_Q4_0, CLV_USAGE_WEIGHT},
};

/* Its kind, then its dimensions; 0: the rank ends. */
typedef int operand[4];

typedef struct sample {
    uint32_t op;
    operand inputs[CLV_OP_OPERANDS];
    clv_op_attr attr;
    clv_tensor_desc like; /* what the op leaves open of its output */
} sample;

static const sample samples[] = {
    {.op = CLV_OP_MATMUL, .inputs = {{ROWS, N, C}, {WEIGHT, C, C}}},
    {.op = CLV_OP_MATMUL, .inputs = {{ROWS, N, C}, {HALF, C, C}}},
    {.op = CLV_OP_MATMUL, .inputs = {{ROWS, N, C}, {Q8_0, C, C}}},
    {.op = CLV_OP_MATMUL, .inputs = {{ROWS, N, C}, {Q4_0, C, C}}},
    {.op = CLV_OP_ADD, .inputs = {{ROWS, N, C}, {ROWS, N, C}}},
    {.op = CLV_OP_MUL, .inputs = {{ROWS, N, C}, {ROWS, N, C}}},
    {.op = CLV_OP_SILU, .inputs = {{ROWS, N, C}}},
    {.op = CLV_OP_GELU, .inputs = {{ROWS, N, C}}},
    {.op = CLV_OP_GLU, .inputs = {{ROWS, N, C}, {ROWS, N, C}}},
    {.op = CLV_OP_RMS_NORM,
     .inputs = {{ROWS, N, C}, {WEIGHT, C}},
     .attr.norm.eps = 1e-5f},
    {.op = CLV_OP_LAYER_NORM,
     .inputs = {{ROWS, N, C}, {WEIGHT, C}},
     .attr.norm.eps = 1e-5f},
    {.op = CLV_OP_ROPE,
     .inputs = {{ROWS, N, C}, {IDS, N}, {WEIGHT, C / 4}},
     .attr.rope.head_dim = C / 2},
    {.op = CLV_OP_SOFTMAX, .inputs = {{ROWS, N, C}}},
    {.op = CLV_OP_ATTENTION,
     .inputs = {{ROWS, N, C}, {STATE, R, C}, {STATE, R, C}, {IDS, N}},
     .attr.attention = {.head_dim = C / 2, .scale = 1}},
    {.op = CLV_OP_GET_ROWS, .inputs = {{HALF, R, C}, {IDS, N}}},
    {.op = CLV_OP_SET_ROWS, .inputs = {{STATE, R, C}, {ROWS, N, C}, {IDS, N}}},
    {.op = CLV_OP_CONVERT,
     .inputs = {{ROWS, N, C}},
     .like.dtype = CLV_DTYPE_F16},
    {.op = CLV_OP_TOP_K, .inputs = {{ROWS, N, 8}}, .like.dims = {0, 2}},
    {.op = CLV_OP_SIGMOID, .inputs = {{ROWS, N, C}}},
    {.op = CLV_OP_SCALE, .inputs = {{ROWS, N, C}}, .attr.scale.factor = 2},
    {.op = CLV_OP_ROUND, .inputs = {{ROWS, N, C}}, .attr.round.scale = 0.01f},
    {.op = CLV_OP_EXCESS, .inputs = {{ROWS, N, C}}, .attr.excess.limit = 0.5f},
    {.op = CLV_OP_NONZERO, .inputs = {{ROWS, N, 8}}, .like.dims = {0, 2}},
    {.op = CLV_OP_SOFTCAP, .inputs = {{ROWS, N, C}}, .attr.softcap.cap = 30},
    {.op = CLV_OP_HEAD_NORM,
     .inputs = {{ROWS, N, C}, {WEIGHT, C / 2}},
     .attr.norm = {1e-5f, C / 2}},
    {.op = CLV_OP_SPARSE_MIXER,
     .inputs = {{ROWS, N, 8}},
     .attr.mixer.jitter = 0.01f},
    {.op = CLV_OP_MATMUL_EXPERTS,
     .inputs = {{ROWS, N, C}, {HALF, 8, C, C}, {IDS, N, 2}}},
};
#define N_SAMPLES (sizeof samples / sizeof *samples)

/* The graph of some samples; each has tensors of its own. */
typedef struct sample_graph {
    clv_subgraph graph;
    clv_symbol_range rows;
    clv_tensor_desc tensors[N_SAMPLES * MAX_TENSORS];
    clv_node nodes[N_SAMPLES];
} sample_graph;

/* rows: so many, 0: the symbol. */
static clv_tensor_desc describe(const operand o, int64_t rows)
{
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.dtype = kinds[o[0]].dtype;
    desc.usage = kinds[o[0]].usage;
    for (; desc.rank < 3 && o[1 + desc.rank]; desc.rank++) {
        int dim = o[1 + desc.rank];
        desc.dims[desc.rank] = dim != N ? dim : rows ? rows : MAX_ROWS;
        desc.symbols[desc.rank] = dim == N && !rows;
    }
    return desc;
}

static void add_node(sample_graph *g, const sample *s, int64_t rows)
{
    clv_op_shape shape = {.op = s->op, .attr = &s->attr, .out = s->like};
    clv_node *node = &g->nodes[g->graph.n_nodes++];
    *node = (clv_node)CLV_INIT(clv_node, CLV_STRUCT_NODE);
    node->op = s->op;
    node->revision = 1;
    node->attr = s->attr;
    for (uint32_t i = 0; i < CLV_OP_OPERANDS && s->inputs[i][0]; i++) {
        node->inputs[node->n_inputs++] = g->graph.n_tensors;
        shape.in[shape.n_inputs++] = &g->tensors[g->graph.n_tensors];
        g->tensors[g->graph.n_tensors++] = describe(s->inputs[i], rows);
    }
    if (clv_op_infer(&shape) || !shape.info->output.name)
        return;
    node->outputs[node->n_outputs++] = g->graph.n_tensors;
    shape.out.usage = CLV_USAGE_OUTPUT;
    g->tensors[g->graph.n_tensors++] = shape.out;
}

static void begin_graph(sample_graph *g, bool symbolic)
{
    memset(g, 0, sizeof *g);
    g->graph = (clv_subgraph)CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    g->graph.tensors = g->tensors;
    g->graph.tensor_stride = sizeof *g->tensors;
    g->graph.nodes = g->nodes;
    g->graph.node_stride = sizeof *g->nodes;
    g->rows = (clv_symbol_range){1, MAX_ROWS};
    g->graph.symbols = &g->rows;
    g->graph.n_symbols = symbolic;
}

static clv_status ask(clv_device *dev, clv_op_caps caps[N_SAMPLES])
{
    sample_graph g;
    begin_graph(&g, true);
    for (size_t i = 0; i < N_SAMPLES; i++)
        add_node(&g, &samples[i], 0);
    return core_device_caps(dev, &g.graph, caps);
}

clv_status core_sample_taken(clv_device *dev, uint32_t *taken, bool *all)
{
    clv_op_caps caps[N_SAMPLES];
    CLV_TRY(ask(dev, caps));
    *taken = 0;
    for (size_t i = 0; i < N_SAMPLES; i++)
        *taken += caps[i].answer != CLV_ANSWER_NO;
    *all = *taken == N_SAMPLES;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* A run                                                                     */

typedef struct trial {
    clv_device *dev;
    void (*report)(void *ctx, const char *slot);
    void *ctx;
    sample_graph g; /* of one node */
    core_buffer *buffers[MAX_TENSORS];
    core_binding weights[MAX_TENSORS], bindings[MAX_TENSORS];
    uint32_t n_weights, n_bindings;
    core_timeline *timeline;
    core_program *program;
} trial;

/* With a number of rows that it takes; false: none of the few tried. */
static bool takes(clv_device *dev, const sample *s, const clv_op_caps *caps,
                  sample_graph *g)
{
    int64_t rows = FEW_ROWS;
    clv_op_caps answer;
    if (caps->answer == CLV_ANSWER_NO)
        return false;
    if (caps->answer == CLV_ANSWER_STATIC)
        rows = caps->static_shapes[0];
    else if (caps->sequence.min > rows)
        rows = caps->sequence.min;
    begin_graph(g, false);
    add_node(g, s, rows);
    return !core_device_caps(dev, &g->graph, &answer) &&
           answer.answer != CLV_ANSWER_NO;
}

static clv_status make_buffers(trial *t)
{
    uint32_t type = 0;
    if (!core_device_has_local(t->dev, &type))
        core_device_staging_type(t->dev, &type);
    t->report(t->ctx, "buffer_alloc");
    for (uint32_t i = 0; i < t->g.graph.n_tensors; i++) {
        const clv_tensor_desc *desc = &t->g.tensors[i];
        uint64_t size;
        CLV_TRY(core_desc_size(desc, NULL, &size));
        CLV_TRY(core_buffer_alloc(t->dev, type, (size + 3) / 4 * 4,
                                  &t->buffers[i]));
        core_binding *b = desc->usage == CLV_USAGE_WEIGHT
                              ? &t->weights[t->n_weights++]
                              : &t->bindings[t->n_bindings++];
        *b = (core_binding){i, t->buffers[i], 0, (size + 3) / 4 * 4};
    }
    return CLV_OK;
}

static clv_status submit(trial *t, const core_command *commands, uint32_t n,
                         uint64_t value)
{
    const core_point signal = {t->timeline, value};
    t->report(t->ctx, "submit");
    CLV_TRY(core_device_submit(t->dev, &(core_submit){.commands = commands,
                                                      .n_commands = n,
                                                      .signals = &signal,
                                                      .n_signals = 1}));
    t->report(t->ctx, "the first run");
    return core_timeline_wait(t->timeline, value, 0, UINT64_MAX);
}

static clv_status run(trial *t)
{
    core_command commands[MAX_TENSORS];
    CLV_TRY(make_buffers(t));
    for (uint32_t i = 0; i < t->g.graph.n_tensors; i++)
        commands[i] = (core_command){.kind = CLV_COMMAND_FILL,
                                     .dst = t->buffers[i],
                                     .size = t->buffers[i]->size};
    t->report(t->ctx, "timeline_create");
    CLV_TRY(core_timeline_create(t->dev, 0, &t->timeline));
    CLV_TRY(submit(t, commands, t->g.graph.n_tensors, 1));
    t->report(t->ctx, "program_compile");
    CLV_TRY(core_program_compile(t->dev,
                                 &(core_compile){.graph = &t->g.graph,
                                                 .weights = t->weights,
                                                 .n_weights = t->n_weights},
                                 &t->program));
    commands[0] = (core_command){.kind = CLV_COMMAND_RUN,
                                 .program = t->program,
                                 .bindings = t->bindings,
                                 .n_bindings = t->n_bindings};
    return submit(t, commands, 1, 2);
}

clv_status core_sample_run(clv_device *dev,
                           void (*report)(void *ctx, const char *slot),
                           void *ctx)
{
    trial t = {.dev = dev, .report = report, .ctx = ctx};
    clv_op_caps caps[N_SAMPLES];
    size_t i = 0;
    report(ctx, "op_caps");
    CLV_TRY(ask(dev, caps));
    while (i < N_SAMPLES && !takes(dev, &samples[i], &caps[i], &t.g))
        i++;
    if (i == N_SAMPLES)
        return CLV_OK;
    clv_status status = run(&t);
    report(ctx, "program_destroy");
    core_program_destroy(t.program);
    core_timeline_destroy(t.timeline);
    for (i = 0; i < MAX_TENSORS; i++)
        core_buffer_free(t.buffers[i]);
    return status;
}
