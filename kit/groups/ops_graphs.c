/*
 * Several nodes in one program: pieces of transformers, with transients that
 * share memory once they are no longer used.
 */
#include "../reference/forecast.h"
#include "ops.h"

#include <math.h>
#include <stdio.h>

static void judge(kit *k, kit_graph *g, uint32_t flags)
{
    kit_judgement judgement;
    if (kit_judge(g, flags, &judgement) != KIT_RIGHT)
        kit_skip(k, "%s", judgement.reason);
    kit_graph_free(g);
}

static uint32_t add(kit_graph *g, uint32_t usage, int64_t n, int64_t c)
{
    return kit_add_tensor(g, CLV_DTYPE_F32, usage, n, c, 0);
}

/* ------------------------------------------------------------------------ */
/* A layer's first half                                                      */

/* What is symbolic about the layer: x, pos, and all transients. */
typedef struct layer {
    uint32_t x, pos, cache, normed, q, key, mixed, y;
} layer;

/* Norm, two products of the same x, rotation, cache, attention, sum. What
 * attention makes lies where the normed x lay, whose last use is past. */
static layer build_layer(kit_graph *g, uint32_t weights, int64_t n)
{
    layer l = {0};
    l.x = add(g, CLV_USAGE_INPUT, n, 64);
    uint32_t norm = add(g, CLV_USAGE_WEIGHT, 0, 64);
    uint32_t wq = kit_add_tensor(g, weights, CLV_USAGE_WEIGHT, 64, 64, 0);
    uint32_t wk = kit_add_tensor(g, weights, CLV_USAGE_WEIGHT, 32, 64, 0);
    l.pos = kit_add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);
    uint32_t freq = add(g, CLV_USAGE_WEIGHT, 0, 8);
    l.cache = kit_add_tensor(g, CLV_DTYPE_F16, CLV_USAGE_STATE, 128, 32, 0);
    l.normed = add(g, CLV_USAGE_TRANSIENT, n, 64);
    l.q = add(g, CLV_USAGE_TRANSIENT, n, 64);
    l.key = add(g, CLV_USAGE_TRANSIENT, n, 32);
    l.mixed = kit_add_view(g, l.normed, 0, n, 0, 64);
    l.y = add(g, CLV_USAGE_OUTPUT, n, 64);
    for (int64_t i = 0; i < n; i++)
        kit_set(g, l.pos, 0, i, (double)i);
    KIT_NODE(g, CLV_OP_RMS_NORM, l.normed, l.x, norm)->attr.norm.eps = 1e-5f;
    KIT_NODE(g, CLV_OP_MATMUL, l.q, l.normed, wq);
    KIT_NODE(g, CLV_OP_MATMUL, l.key, l.normed, wk);
    KIT_NODE(g, CLV_OP_ROPE, l.q, l.q, l.pos, freq)->attr.rope.head_dim = 16;
    KIT_NODE(g, CLV_OP_ROPE, l.key, l.key, l.pos, freq)->attr.rope.head_dim =
        16;
    KIT_NODE(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, l.cache, l.key, l.pos);
    clv_node *attention =
        KIT_NODE(g, CLV_OP_ATTENTION, l.mixed, l.q, l.cache, l.cache, l.pos);
    attention->attr.attention.head_dim = 16;
    attention->attr.attention.scale = 0.25f;
    KIT_NODE(g, CLV_OP_ADD, l.y, l.mixed, l.x);
    return l;
}

/* At the first of some lengths that the device takes. */
static void judge_layer(kit *k, uint32_t dtype, uint32_t flags)
{
    static const int64_t lengths[] = {70, 64, 32, 16, 8, 128, 1};
    kit_judgement judgement = {.verdict = KIT_REFUSED};
    kit_graph g;
    for (uint32_t i = 0;
         i < sizeof lengths / sizeof *lengths && judgement.verdict != KIT_RIGHT;
         i++) {
        kit_graph_init(k, &g);
        build_layer(&g, dtype, lengths[i]);
        kit_judge(&g, flags, &judgement);
        kit_graph_free(&g);
    }
    if (judgement.verdict != KIT_RIGHT)
        kit_skip(k, "%s", judgement.reason);
}

static void run_layer(kit *k, const void *arg)
{
    judge_layer(k, *(const uint32_t *)arg, KIT_RUN_TWICE);
}

