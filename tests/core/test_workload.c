/*
 * The work of nodes: a piece of a node has the work of the node that cutting
 * makes of it, and pieces together have that of the whole.
 */
#include "../plugins/ref/context.h"

#include "../../planner/profile/workload.h"

#include "divide.h"

#include <math.h>

#define HEADS 8
#define GROUPS 4
#define HEAD_DIM 16
#define WIDTH (HEADS * HEAD_DIM)
#define CACHE 40
#define TOKENS 12

typedef struct rig {
    test_context t;
    clv_graph *graph;
    clv_tensor *tensors[32];
    uint32_t n;
} rig;

static clv_value weight(rig *r, uint32_t dtype, int64_t rows, int64_t columns)
{
    const int64_t dims[] = {rows ? rows : columns, columns};
    clv_tensor **t = &r->tensors[r->n++];
    assert_ok(clv_tensor_create(r->t.ctx, dtype, rows ? 2 : 1, dims, t));
    return clv_graph_weight(r->graph, "w", *t);
}

static clv_value scaled(rig *r, uint32_t dtype, uint32_t quant, int64_t rows,
                        int64_t columns)
{
    enum { GROUP = 16 };
    const bool grouped = quant == CLV_QUANT_PER_GROUP;
    const int64_t dims[] = {rows, columns};
    const int64_t shape[] = {quant == CLV_QUANT_PER_TENSOR ? 1 : rows,
                             columns / GROUP};
    clv_tensor **q = &r->tensors[r->n++], **s = &r->tensors[r->n++];
    assert_ok(clv_tensor_create(r->t.ctx, dtype, 2, dims, q));
    assert_ok(
        clv_tensor_create(r->t.ctx, CLV_DTYPE_F32, grouped ? 2 : 1, shape, s));
    assert_ok(clv_tensor_set_quant(*q, quant, grouped ? GROUP : 0, *s));
    return clv_graph_weight(r->graph, "q", *q);
}

static clv_value experts(rig *r, int64_t out, int64_t in)
{
    const int64_t dims[] = {96, out, in};
    clv_tensor **t = &r->tensors[r->n++];
    assert_ok(clv_tensor_create(r->t.ctx, CLV_DTYPE_F16, 3, dims, t));
    return clv_graph_weight(r->graph, "e", *t);
}

/* Every op, with tokens given or open, and a cache of which `rows` are used. */
static void build(rig *r, int64_t tokens, int32_t window)
{
    assert_ok(clv_graph_create(&r->graph));
    clv_graph *g = r->graph;
    clv_dim n =
        tokens ? clv_dim_fixed(tokens) : clv_graph_symbol(g, "n", 1, TOKENS);
    clv_dim rows = clv_graph_symbol(g, "rows", 1, CACHE);
    const int64_t cache[] = {CACHE, GROUPS * HEAD_DIM};
    clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    clv_value k = clv_graph_state(g, "k", CLV_DTYPE_F16, 2, cache);
    clv_value v = clv_graph_state(g, "v", CLV_DTYPE_F16, 2, cache);
    clv_value x = clv_graph_get_rows(
        g, scaled(r, CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 50, WIDTH), ids);
    clv_value y =
        clv_graph_rms_norm(g, x, weight(r, CLV_DTYPE_F32, 0, WIDTH), 1e-5f);
    y = clv_graph_layer_norm(g, y, weight(r, CLV_DTYPE_F32, 0, WIDTH),
                             weight(r, CLV_DTYPE_F16, 0, WIDTH), 1e-5f);
    clv_value freq = weight(r, CLV_DTYPE_F32, 0, HEAD_DIM / 4);
    clv_value q = clv_graph_rope(g, y, ids, freq, CLV_ROPE_PAIRS, HEAD_DIM, 1);
    clv_value kv = clv_graph_matmul(
        g, y, weight(r, CLV_DTYPE_Q4_0, GROUPS * HEAD_DIM, WIDTH),
        CLV_NO_TENSOR);
    clv_graph_set_rows(g, k, kv, ids);
    clv_graph_set_rows(g, v, kv, ids);
    const clv_attention_params params = {
        .head_dim = HEAD_DIM, .rows = rows, .window = window};
    y = clv_graph_attention(g, q, k, v, ids, CLV_NO_TENSOR, &params);
    y = clv_graph_matmul(
        g, y, scaled(r, CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 96, WIDTH),
        weight(r, CLV_DTYPE_F32, 0, 96));
    clv_value up = clv_graph_add(g, y, weight(r, CLV_DTYPE_F32, 0, 96));
    y = clv_graph_glu(g, clv_graph_silu(g, y), clv_graph_gelu(g, up),
                      CLV_ACT_GELU_TANH);
    y = clv_graph_mul(g, y, up);
    y = clv_graph_softmax(g, clv_graph_convert(g, y, CLV_DTYPE_F32));
    clv_graph_output(g, clv_graph_convert(g, y, CLV_DTYPE_F16), "y");
    clv_value chosen = clv_graph_top_k(g, y, 3);
    clv_value mid = clv_graph_matmul_experts(g, y, experts(r, 8, 96), chosen,
                                             CLV_NO_TENSOR, false);
    y = clv_graph_matmul_experts(g, mid, experts(r, 40, 8), chosen, y, true);
    clv_graph_output(g, y, "sum");
    assert_ok(clv_graph_check(g));
}

