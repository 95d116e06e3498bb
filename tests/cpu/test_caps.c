/* Capabilities: what is refused and why, and that stated splits hold. */
#include "graphs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static plugin p;

static void expect_no(graph *g, const char *words)
{
    clv_op_caps caps = graph_caps(&p, g, g->n_nodes - 1);
    assert_int_equal(caps.answer, CLV_ANSWER_NO);
    if (!strstr(caps.reason, words))
        fail_msg("'%s' does not say '%s'", caps.reason, words);
    assert_int_equal(graph_run(&p, g), CLV_ERR_UNSUPPORTED);
    assert_non_null(strstr(p.host.error, words));
}

/* Each change makes a node that is refused with a reason, not run. */
static void test_refusals(void **state)
{
    graph g;
    (void)state;
#define REFUSED(words, change)                                                \
    do {                                                                      \
        matmul_graph(&g);                                                     \
        change;                                                               \
        expect_no(&g, words);                                                 \
        graph_free(&g);                                                       \
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
    REFUSED("x cannot be f16", g.descs[0].dtype = CLV_DTYPE_F16);
    REFUSED("no i4", g.descs[1].dtype = CLV_DTYPE_I4);
    REFUSED("no unknown", g.descs[1].dtype = 1000);
    REFUSED("w cannot be i8", g.descs[1].dtype = CLV_DTYPE_I8);
    REFUSED("scales", g.descs[1].quant = CLV_QUANT_PER_CHANNEL);
    REFUSED("rank", g.descs[0].rank = 0);
    REFUSED("rank", g.descs[0].rank = 6);
    REFUSED("rank", g.descs[0].rank = 1);
    REFUSED("layout", g.descs[0].layout = CLV_LAYOUT_SLICES4);
    REFUSED("storage", g.descs[0].storage = CLV_STORAGE_TEXTURE_2D);
    REFUSED("dimension", g.descs[0].dims[0] = -1);
    REFUSED("dimension", g.descs[0].dims[1] = g.descs[1].dims[1] = 0);
    REFUSED("blocks", g.descs[1].dims[1] = 63);
    REFUSED("channels", g.descs[0].dims[1] = 32);
    REFUSED("rows of w", g.descs[2].dims[1] = 9);
    REFUSED("rows of w", g.descs[2].dims[0] = 3);
    REFUSED("fixed", g.n_symbols = 1; g.ranges[0].max = 8;
            g.descs[1].symbols[0] = g.descs[2].symbols[1] = 1);
    REFUSED("2^56", g.descs[0].dims[0] = INT64_MAX / 8);
    REFUSED("2^56", g.descs[0].dims[0] = INT64_MAX);
    REFUSED("stride", g.descs[0].strides[0] = -256; g.descs[0].strides[1] = 4);
    REFUSED("stride", g.descs[0].strides[0] = 258; g.descs[0].strides[1] = 4);
    REFUSED("contiguous", g.descs[0].strides[0] = 4;
            g.descs[0].strides[1] = 16);
    REFUSED("symbol", g.descs[0].symbols[0] = 3);
    REFUSED("symbol passes", g.n_symbols = 1;
            g.ranges[0].max = 5; g.descs[0].symbols[0] = 1);
#undef REFUSED
}

static void test_reasons_of_ops(void **state)
{
    graph g = {0};
    (void)state;
    layer(&g, CLV_DTYPE_F32, 6);
    graph old = g;
#define REFUSED(node, words, change)                                          \
    do {                                                                      \
        change;                                                               \
        clv_op_caps caps = graph_caps(&p, &g, node);                          \
        assert_int_equal(caps.answer, CLV_ANSWER_NO);                         \
        if (!strstr(caps.reason, words))                                      \
            fail_msg("'%s' does not say '%s'", caps.reason, words);           \
        g = old;                                                              \
    } while (0)
    REFUSED(0, "as long as", g.descs[1].dims[0] = 63);
    REFUSED(3, "whole heads", g.nodes[3].attr.rope.head_dim = 48);
    REFUSED(3, "whole heads", g.nodes[3].attr.rope.head_dim = 0);
    REFUSED(3, "inv_freq", g.nodes[3].attr.rope.head_dim = 8);
    REFUSED(3, "mode", g.nodes[3].attr.rope.mode = 2);
    REFUSED(3, "pos", g.descs[4].dims[0] = 5);
    REFUSED(5, "not to be written", g.descs[6].usage = CLV_USAGE_WEIGHT);
    REFUSED(5, "id a row", g.descs[4].dims[0] = 5);
    REFUSED(6, "head_dim", g.nodes[6].attr.attention.head_dim = 0);
    REFUSED(6, "head_dim", g.nodes[6].attr.attention.head_dim = 1u << 20);
    REFUSED(6, "whole heads", g.nodes[6].attr.attention.head_dim = 3);
    REFUSED(6, "window", g.nodes[6].attr.attention.window = -1);
    REFUSED(6, "rows_symbol", g.nodes[6].attr.attention.rows_symbol = 1);
    REFUSED(6, "k cannot be", g.descs[6].dtype = CLV_DTYPE_BF16);
    REFUSED(7, "dimensions", g.descs[0].dims[1] = 32);
#undef REFUSED
    for (uint32_t i = 0; i < g.n_nodes; i++)
        assert_int_equal(graph_caps(&p, &g, i).answer, CLV_ANSWER_YES);
    assert_int_equal(graph_caps(&p, &g, 6).split_granularity[3], 2);
    graph_free(&g);
}

/* --- splits -------------------------------------------------------------- */

/* Tensor b differs from tensor a by no more than twice the bound of a class:
 * both may be off by it. */
static void same(const graph *g, uint32_t a, uint32_t b, uint32_t error_class)
{
    double square = 0, difference = 0;
    for (int64_t i = 0; i < g->descs[a].dims[0]; i++)
        for (int64_t j = 0; j < g->descs[a].dims[1]; j++) {
            double d = get(g, a, i, j) - get(g, b, i, j);
            square += get(g, a, i, j) * get(g, a, i, j);
            difference += d * d;
        }
    assert_true(difference <= 4 * error_bound(error_class) * square);
}

static void split_matmul(uint32_t dtype)
{
    const int64_t n = 6, k = 128, o = 48, cut = 37;
    graph g = {0};
    uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, k, 0);
    uint32_t w = add_tensor(&g, dtype, CLV_USAGE_WEIGHT, o, k, 0);
    uint32_t y[4];
    for (int i = 0; i < 4; i++)
        y[i] = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, o, 0);
    NODE(&g, CLV_OP_MATMUL, y[0], x, w);
    /* By output rows, any number of them. */
    NODE(&g, CLV_OP_MATMUL, add_view(&g, y[1], 0, n, 0, cut), x,
         add_view(&g, w, 0, cut, 0, k));
    NODE(&g, CLV_OP_MATMUL, add_view(&g, y[1], 0, n, cut, o - cut), x,
         add_view(&g, w, cut, o - cut, 0, k));
    /* By input channels, at the granularity stated. */
    int64_t channels = 3 * graph_caps(&p, &g, 0).split_granularity[2];
    NODE(&g, CLV_OP_MATMUL, y[2], add_view(&g, x, 0, n, 0, channels),
         add_view(&g, w, 0, o, 0, channels));
    NODE(&g, CLV_OP_MATMUL, y[3], add_view(&g, x, 0, n, channels, k - channels),
         add_view(&g, w, 0, o, channels, k - channels));
    NODE(&g, CLV_OP_ADD, y[2], y[2], y[3]);
    clv_op_caps caps = graph_caps(&p, &g, 0);
    assert_int_equal(caps.split_axes, CLV_SPLIT_ROWS | CLV_SPLIT_SEQUENCE |
                                          CLV_SPLIT_CHANNELS);
    must_run(&p, &g);
    same(&g, y[0], y[1], caps.error_class);
    same(&g, y[0], y[2], caps.error_class);
    graph_free(&g);
}

