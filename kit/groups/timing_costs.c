/* Cost hints: sane, and not unlike what is measured. */
#include "timing.h"

#include <math.h>

static clv_cost_hint hint_of(kit *k, kit_plugin *p, kit_graph *g, uint32_t node)
{
    clv_cost_hint hints[KIT_MAX_NODES];
    for (uint32_t i = 0; i < KIT_MAX_NODES; i++)
        hints[i] = (clv_cost_hint)CLV_INIT(clv_cost_hint, CLV_STRUCT_COST_HINT);
    clv_subgraph graph = kit_subgraph(g);
    KIT_OK(k, p->api.cost_hints(p->dev, &graph, hints, sizeof *hints),
           "cost_hints");
    return hints[node];
}

static double cost_at(const clv_cost_hint *h, int64_t rows)
{
    for (uint32_t i = 0; h->table && i < h->n_table; i++)
        if (h->table[i].rows >= rows)
            return (double)h->table[i].ns;
    return h->n_table && h->table ? (double)h->table[h->n_table - 1].ns
                                  : h->fixed_ns + h->row_ns * (double)rows;
}

static void check_hint(kit *k, const clv_cost_hint *h)
{
    const double all[] = {h->fixed_ns, h->row_ns, h->energy_nj, h->submit_ns,
                          h->wait_ns};
    static const char *const names[] = {"fixed_ns", "row_ns", "energy_nj",
                                        "submit_ns", "wait_ns"};
    for (int i = 0; i < 5; i++)
        KIT_CHECK(k, isfinite(all[i]) && all[i] >= 0 && all[i] < 1e15,
                  "a cost hint's %s is %g", names[i], all[i]);
    KIT_CHECK(k, h->confidence <= CLV_CONFIDENCE_MEASURED,
              "a cost hint's confidence is %u, none of clv_confidence",
              (unsigned)h->confidence);
    KIT_CHECK(k, !h->n_table || h->table,
              "a cost hint counts %u points in a table that is NULL",
              (unsigned)h->n_table);
    for (uint32_t i = 1; i < h->n_table; i++)
        KIT_CHECK(k, h->table[i].rows > h->table[i - 1].rows,
                  "a cost hint's table is not in ascending rows");
    if (h->confidence)
        KIT_CHECK(k, cost_at(h, 1) > 0,
                  "a cost hint with confidence %u says a row costs nothing",
                  (unsigned)h->confidence);
    double before = 0;
    for (int64_t rows = 1; rows <= 4096; rows *= 4) {
        double cost = cost_at(h, rows);
        KIT_CHECK(k, cost >= before,
                  "a cost hint falls from %g ns to %g at "
                  "%lld rows",
                  before, cost, (long long)rows);
        before = cost;
    }
}

/* Ops of unlike weight, to be ranked: [n, c] to [n, c]. */
typedef struct work {
    uint32_t op;
    int64_t n, c;
} work;

static const work works[] = {
    {CLV_OP_SILU, 1, 64},     {CLV_OP_SILU, 16, 256},
    {CLV_OP_ADD, 8, 64},      {CLV_OP_ADD, 128, 1024},
    {CLV_OP_MATMUL, 1, 64},   {CLV_OP_MATMUL, 8, 256},
    {CLV_OP_MATMUL, 64, 256}, {CLV_OP_MATMUL, 8, 1024},
    {CLV_OP_MATMUL, 32, 512}, {CLV_OP_MATMUL, 1, 2048},
};
enum { WORKS = sizeof works / sizeof *works };

static void build_work(kit *k, kit_graph *g, const work *w)
{
    kit_graph_init(k, g);
    uint32_t x =
        kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, w->n, w->c, 0);
    uint32_t b =
        w->op == CLV_OP_MATMUL
            ? kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, w->c, w->c, 0)
        : w->op == CLV_OP_ADD
            ? kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, w->n, w->c, 0)
            : CLV_NO_TENSOR;
    uint32_t y =
        kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, w->n, w->c, 0);
    if (b == CLV_NO_TENSOR)
        KIT_NODE(g, w->op, y, x);
    else
        KIT_NODE(g, w->op, y, x, b);
}