static rig make(int64_t tokens, int32_t window)
{
    rig r = {.t = test_context_create("")};
    build(&r, tokens, window);
    return r;
}

static void finish(rig *r)
{
    clv_graph_destroy(r->graph);
    while (r->n)
        clv_tensor_destroy(r->tensors[--r->n]);
    test_context_destroy(&r->t);
}

static void assert_equal_work(const planner_workload *a,
                              const planner_workload *b)
{
    char one[PLANNER_WORKLOAD_TEXT], other[PLANNER_WORKLOAD_TEXT];
    if (!planner_workload_equal(a, b))
        fail_msg("%s is not %s", planner_workload_text(a, one),
                 planner_workload_text(b, other));
}

/* The nodes that cutting makes of pieces have the work of the pieces. */
static void check_cut(const rig *r, test_random *random, const int64_t *symbols)
{
    core_piece pieces[64 * TEST_MAX_PIECES];
    core_cut cut;
    planner_workload whole, piece, node;
    double sum[64] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->graph->n_nodes; i++)
        n += test_divide_or_replicate(r->graph, random, i, 2, &pieces[n]);
    assert_ok(core_cut_make(r->graph, pieces, n, &cut));
    for (uint32_t i = 0; i < cut.graph->n_nodes; i++) {
        if (cut.pieces[i] == CORE_NO_PIECE)
            continue;
        const core_piece *p = &pieces[cut.pieces[i]];
        planner_workload_of(r->graph, p->node, p, symbols, &piece);
        planner_workload_of(cut.graph, i, NULL, symbols, &node);
        assert_equal_work(&piece, &node);
        const bool replica =
            p != pieces && p[-1].node == p->node && core_piece_is_whole(p);
        sum[p->node] += replica ? 0 : planner_workload_flops(&piece);
        assert_true(planner_workload_bytes(&piece) > 0);
    }
    for (uint32_t i = 0; i < r->graph->n_nodes; i++) {
        planner_workload_of(r->graph, i, NULL, symbols, &whole);
        double flops = planner_workload_flops(&whole);
        assert_true(flops > 0 && fabs(sum[i] / flops - 1) < 1e-9);
    }
    core_cut_finish(&cut);
}

static void test_pieces(void **state)
{
    (void)state;
    test_random random = {71};
    for (int32_t window = 0; window < 3; window++) {
        rig fixed = make(TOKENS, window * 9), open = make(0, window * 9);
        for (int i = 0; i < 100; i++) {
            int64_t n = 1 + test_below(&random, TOKENS);
            int64_t old = test_below(&random, CACHE - TOKENS);
            check_cut(&fixed, &random, (const int64_t[]){TOKENS + old});
            check_cut(&open, &random, (const int64_t[]){n, n + old});
        }
        finish(&fixed);
        finish(&open);
    }
}

/* Counted one by one. */
static double pairs(const planner_workload *w)
{
    double sum = 0;
    for (int64_t i = 0; i < w->n; i++) {
        int64_t last = w->depth - w->n + i;
        for (int64_t j = 0; j <= last; j++)
            sum += !w->kind.span || j > last - (int64_t)w->kind.span;
    }
    return sum;
}

static void test_pairs(void **state)
{
    (void)state;
    for (uint32_t span = 0; span < 20; span++)
        for (int64_t n = 1; n < 12; n++)
            for (int64_t depth = n; depth < 30; depth++) {
                const planner_workload w = {
                    .kind = {.op = CLV_OP_ATTENTION, .span = span},
                    .n = n,
                    .depth = depth};
                assert_true(planner_workload_pairs(&w) == pairs(&w));
            }
}

