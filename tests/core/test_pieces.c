/*
 * Pieces of nodes that are given: what is no division of a node is refused,
 * sums are added only where somebody needs them, pieces do not wait for each
 * other, and a plan of them is read as it was written.
 */
#include "../plugins/ref/context.h"

#include "../../planner/planner.h"
#include "../../tools/views/views.h"

#include "cut_layer.h"
#include "divide.h"
#include "message.h"

/* ------------------------------------------------------------------------ */
/* Slices                                                                   */

typedef struct chain {
    test_context t;
    layer l;
    core_piece pieces[16];
    uint32_t n;
} chain;

/* Gate, up, GLU and down of experts: nodes 0 to 3. */
static void chain_setup(chain *c, bool is_output)
{
    test_random r = {5};
    const clv_dim x[] = {clv_dim_fixed(3), clv_dim_fixed(HIDDEN)};
    const clv_dim ids[] = {x[0], clv_dim_fixed(USED)};
    const clv_dim scores[] = {x[0], clv_dim_fixed(EXPERTS)};
    *c = (chain){.t = test_context_create("")};
    layer *l = &c->l;
    assert_ok(clv_graph_create(&l->graph));
    clv_graph *g = l->graph;
    clv_value in = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, x);
    clv_value chosen = clv_graph_input(g, "ids", CLV_DTYPE_I32, 2, ids);
    clv_value s = clv_graph_input(g, "scores", CLV_DTYPE_F32, 2, scores);
    clv_value two[2];
    for (int i = 0; i < 2; i++)
        two[i] = clv_graph_matmul_experts(
            g, in, expert_weight(l, c->t.ctx, &r, FFN, HIDDEN), chosen,
            CLV_NO_TENSOR, false);
    clv_value mid = clv_graph_glu(g, two[0], two[1], CLV_ACT_SILU);
    if (is_output)
        clv_graph_output(g, mid, "mid");
    clv_value y = clv_graph_matmul_experts(
        g, mid, expert_weight(l, c->t.ctx, &r, HIDDEN, FFN), chosen, s, true);
    clv_graph_output(g, y, "y");
    assert_ok(clv_graph_check(g));
    c->n = 0;
}

static void chain_free(chain *c)
{
    layer *l = &c->l;
    clv_graph_destroy(l->graph);
    for (uint32_t i = 0; i < l->n_weights; i++)
        clv_tensor_destroy(l->weights[i]);
    test_context_destroy(&c->t);
}

/* A node in two parts, of experts before and after a point; 0: whole. */
static void divide_at(chain *c, uint32_t node, int64_t point)
{
    for (uint32_t i = 0; i < (point ? 2 : 1); i++) {
        core_piece *p = &c->pieces[c->n++];
        *p = (core_piece){.node = node, .device = i};
        if (point)
            p->ranges[CORE_AXIS_EXPERTS] =
                i ? (core_range){point, EXPERTS} : (core_range){0, point};
    }
}

static uint32_t count_sums(const core_cut *cut)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < cut->graph->n_nodes; i++)
        n += cut->graph->nodes[i].op == CLV_OP_ADD;
    return n;
}

/* Sums in a cut at these points. */
static uint32_t sums_of(bool is_output, const int64_t points[4])
{
    chain c;
    core_cut cut;
    chain_setup(&c, is_output);
    for (uint32_t i = 0; i < 4; i++)
        divide_at(&c, i, points[i]);
    assert_ok(core_cut_make(c.l.graph, c.pieces, c.n, &cut));
    const uint32_t n = count_sums(&cut);
    core_cut_finish(&cut);
    chain_free(&c);
    return n;
}

/* Only the products with scores are added, unless somebody needs what the
 * pieces of a node make together. */