static void run_imported_layer(kit *k, const void *arg)
{
    judge_layer(k, *(const uint32_t *)arg, KIT_RUN_IMPORT | KIT_RUN_OFFSET);
}

/* ------------------------------------------------------------------------ */
/* One program, several lengths                                              */

static void make_layer_symbolic(kit_graph *g, const layer *l, int64_t max)
{
    const uint32_t tensors[] = {l->x,   l->pos,   l->normed, l->q,
                                l->key, l->mixed, l->y};
    uint32_t symbol = kit_make_symbol(g, 1, max, max);
    for (uint32_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        kit_set_symbol(g, tensors[i], 0, symbol);
}

static void run_program(kit *k, kit_program *p, uint64_t value,
                        clv_plugin_timeline *tl)
{
    clv_command command = kit_program_command(p);
    KIT_OK(k, kit_submit(k, &command, 1, NULL, 0, tl, value), "submit");
    KIT_OK(k, kit_wait(k, tl, value), "timeline_wait");
}

/* Values outside the range compiled for are refused. */
static void check_range(kit *k, kit_program *p)
{
    static const int64_t bad[] = {0, 71, -1, INT64_MAX, INT64_MIN};
    const int64_t good = p->g->values[0];
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p->g->values[0] = bad[i];
        clv_command command = kit_program_command(p);
        kit_expect(k, kit_submit(k, &command, 1, NULL, 0, NULL, 0),
                   CLV_ERR_INVALID, "submit with %lld rows of 1 to 70",
                   (long long)bad[i]);
    }
    p->g->values[0] = good;
}

static void run_bucket(kit *k, const void *arg)
{
    static const int64_t values[] = {70, 1, 33, 5, 64, 70};
    const kit_plugin *s = kit_under_test(k);
    char reason[KIT_TEXT_SIZE];
    clv_op_caps caps[KIT_MAX_NODES];
    clv_plugin_timeline *tl = NULL;
    kit_program p;
    kit_graph g;
    kit_graph_init(k, &g);
    layer l = build_layer(&g, *(const uint32_t *)arg, 70);
    make_layer_symbolic(&g, &l, 70);
    if (!kit_takes(&g, reason)) {
        kit_skip(k, "%s", reason);
        kit_graph_free(&g);
        return;
    }
    kit_caps(&g, caps);
    KIT_OK(k, s->api.timeline_create(s->dev, 0, &tl), "timeline_create");
    kit_program_make(&g, 0, false, &p);
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        kit_forecast expected;
        g.values[0] = values[i];
        for (int64_t j = 0; j < 70; j++) /* what is not used stays */
            for (int64_t c = 0; c < 64; c++)
                kit_set(&g, l.y, j, c, 12345);
        kit_forecast_make(&g, caps, &expected);
        kit_program_upload(&p);
        run_program(k, &p, i + 1, tl);
        kit_program_download(&p);
        kit_forecast_check(&g, &expected);
        for (int64_t j = 0; j < 70; j++)
            KIT_CHECK(k, (kit_get(&g, l.y, j, 0) == 12345) == (j >= values[i]),
                      "row %d of a run with %d rows: %g", (int)j,
                      (int)values[i], kit_get(&g, l.y, j, 0));
        kit_forecast_free(&expected);
    }
    check_range(k, &p);
    s->api.timeline_destroy(tl);
    kit_program_free(&p);
    kit_graph_free(&g);
}

/* ------------------------------------------------------------------------ */
/* Feed-forward, and what comes around it                                    */