static void expect(const rig *r, uint32_t op, uint32_t which,
                   const int64_t *symbols, const core_piece *piece,
                   const char *text, double flops, double bytes)
{
    planner_workload workload;
    char got[PLANNER_WORKLOAD_TEXT];
    for (uint32_t i = 0; i < r->graph->n_nodes; i++) {
        if (r->graph->nodes[i].op != op || which--)
            continue;
        planner_workload_of(r->graph, i, piece, symbols, &workload);
        assert_string_equal(planner_workload_text(&workload, got), text);
        assert_true(planner_workload_flops(&workload) == flops);
        assert_true(fabs(planner_workload_bytes(&workload) / bytes - 1) <
                    1e-12);
        return;
    }
    fail();
}

static void test_figures(void **state)
{
    (void)state;
    rig r = make(0, 0);
    const int64_t symbols[] = {3, 10};
    expect(&r, CLV_OP_MATMUL, 0, symbols, NULL,
           "matmul f32 x q4_0 [3, 128] -> 64", 2.0 * 3 * 128 * 64,
           64 * 128 / 32 * 18 + 3 * (128 + 64) * 4);
    expect(&r, CLV_OP_MATMUL, 0, NULL, NULL,
           "matmul f32 x q4_0 [12, 128] -> 64", 2.0 * 12 * 128 * 64,
           64 * 128 / 32 * 18 + 12 * (128 + 64) * 4);
    const core_piece half = {.ranges[CORE_AXIS_CHANNELS] = {32, 64},
                             .ranges[CORE_AXIS_ROWS] = {0, 90}};
    expect(&r, CLV_OP_MATMUL, 1, symbols, &half,
           "matmul f32 x i4 per 16 [3, 32] -> 90", 2.0 * 3 * 32 * 90,
           90 * 32 / 2 + 90 * 2 * 4 + 3 * (32 + 90) * 4);
    expect(&r, CLV_OP_GET_ROWS, 0, symbols, NULL,
           "get_rows f32 x i8 per channel [3, 128]", 3 * 128,
           3 * 128 + 3 * 4 + 3 * 4 + 3 * 128 * 4);
    /* Queries at 7, 8 and 9 see 8 + 9 + 10 rows. */
    expect(&r, CLV_OP_ATTENTION, 0, symbols, NULL,
           "attention f32 x f16 [3, 128] of 10 rows of 64",
           27 * (4 * 128 + 8 * 8), 2 * 3 * 128 * 4 + 3 * 4 + 2 * 10 * 64 * 2);
    expect(&r, CLV_OP_TOP_K, 0, symbols, NULL, "top_k f32 [3, 96] -> 3",
           2 * 3 * 96, (3 * 96 + 3 * 3) * 4);
    const double used = 96 * (1 - pow(1 - 3.0 / 96, 3));
    expect(&r, CLV_OP_MATMUL_EXPERTS, 0, symbols, NULL,
           "matmul_experts f32 x f16 [3, 96] -> 8, 3 of 96",
           2.0 * 3 * 3 * 96 * 8,
           used * 8 * 96 * 2 + 3 * 3 * 4 + 3 * (96 + 3 * 8) * 4);
    expect(&r, CLV_OP_MATMUL_EXPERTS, 1, symbols, NULL,
           "matmul_experts f32 x f16 [3, 8] -> 40, 3 of 96",
           2.0 * 3 * 3 * 8 * 40,
           used * 8 * 40 * 2 + 3 * 3 * 4 + 3 * (3 * 8 + 40) * 4);
    /* A third of the experts is a third of the products and of the weights. */
    const core_piece third = {.ranges[CORE_AXIS_EXPERTS] = {32, 64}};
    expect(&r, CLV_OP_MATMUL_EXPERTS, 1, symbols, &third,
           "matmul_experts f32 x f16 [3, 8] -> 40, 3 of 96, 32 here",
           2.0 * 3 * 8 * 40,
           used / 3 * 8 * 40 * 2 + 3 * 3 * 4 + 3 * (3 * 8 + 40) * 4);
    finish(&r);
    r = make(1, 4);
    expect(&r, CLV_OP_ATTENTION, 0, (const int64_t[]){10}, NULL,
           "attention f32 x f16 [1, 128] of 4 rows of 64",
           4 * (4 * 128 + 8 * 8), 2 * 128 * 4 + 4 + 2 * 4 * 64 * 2);
    finish(&r);
}

/* Queries that are each of a sequence: rows of the cache are counted for each,
 * and a window hides the same ones of all. */