/* Whether its largest tensor may be allocated. */
static bool has_room(const kit_plugin *p, const work *w)
{
    uint64_t size = 4 * (uint64_t)w->c * (uint64_t)(w->n > w->c ? w->n : w->c);
    for (uint32_t t = 0; t < p->n_mem_types; t++)
        if (p->mem_types[t].max_size && p->mem_types[t].max_size < size + 4096)
            return false;
    return true;
}

static double measure(kit_graph *g, kit_plugin *p)
{
    kit_program prog;
    double best = INFINITY;
    kit_program_make(g, 0, false, &prog);
    kit_program_upload(&prog);
    clv_command command = kit_program_command(&prog);
    clv_plugin_timeline *tl = kit_timeline(p, 0);
    uint64_t first = kit_now();
    for (uint64_t i = 1; i <= 12 && kit_now() - first < 50 * KIT_MS; i++) {
        clv_timeline_point done = kit_point(tl, i);
        uint64_t begin = kit_now();
        KIT_OK(p->k, kit_try_submit(p, &command, 1, NULL, &done, 0), "submit");
        kit_await(p, tl, i, "a program that is timed");
        best = fmin(best, (double)(kit_now() - begin));
    }
    p->api.timeline_destroy(tl);
    kit_program_free(&prog);
    return best;
}

/* Pairs that both lists order the same way, less those they do not: -1..1. */
static double rank_correlation(const double *a, const double *b, uint32_t n)
{
    int64_t sum = 0, pairs = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++) {
            double same = (a[i] - a[j]) * (b[i] - b[j]);
            sum += (same > 0) - (same < 0);
            pairs++;
        }
    return pairs ? (double)sum / (double)pairs : 0;
}

static void run_costs(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    double said[WORKS], took[WORKS];
    uint32_t n = 0, least = CLV_CONFIDENCE_MEASURED;
    (void)arg;
    for (uint32_t i = 0; i < WORKS; i++) {
        if (!has_room(p, &works[i]))
            continue;
        kit_graph g;
        char reason[KIT_TEXT_SIZE];
        build_work(k, &g, &works[i]);
        if (kit_takes(&g, reason)) {
            clv_cost_hint h = hint_of(k, p, &g, 0);
            check_hint(k, &h);
            said[n] = cost_at(&h, works[i].n) + h.submit_ns + h.wait_ns;
            if (h.confidence && p->info.clock == CLV_CLOCK_REAL) {
                least = h.confidence < least ? h.confidence : least;
                took[n++] = measure(&g, p);
            }
        }
        kit_graph_free(&g);
    }
    if (n < 4) {
        kit_note(k, "%u ops with a cost that can be timed: no ranking",
                 (unsigned)n);
        return;
    }
    double rank = rank_correlation(said, took, n), worst = 1;
    for (uint32_t i = 0; i < n; i++)
        worst = fmax(worst, fmax(said[i] / took[i], took[i] / said[i]));
    kit_note(k,
             "rank correlation %.2f with times of %u ops, off by at most a "
             "factor of %.1f",
             rank, (unsigned)n, worst);
    KIT_CHECK(k, least < CLV_CONFIDENCE_MEASURED || rank > 0,
              "costs said to be measured order %u ops unlike their times: "
              "rank correlation %.2f",
              (unsigned)n, rank);
}

/* A node that is not taken has no cost, and spoils no other's. */
static void run_costs_of_no(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    kit_graph g;
    char reason[KIT_TEXT_SIZE];
    uint32_t output;
    (void)arg;
    if (!kit_any_graph(k, p, &g, KIT_ANY_NODES, &output, reason)) {
        kit_skip(k, "%s", reason);
        return;
    }
    clv_cost_hint good = hint_of(k, p, &g, 0);
    check_hint(k, &good);
    g.nodes[1].op = 9999;
    clv_cost_hint same = hint_of(k, p, &g, 0), none = hint_of(k, p, &g, 1);
    check_hint(k, &same);
    KIT_CHECK(k, none.confidence == CLV_CONFIDENCE_NONE,
              "cost_hints has confidence %u in the cost of an unknown op",
              (unsigned)none.confidence);
    KIT_CHECK(k, same.fixed_ns == good.fixed_ns && same.row_ns == good.row_ns,
              "cost_hints gives a node another cost beside an unknown op");
    kit_graph_free(&g);
}

void timing_list_costs(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_COST, run_costs, NULL, "costs");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_COST, run_costs_of_no, NULL,
            "costs.of_no");
}