static void test_slices(void **state)
{
    (void)state;
    const struct {
        int64_t points[4];
        bool is_output;
        uint32_t sums;
    } cases[] = {
        {{2, 2, 2, 2}, false, 1}, {{2, 2, 2, 2}, true, 2},
        {{2, 2, 2, 0}, false, 1}, /* of GLU */
        {{2, 2, 0, 0}, false, 2}, /* of gate and of up */
        {{2, 2, 0, 2}, false, 3}, /* gate, up and down */
        {{2, 3, 2, 2}, false, 3}, /* GLU computes all of it twice */
        {{0, 0, 2, 2}, true, 1},  {{2, 2, 3, 3}, false, 3},
        {{0, 0, 0, 2}, false, 1}, {{2, 2, 2, 3}, false, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sums_of(cases[i].is_output, cases[i].points),
                         cases[i].sums);
}

/* ------------------------------------------------------------------------ */
/* What is refused                                                          */

#define ROW CORE_AXIS_ROWS
#define CHANNEL CORE_AXIS_CHANNELS

static void refuse(layer *l, const core_piece *pieces, uint32_t n,
                   const char *parts)
{
    core_cut cut;
    assert_int_equal(core_cut_make(l->graph, pieces, n, &cut), CLV_ERR_INVALID);
    assert_message(parts);
    assert_null(cut.graph);
}

static void test_refused(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    clv_graph *g;
    clv_tensor *w;
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_Q8_0, 2,
                                (const int64_t[]){12, 64}, &w));
    assert_ok(clv_graph_create(&g));
    const clv_dim dims[] = {clv_graph_symbol(g, "n", 1, 8), clv_dim_fixed(64)};
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, dims);
    clv_value y =
        clv_graph_matmul(g, x, clv_graph_weight(g, "w", w), CLV_NO_TENSOR);
    clv_graph_output(g, y, "y");
    layer l = {.graph = g};
    assert_int_equal(core_cut_extent(g, 0, ROW), 12);
    assert_int_equal(core_cut_extent(g, 0, CORE_AXIS_SEQUENCE), 0);
    assert_int_equal(core_cut_extent(g, 0, CORE_AXIS_HEADS), 0);
    assert_int_equal(core_cut_granule(g, 0, CHANNEL), 32);
#define PIECE(axis, b, e)                                                      \
    {                                                                          \
        .ranges = { [axis] = {b, e} }                                          \
    }
#define REFUSE(parts, ...)                                                     \
    refuse(&l, (const core_piece[]){__VA_ARGS__},                              \
           sizeof((const core_piece[]){__VA_ARGS__}) / sizeof(core_piece),     \
           parts)
    REFUSE("gap", PIECE(ROW, 0, 4), PIECE(ROW, 5, 12));
    REFUSE("gap", PIECE(ROW, 0, 4));
    REFUSE("overlap", PIECE(ROW, 0, 7), PIECE(ROW, 6, 12));
    REFUSE("two replicas", PIECE(ROW, 0, 12), PIECE(ROW, 0, 12));
    REFUSE("overlap", {.device = 1}, PIECE(ROW, 0, 12), PIECE(ROW, 6, 12));
    REFUSE("add what is no partial sum", PIECE(ROW, 0, 6),
           {.device = 1, .adds = 1, .ranges = {[ROW] = {6, 12}}});
    REFUSE("two replicas", PIECE(CHANNEL, 0, 32),
           {.adds = 1, .ranges = {[CHANNEL] = {32, 64}}});
    REFUSE("a part of the result",
           {.ranges = {[ROW] = {0, 6}, [CHANNEL] = {0, 32}}},
           {.device = 1,
            .adds = 1,
            .ranges = {[ROW] = {0, 6}, [CHANNEL] = {32, 64}}},
           PIECE(ROW, 6, 12));
    REFUSE("no range of its rows|12", PIECE(ROW, 0, 6), PIECE(ROW, 6, 13));
    REFUSE("no range of its rows", PIECE(ROW, -1, 6), PIECE(ROW, 6, 12));
    REFUSE("no range of its rows", PIECE(ROW, 6, 6), PIECE(ROW, 0, 12));
    REFUSE("channels|steps of 32", PIECE(CHANNEL, 0, 16),
           PIECE(CHANNEL, 16, 64));
    REFUSE("no range of its sequence", PIECE(CORE_AXIS_SEQUENCE, 0, 4),
           PIECE(CORE_AXIS_SEQUENCE, 4, 8));
    REFUSE("no range of its heads", PIECE(CORE_AXIS_HEADS, 0, 1));
    REFUSE("partial sums", {.ranges = {[ROW] = {0, 6}, [CHANNEL] = {0, 32}}},
           {.ranges = {[ROW] = {6, 12}, [CHANNEL] = {0, 32}}},
           {.ranges = {[CHANNEL] = {32, 64}}});
    core_piece other = {.node = 3};
    refuse(&l, &other, 1, "missing");

    const core_piece good[] = {PIECE(ROW, 0, 5), PIECE(ROW, 5, 12)};
    clv_plan *plan;
    const core_piece stray[] = {{.device = 2}};
    assert_int_equal(planner_from_pieces(t.ctx, g, NULL, stray, 1, &plan),
                     CLV_ERR_INVALID);
    assert_null(plan);
    assert_ok(planner_from_pieces(t.ctx, g, NULL, good, 2, &plan));
    char *text;
    assert_ok(view_plan(plan, "md", &text));
    assert_non_null(strstr(text, "rows 5..12"));
    clv_string_free(text);
    assert_ok(clv_plan_json(plan, &text));
    assert_non_null(strstr(text, "\"rows\":[5,12]"));
    clv_string_free(text);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    clv_tensor_destroy(w);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Steps                                                                    */