static void test_apart(void **state)
{
    (void)state;
    for (int32_t window = 0; window <= 4; window += 4) {
        test_context t = test_context_create("");
        const int64_t cache[] = {CACHE, GROUPS * HEAD_DIM};
        const int64_t symbols[] = {30, 10};
        rig r = {.t = t};
        assert_ok(clv_graph_create(&r.graph));
        clv_graph *g = r.graph;
        const clv_dim n = clv_dim_fixed(3), x[] = {n, clv_dim_fixed(WIDTH)};
        const clv_attention_params params = {
            .head_dim = HEAD_DIM,
            .rows = clv_graph_symbol(g, "rows", 1, CACHE),
            .seen = clv_graph_symbol(g, "seen", 1, CACHE / 2),
            .apart = true,
            .window = window};
        clv_value q = clv_graph_input(g, "q", CLV_DTYPE_F32, 2, x);
        clv_value pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
        clv_value first = clv_graph_input(g, "first", CLV_DTYPE_I32, 1, &n);
        clv_value y = clv_graph_attention(
            g, q, clv_graph_state(g, "k", CLV_DTYPE_F16, 2, cache),
            clv_graph_state(g, "v", CLV_DTYPE_F16, 2, cache), pos, first,
            &params);
        clv_graph_output(g, y, "y");
        assert_ok(clv_graph_check(g));
        const int seen = window ? window : 10;
        char text[80];
        snprintf(text, sizeof text,
                 "attention f32 x f16 [3, 128] of %d rows of 64 each", seen);
        expect(&r, CLV_OP_ATTENTION, 0, symbols, NULL, text,
               3 * seen * (4 * 128 + 8 * 8),
               2 * 3 * 128 * 4 + 3 * 4 + 2 * 3 * seen * 64 * 2);
        finish(&r);
    }
}

/* What is expected of experts whose chances are known: of the whole node, of
 * its pieces, and of pieces that a cut has made nodes of. */
static void test_popularity(void **state)
{
    (void)state;
    rig r = make(0, 0);
    const int64_t symbols[] = {3, 10};
    uint32_t node = 0;
    while (r.graph->nodes[node].op != CLV_OP_MATMUL_EXPERTS)
        node++;
    const clv_value weight = r.graph->nodes[node].inputs[1];
    clv_tensor *tensor = r.graph->values[weight].weight;
    float chances[96] = {1, 0.5f, 0.25f};
    planner_workload all, first, rest, equal;
    const core_piece two = {.node = node, .ranges[CORE_AXIS_EXPERTS] = {0, 2}};
    const core_piece others = {.node = node,
                               .ranges[CORE_AXIS_EXPERTS] = {2, 96}};
    planner_workload_of(r.graph, node, NULL, symbols, &equal);
    chances[95] = 1.5f;
    assert_int_equal(clv_tensor_set_popularity(tensor, chances),
                     CLV_ERR_INVALID);
    assert_non_null(strstr(clv_last_error(), "expert 95"));
    chances[95] = 0;
    assert_ok(clv_tensor_set_popularity(tensor, chances));
    planner_workload_of(r.graph, node, NULL, symbols, &all);
    planner_workload_of(r.graph, node, &two, symbols, &first);
    planner_workload_of(r.graph, node, &others, symbols, &rest);
    assert_true(planner_workload_products(&first) == 1.5);
    assert_true(planner_workload_products(&rest) == 0.25);
    assert_true(fabs(planner_workload_experts(&first) - 1.875) < 1e-9);
    assert_true(fabs(planner_workload_experts(&rest) -
                     (1 - 0.75 * 0.75 * 0.75)) < 1e-9);
    assert_true(fabs(planner_workload_experts(&all) -
                     planner_workload_experts(&first) -
                     planner_workload_experts(&rest)) < 1e-9);
    /* What is measured has equal chances. */
    const planner_workload plain = planner_workload_plain(&all);
    assert_true(planner_workload_experts(&plain) ==
                planner_workload_experts(&equal));
    core_piece pieces[64] = {{0}};
    core_cut cut;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r.graph->n_nodes; i++) {
        pieces[n].node = i;
        if (i == node) {
            pieces[n++] = two;
            pieces[n] = others;
        }
        n++;
    }
    assert_ok(core_cut_make(r.graph, pieces, n, &cut));
    double sum = 0;
    for (uint32_t i = 0; i < cut.graph->n_nodes; i++)
        if (cut.sources[i] == node &&
            cut.graph->nodes[i].op == CLV_OP_MATMUL_EXPERTS) {
            planner_workload_of(cut.graph, i, NULL, symbols, &first);
            sum += planner_workload_products(&first);
        }
    assert_true(sum == 1.75);
    core_cut_finish(&cut);
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),     cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_figures),    cmocka_unit_test(test_apart),
        cmocka_unit_test(test_popularity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