static void run_feed_forward(kit *k, const void *arg)
{
    const uint32_t dtype = *(const uint32_t *)arg;
    const int64_t n = 19, hidden = 64, wide = 160;
    kit_graph g;
    kit_graph_init(k, &g);
    uint32_t x = add(&g, CLV_USAGE_STATE, n, hidden);
    uint32_t norm = add(&g, CLV_USAGE_WEIGHT, 0, hidden);
    uint32_t bias = add(&g, CLV_USAGE_WEIGHT, 0, hidden);
    uint32_t gate_w =
        kit_add_tensor(&g, dtype, CLV_USAGE_WEIGHT, wide, hidden, 0);
    uint32_t up_w =
        kit_add_tensor(&g, dtype, CLV_USAGE_WEIGHT, wide, hidden, 0);
    uint32_t down_w =
        kit_add_tensor(&g, dtype, CLV_USAGE_WEIGHT, hidden, wide, 0);
    uint32_t normed = add(&g, CLV_USAGE_TRANSIENT, n, hidden);
    uint32_t gate = add(&g, CLV_USAGE_TRANSIENT, n, wide);
    uint32_t up = add(&g, CLV_USAGE_TRANSIENT, n, wide);
    uint32_t down = kit_add_view(&g, normed, 0, n, 0, hidden);
    KIT_NODE(&g, CLV_OP_LAYER_NORM, normed, x, norm, bias)->attr.norm.eps =
        1e-5f;
    KIT_NODE(&g, CLV_OP_MATMUL, gate, normed, gate_w);
    KIT_NODE(&g, CLV_OP_MATMUL, up, normed, up_w);
    KIT_NODE(&g, CLV_OP_GLU, gate, gate, up)->attr.glu.activation =
        CLV_ACT_GELU_TANH;
    KIT_NODE(&g, CLV_OP_MATMUL, down, gate, down_w, bias);
    KIT_NODE(&g, CLV_OP_ADD, x, x, down);
    judge(k, &g, KIT_RUN_TWICE);
}

/* Words to logits: rows by id, last rows out, the table again as output. */
static void run_ends(kit *k, const void *arg)
{
    const uint32_t dtype = *(const uint32_t *)arg;
    kit_graph g;
    kit_graph_init(k, &g);
    uint32_t table = kit_add_tensor(&g, dtype, CLV_USAGE_WEIGHT, 50, 64, 0);
    uint32_t norm = add(&g, CLV_USAGE_WEIGHT, 0, 64);
    uint32_t ids = kit_add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 9, 0);
    uint32_t wanted =
        kit_add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 2, 0);
    uint32_t x = add(&g, CLV_USAGE_TRANSIENT, 9, 64);
    uint32_t last = add(&g, CLV_USAGE_TRANSIENT, 2, 64);
    uint32_t logits = add(&g, CLV_USAGE_TRANSIENT, 2, 50);
    uint32_t out = add(&g, CLV_USAGE_OUTPUT, 2, 50);
    for (int64_t i = 0; i < 9; i++)
        kit_set(&g, ids, 0, i, kit_random_below(k, 50));
    kit_set(&g, wanted, 0, 0, 8);
    kit_set(&g, wanted, 0, 1, 3);
    KIT_NODE(&g, CLV_OP_GET_ROWS, x, table, ids);
    KIT_NODE(&g, CLV_OP_RMS_NORM, x, x, norm)->attr.norm.eps = 1e-6f;
    KIT_NODE(&g, CLV_OP_GET_ROWS, last, x, wanted);
    KIT_NODE(&g, CLV_OP_MATMUL, logits, last, table);
    KIT_NODE(&g, CLV_OP_SOFTMAX, out, logits);
    judge(k, &g, KIT_RUN_TWICE);
}

/* x changes between two products: the second must not use what the first made
 * of it. */
static void run_changed(kit *k, const void *arg)
{
    const uint32_t dtype = *(const uint32_t *)arg;
    for (int in_place = 0; in_place < 2; in_place++) {
        kit_graph g;
        kit_graph_init(k, &g);
        uint32_t x = add(&g, CLV_USAGE_STATE, 2, 32);
        uint32_t w = kit_add_tensor(&g, dtype, CLV_USAGE_WEIGHT, 32, 32, 0);
        uint32_t first = add(&g, CLV_USAGE_OUTPUT, 2, 32);
        uint32_t second = add(&g, CLV_USAGE_OUTPUT, 2, 32);
        KIT_NODE(&g, CLV_OP_MATMUL, first, x, w);
        if (in_place) {
            KIT_NODE(&g, CLV_OP_ADD, x, x, x);
        } else {
            uint32_t ids =
                kit_add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 2, 0);
            uint32_t twice = add(&g, CLV_USAGE_TRANSIENT, 2, 32);
            kit_set(&g, ids, 0, 1, 1);
            KIT_NODE(&g, CLV_OP_ADD, twice, x, x);
            KIT_NODE(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, x, twice, ids);
        }
        KIT_NODE(&g, CLV_OP_MATMUL, second, x, w);
        judge(k, &g, KIT_RUN_TWICE);
    }
}

/* ------------------------------------------------------------------------ */
/* What kernels that take several nodes must not put in another order        */

enum order {
    TWO_READERS,
    LATE_OPERAND,
    STATE_SET,
    STATE_SET_TWICE,
    STATE_READ,
    ONE_ROW
};

