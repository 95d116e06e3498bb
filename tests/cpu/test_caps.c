/* What the plugin refuses, in which words; and the splits that it states. */
#include "rig.h"

#include <string.h>

/* The answer for node i is a no that says so. */
static void expect_no(kit_graph *g, uint32_t i, const char *words)
{
    clv_op_caps caps[KIT_MAX_NODES];
    kit_caps(g, caps);
    KIT_CHECK(g->k, caps[i].answer == CLV_ANSWER_NO,
              "a node that ought to be refused with '%s' is taken", words);
    KIT_CHECK(g->k, strstr(caps[i].reason, words), "'%s' does not say '%s'",
              caps[i].reason, words);
}

/* Nor does it compile; p: made from the graph as it was before. */
static void expect_no_program(kit_program *p, const char *words)
{
    kit *k = p->g->k;
    const kit_plugin *s = kit_under_test(k);
    clv_subgraph view;
    clv_plugin_program *handle = NULL;
    clv_compile compile = kit_program_compile_info(p, &view);
    clv_status status = s->api.program_compile(s->dev, &compile, &handle);
    KIT_CHECK(k, strstr(s->host.error, words), "'%s' does not say '%s'",
              s->host.error, words);
    kit_expect(k, status, CLV_ERR_UNSUPPORTED, "program_compile ('%s')", words);
}

static void run_refusals(kit *k, const void *arg)
{
    kit_graph g;
    kit_program p;
    (void)arg;
#define REFUSED(words, change)                                                 \
    do {                                                                       \
        cpu_matmul_graph(k, &g);                                               \
        kit_program_make(&g, 0, true, &p);                                     \
        change;                                                                \
        expect_no(&g, 0, words);                                               \
        expect_no_program(&p, words);                                          \
        kit_program_free(&p);                                                  \
        kit_graph_free(&g);                                                    \
    } while (0)
    REFUSED("op 99", g.nodes[0].op = 99);
    REFUSED("revision", g.nodes[0].revision = 2);
    REFUSED("input 1 is missing", g.nodes[0].inputs[1] = CLV_NO_TENSOR);
    REFUSED("input 1 is missing", g.nodes[0].n_inputs = 1);
    REFUSED("inputs", g.nodes[0].n_inputs = 200);
    REFUSED("outputs", g.nodes[0].n_outputs = 2);
    REFUSED("does not exist", g.nodes[0].inputs[0] = 77);
    REFUSED("does not exist", g.nodes[0].outputs[0] = CLV_NO_TENSOR);
    REFUSED("not to be written", g.descs[2].usage = CLV_USAGE_INPUT);
    REFUSED("x is f16", g.descs[0].dtype = CLV_DTYPE_F16);
    REFUSED("i4 without scales", g.descs[1].dtype = CLV_DTYPE_I4);
    REFUSED("dtype 1000", g.descs[1].dtype = 1000);
    REFUSED("i8 without scales", g.descs[1].dtype = CLV_DTYPE_I8);
    REFUSED("w is i32", g.descs[1].dtype = CLV_DTYPE_I32);
    REFUSED("x is i8", g.descs[0].dtype = CLV_DTYPE_I8);
    REFUSED("scales", g.descs[1].quant = CLV_QUANT_PER_CHANNEL);
    REFUSED("rank", g.descs[0].rank = 0);
    REFUSED("rank", g.descs[0].rank = 6);
    REFUSED("matrix", g.descs[0].rank = 1);
    REFUSED("layout", g.descs[0].layout = CLV_LAYOUT_SLICES4);
    REFUSED("storage", g.descs[0].storage = CLV_STORAGE_TEXTURE_2D);
    REFUSED("dimension", g.descs[0].dims[0] = -1);
    REFUSED("dimension", g.descs[0].dims[1] = g.descs[1].dims[1] = 0);
    REFUSED("blocks", g.descs[1].dims[1] = 63);
    REFUSED("last dimensions", g.descs[0].dims[1] = 32);
    REFUSED("the output is f32 [4,9]", g.descs[2].dims[1] = 9);
    REFUSED("the output is f32 [3,", g.descs[2].dims[0] = 3);
    REFUSED("fixed", g.n_symbols = 1; g.ranges[0].max = 8;
            g.descs[1].symbols[0] = g.descs[2].symbols[1] = 1);
    REFUSED("2^56", g.descs[0].dims[0] = INT64_MAX / 8);
    REFUSED("2^56", g.descs[0].dims[0] = INT64_MAX);
    REFUSED("stride", g.descs[0].strides[0] = -256; g.descs[0].strides[1] = 4);
    REFUSED("stride", g.descs[0].strides[0] = 258; g.descs[0].strides[1] = 4);
    REFUSED("contiguous", g.descs[0].strides[0] = 4;
            g.descs[0].strides[1] = 16);
    REFUSED("symbol", g.descs[0].symbols[0] = 3);
    REFUSED("symbol passes", g.n_symbols = 1; g.ranges[0].max = 5;
            g.descs[0].symbols[0] = 1);
#undef REFUSED
}