/* Pieces of one node on two devices do not wait for each other. */
static void test_side_by_side(void **state)
{
    (void)state;
    test_random r = {49};
    test_context t = test_context_create("");
    layer l;
    clv_plan *plan;
    build(&l, t.ctx, &r, 4);
    core_piece pieces[MAX_PIECES];
    uint32_t n = 0;
    for (uint32_t node = 0; node < l.graph->n_nodes; node++) {
        int64_t rows = core_cut_extent(l.graph, node, ROW);
        bool cut = l.graph->nodes[node].op == CLV_OP_MATMUL;
        pieces[n++] = (core_piece){.node = node};
        if (!cut)
            continue;
        pieces[n - 1].ranges[ROW] = (core_range){0, rows / 2};
        pieces[n] = (core_piece){.node = node, .device = 1};
        pieces[n++].ranges[ROW] = (core_range){rows / 2, rows};
    }
    assert_ok(planner_from_pieces(t.ctx, l.graph, NULL, pieces, n, &plan));
    uint64_t waited = 0; /* for device 0, so far */
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        uint32_t source = plan->cut.sources[plan->parts[step->first_part].node];
        if (step->device != 1)
            continue;
        if (step->n_waits)
            waited = plan->waits[step->first_wait].value;
        assert_true(waited > 0);
        /* Its other half is in a later step of device 0. */
        for (uint32_t p = 0; p < plan->n_parts; p++)
            if (plan->cut.sources[plan->parts[p].node] == source &&
                plan->parts[p].device == 0)
                assert_true(plan->steps[plan->parts[p].step].signal > waited);
    }
    clv_plan_destroy(plan);
    layer_free(&l);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Saved plans                                                              */

static clv_plan *random_plan(const test_context *t, test_random *r, layer *l)
{
    core_piece pieces[MAX_PIECES];
    clv_plan *plan;
    uint32_t n = 0;
    for (uint32_t node = 0; node < l->graph->n_nodes; node++)
        n += test_divide_or_replicate(l->graph, r, node, 2, &pieces[n]);
    assert_ok(planner_from_pieces(t->ctx, l->graph, NULL, pieces, n, &plan));
    return plan;
}

static bool same_pieces(const char *a, const char *b)
{
    const char *from = strstr(a, "\"pieces\""),
               *other = strstr(b, "\"pieces\"");
    size_t size = (size_t)(strstr(from, "\"parts\"") - from);
    return strlen(other) >= size && !memcmp(from, other, size);
}

/* Reading what was printed gives the same plan; devices may come in another
 * order, so the pieces are compared by what they print. */