static const char *const order_names[] = {"two_readers", "late_operand",
                                          "state_set",   "state_set_twice",
                                          "state_read",  "one_row"};

static void run_order(kit *k, const void *arg)
{
    const uint32_t what = *(const uint32_t *)arg;
    enum { N = 5, C = 24 };
    kit_graph g;
    kit_graph_init(k, &g);
    uint32_t a = add(&g, CLV_USAGE_INPUT, N, C);
    uint32_t b = add(&g, CLV_USAGE_INPUT, N, C);
    uint32_t ids = kit_add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, N, 0);
    uint32_t state = add(&g, CLV_USAGE_STATE, N, C);
    uint32_t t = add(&g, CLV_USAGE_TRANSIENT, N, C);
    uint32_t late = add(&g, CLV_USAGE_TRANSIENT, N, C);
    uint32_t y = add(&g, CLV_USAGE_TRANSIENT, N, C);
    uint32_t z = add(&g, CLV_USAGE_TRANSIENT, N, C);
    uint32_t row = add(&g, CLV_USAGE_INPUT, 0, C);
    uint32_t of_row = add(&g, CLV_USAGE_TRANSIENT, 0, C);
    uint32_t out_y = add(&g, CLV_USAGE_OUTPUT, N, C);
    uint32_t out_z = add(&g, CLV_USAGE_OUTPUT, N, C);
    for (int64_t i = 0; i < N; i++)
        kit_set(&g, ids, 0, i, (double)(N - 1 - i));
    KIT_NODE(&g, CLV_OP_SILU, t, a);
    KIT_NODE(&g, CLV_OP_GELU, late, b);
    if (what == STATE_SET || what == STATE_SET_TWICE)
        KIT_NODE(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, state, b, ids);
    if (what == STATE_READ || what == STATE_SET_TWICE)
        KIT_NODE(&g, CLV_OP_ADD, y, b, what == STATE_READ ? state : late);
    if (what == ONE_ROW)
        KIT_NODE(&g, CLV_OP_SILU, of_row, row);
    if (what == STATE_SET_TWICE || what == STATE_READ)
        KIT_NODE(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, state, t, ids);
    else if (what == ONE_ROW)
        KIT_NODE(&g, CLV_OP_ADD, y, t, of_row);
    else
        KIT_NODE(&g, CLV_OP_ADD, y, t, what == STATE_SET ? state : late);
    KIT_NODE(&g, CLV_OP_MUL, z, what == TWO_READERS ? t : a, late);
    KIT_NODE(&g, CLV_OP_CONVERT, out_y, y);
    KIT_NODE(&g, CLV_OP_CONVERT, out_z, z);
    judge(k, &g, KIT_RUN_TWICE);
}

/* ------------------------------------------------------------------------ */

void kit_list_graphs(kit_list *list)
{
    enum { MAX_BLOCK = 32 }; /* every row of a weight is a multiple of it */
    static uint32_t weights[CLV_DTYPE_COUNT];
    for (uint32_t i = 0; (weights[i] = kit_real(i)); i++) {
        const uint32_t *dtype = &weights[i];
        const char *name = kit_dtype_name(*dtype);
        if (MAX_BLOCK % kit_block_length(*dtype))
            continue;
        kit_add(list, KIT_PER_DEVICE, 0, run_layer, dtype, "graph.layer.%s",
                name);
        kit_add(list, KIT_PER_DEVICE, KIT_NEEDS_IMPORT, run_imported_layer,
                dtype, "graph.layer_imported.%s", name);
        kit_add(list, KIT_PER_DEVICE, 0, run_bucket, dtype, "graph.bucket.%s",
                name);
        kit_add(list, KIT_PER_DEVICE, 0, run_feed_forward, dtype,
                "graph.feed_forward.%s", name);
        kit_add(list, KIT_PER_DEVICE, 0, run_ends, dtype, "graph.ends.%s",
                name);
        kit_add(list, KIT_PER_DEVICE, 0, run_changed, dtype, "graph.changed.%s",
                name);
    }
    static const uint32_t orders[] = {TWO_READERS,     LATE_OPERAND, STATE_SET,
                                      STATE_SET_TWICE, STATE_READ,   ONE_ROW};
    for (uint32_t i = 0; i < sizeof orders / sizeof *orders; i++)
        kit_add(list, KIT_PER_DEVICE, 0, run_order, &orders[i],
                "graph.order.%s", order_names[i]);
}