static void run_reasons(kit *k, const void *arg)
{
    kit_graph g;
    clv_op_caps caps[KIT_MAX_NODES];
    (void)arg;
    cpu_layer_graph(k, &g, CLV_DTYPE_F32, 6);
    kit_graph old = g;
#define REFUSED(node, words, change)                                           \
    do {                                                                       \
        change;                                                                \
        expect_no(&g, node, words);                                            \
        g = old;                                                               \
    } while (0)
    REFUSED(0, "channels must be equal", g.descs[1].dims[0] = 63);
    REFUSED(3, "whole heads", g.nodes[3].attr.rope.head_dim = 48);
    REFUSED(3, "whole heads", g.nodes[3].attr.rope.head_dim = 0);
    REFUSED(3, "inv_freq", g.nodes[3].attr.rope.head_dim = 8);
    REFUSED(3, "mode", g.nodes[3].attr.rope.mode = 2);
    REFUSED(3, "pos", g.descs[4].dims[0] = 5);
    REFUSED(5, "not to be written", g.descs[6].usage = CLV_USAGE_WEIGHT);
    REFUSED(5, "their rows", g.descs[4].dims[0] = 5);
    REFUSED(6, "heads of 0", g.nodes[6].attr.attention.head_dim = 0);
    REFUSED(6, "heads of 1048576",
            g.nodes[6].attr.attention.head_dim = 1u << 20);
    REFUSED(6, "whole heads", g.nodes[6].attr.attention.head_dim = 3);
    REFUSED(6, "window", g.nodes[6].attr.attention.window = -1);
    REFUSED(6, "no symbol", g.nodes[6].attr.attention.rows_symbol = 1);
    REFUSED(6, "k is bf16", g.descs[6].dtype = CLV_DTYPE_BF16);
    REFUSED(7, "the same shape", g.descs[0].dims[1] = 32);
#undef REFUSED
    kit_caps(&g, caps);
    for (uint32_t i = 0; i < g.n_nodes; i++)
        KIT_CHECK(k, caps[i].answer == CLV_ANSWER_YES, "node %u: %s", i,
                  caps[i].reason);
    kit_graph_free(&g);
}

/* That they hold is the kit's to show; which there are is stated here. */
static void run_splits(kit *k, const void *arg)
{
    kit_graph g;
    clv_op_caps caps[KIT_MAX_NODES];
    (void)arg;
    cpu_layer_graph(k, &g, CLV_DTYPE_Q8_0, 6);
    kit_caps(&g, caps);
    KIT_CHECK(k,
              caps[1].split_axes == (CLV_SPLIT_ROWS | CLV_SPLIT_SEQUENCE |
                                     CLV_SPLIT_CHANNELS) &&
                  caps[1].split_granularity[0] <= 1 &&
                  caps[1].split_granularity[2] == 32,
              "matmul is split along %#x, channels by %lld", caps[1].split_axes,
              (long long)caps[1].split_granularity[2]);
    KIT_CHECK(k,
              caps[6].split_axes == (CLV_SPLIT_SEQUENCE | CLV_SPLIT_HEADS) &&
                  caps[6].split_granularity[3] == 2,
              "attention is split along %#x, heads by %lld", caps[6].split_axes,
              (long long)caps[6].split_granularity[3]);
    KIT_CHECK(k, caps[7].alias_inputs == 3, "add may lie on inputs %#x",
              caps[7].alias_inputs);
    kit_graph_free(&g);
}

int main(void)
{
    static const kit_case cases[] = {
        {.name = "refusals", .run = run_refusals},
        {.name = "reasons", .run = run_reasons},
        {.name = "splits", .run = run_splits},
    };
    return cpu_cases_run(cases, sizeof cases / sizeof *cases);
}