static clv_node *add_attention(graph *g, uint32_t q, uint32_t k, uint32_t v,
                               uint32_t pos, uint32_t y)
{
    clv_node *node = NODE(g, CLV_OP_ATTENTION, y, q, k, v, pos);
    node->attr.attention.head_dim = 16;
    node->attr.attention.scale = 0.25f;
    return node;
}

static void test_splits(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0};
    (void)state;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        split_matmul(dtypes[i]);
    /* Six heads in three groups, cut behind the first group. */
    graph g = {0};
    uint32_t q = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 5, 96, 0);
    uint32_t k = add_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_STATE, 9, 48, 0);
    uint32_t v = add_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_STATE, 9, 48, 0);
    uint32_t pos = add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 5, 0);
    uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 5, 96, 0);
    uint32_t z = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 5, 96, 0);
    for (int i = 0; i < 5; i++)
        set_i32(&g, pos, i, i + 3);
    add_attention(&g, q, k, v, pos, y);
    add_attention(&g, add_view(&g, q, 0, 5, 0, 32),
                  add_view(&g, k, 0, 9, 0, 16), add_view(&g, v, 0, 9, 0, 16),
                  pos, add_view(&g, z, 0, 5, 0, 32));
    add_attention(&g, add_view(&g, q, 0, 5, 32, 64),
                  add_view(&g, k, 0, 9, 16, 32), add_view(&g, v, 0, 9, 16, 32),
                  pos, add_view(&g, z, 0, 5, 32, 64));
    must_run(&p, &g);
    same(&g, y, z, graph_caps(&p, &g, 0).error_class);
    graph_free(&g);
}

static int setup(void **state)
{
    (void)state;
    plugin_open(&p, "2", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    plugin_close(&p);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_reasons_of_ops),
        cmocka_unit_test(test_splits),
    };
    return cmocka_run_group_tests_name("cpu caps", tests, setup, teardown);
}