static void test_saved(void **state)
{
    (void)state;
    test_random r = {51};
    test_context t = test_context_create("");
    layer l, other;
    build(&l, t.ctx, &r, 6);
    build(&other, t.ctx, &r, 7);
    for (int i = 0; i < 10; i++) {
        clv_plan *plan = random_plan(&t, &r, &l), *again, *none;
        char *text, *second;
        assert_ok(clv_plan_json(plan, &text));
        const size_t size = strlen(text);
        results want, got;
        assert_ok(clv_plan_check(text, size));
        assert_true(clv_plan_fits(l.graph, text, size));
        assert_false(clv_plan_fits(other.graph, text, size));
        assert_int_equal(
            clv_plan_parse(t.ctx, other.graph, NULL, text, size, &none),
            CLV_ERR_NOT_FOUND);
        assert_message("another model, phase");
        assert_ok(clv_plan_parse(t.ctx, l.graph, NULL, text, size, &again));
        assert_ok(clv_plan_json(again, &second));
        assert_true(same_pieces(text, second));
        run(&l, plan, &want);
        run(&l, again, &got);
        assert_same(&l, &want, &got, EXACT);
        clv_string_free(text);
        clv_string_free(second);
        clv_plan_destroy(plan);
        clv_plan_destroy(again);
    }
    layer_free(&l);
    layer_free(&other);
    test_context_destroy(&t);
}

/* text with the first `from` replaced is refused. */
static void refuse_edit(const test_context *t, const layer *l, const char *text,
                        const char *from, const char *to, const char *parts)
{
    const char *at = strstr(text, from);
    char *edited = malloc(strlen(text) + strlen(to) + 1);
    clv_plan *plan;
    assert_non_null(at);
    sprintf(edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_not_equal(
        clv_plan_parse(t->ctx, l->graph, NULL, edited, strlen(edited), &plan),
        CLV_OK);
    assert_null(plan);
    assert_message(parts);
    free(edited);
}

static void test_edited(void **state)
{
    (void)state;
    test_random r = {53};
    test_context t = test_context_create("");
    layer l;
    build(&l, t.ctx, &r, 6);
    clv_plan *plan;
    assert_ok(clv_plan_create(t.ctx, l.graph, NULL, &plan));
    char *text;
    assert_ok(clv_plan_json(plan, &text));
    clv_plan_destroy(plan);
#define PIECE0 "{\"node\":0,\"device\":\"ref:0\"}"
    refuse_edit(&t, &l, text, "\"pieces\":[", "\"pieces\":{", "line");
    refuse_edit(&t, &l, text, "\"pieces\"", "\"peices\"", "pieces");
    refuse_edit(&t, &l, text, "\"graph\"", "\"grahp\"", "graph");
    refuse_edit(&t, &l, text, PIECE0, "7", "piece 0: it is no object");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":0}", "no device");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":1e9,\"device\":\"ref:0\"}",
                "no node");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":0,\"device\":\"xpu\"}",
                "xpu|ref:0");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":0,\"device\":3}", "no string");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rows\":[0,1,2]}",
                "rows are not [begin, end]");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rows\":[0.5,2]}",
                "rows are not");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rwos\":[0,2]}", "rwos");
    refuse_edit(&t, &l, text, PIECE0,
                "{\"node\":0,\"device\":\"ref:0\",\"rows\":[0,32]}", "gap");
    refuse_edit(&t, &l, text, PIECE0 ",", "", "cover");
    refuse_edit(&t, &l, text, PIECE0, "{\"node\":5,\"device\":\"ref:0\"}",
                "order");
    /* Whatever is changed, there is an error or a plan. */
    size_t size = strlen(text);
    for (int i = 0; i < 3000; i++) {
        char *copy = malloc(size);
        memcpy(copy, text, size);
        for (int j = 0; j < 3; j++)
            copy[test_below(&r, (uint32_t)size)] = (char)test_below(&r, 128);
        size_t length = i % 3 ? size : test_below(&r, (uint32_t)size);
        if (!clv_plan_parse(t.ctx, l.graph, NULL, copy, length, &plan))
            clv_plan_destroy(plan);
        free(copy);
    }
    clv_string_free(text);
    layer_free(&l);
    test_context_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_side_by_side), cmocka_unit_test(test_saved),
        cmocka_unit_test(test_edited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
