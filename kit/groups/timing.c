/* Device times, calibration, cost hints. */
#include "../work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS = 256 };

static bool is_virtual(const kit_plugin *p)
{
    return p->info.clock == CLV_CLOCK_VIRTUAL;
}

static clv_calibration calibrate(kit_plugin *p)
{
    clv_calibration c = CLV_INIT(clv_calibration, CLV_STRUCT_CALIBRATION);
    KIT_OK(p->k, p->api.calibrate(p->dev, &c), "calibrate");
    KIT_CHECK(p->k, c.tick_ns > 0 && c.tick_ns < 1e9,
              "calibrate gives a tick_ns of %g", c.tick_ns);
    return c;
}

/* Host time of a device tick, by a calibration. */
static double host_time(const clv_calibration *c, uint64_t tick)
{
    double ticks = tick >= c->device_tick ? (double)(tick - c->device_tick)
                                          : -(double)(c->device_tick - tick);
    return (double)c->host_ns + ticks * c->tick_ns;
}

static uint32_t read_some(kit_plugin *p, clv_trace_record *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (clv_trace_record)CLV_INIT(clv_trace_record,
                                            CLV_STRUCT_TRACE_RECORD);
    uint32_t count = n;
    KIT_OK(p->k, p->api.trace_read(p->dev, &count, out, sizeof *out),
           "trace_read with room for %u", (unsigned)n);
    KIT_CHECK(p->k, count <= n, "trace_read with room for %u counts %u",
              (unsigned)n, (unsigned)count);
    for (uint32_t i = 0; i < count; i++)
        KIT_CHECK(p->k, memchr(out[i].name, 0, sizeof out[i].name),
                  "the name of a trace record has no end");
    return count;
}

/* Records of one submit may come a moment after its signal. */
static uint32_t read_records(kit_plugin *p, clv_trace_record *out,
                             uint32_t least)
{
    uint32_t n = 0;
    for (int i = 0; i < 200 && n < RECORDS; i++) {
        uint32_t got = read_some(p, out + n, RECORDS - n);
        n += got;
        if (!got && n >= least)
            break;
        if (!got)
            kit_sleep(KIT_MS);
    }
    return n;
}

static void drain(kit_plugin *p)
{
    clv_trace_record records[RECORDS];
    uint32_t rounds = 0;
    while (read_some(p, records, RECORDS))
        KIT_CHECK(p->k, ++rounds < 10000, "trace_read never runs out of "
                  "records, though nothing is submitted");
}

/* --- the clocks ----------------------------------------------------------- */

static void run_calibrate(kit *k, const void *arg)
{
    enum { ROUNDS = 20 };
    kit_plugin *p = kit_subject(k);
    clv_calibration first = {0}, last = {0};
    double worst = 0;
    uint64_t error = 0;
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = kit_now();
        clv_calibration c = calibrate(p);
        uint64_t end = kit_now();
        KIT_CHECK(k, !i || c.device_tick >= last.device_tick,
                  "the device's clock went from %llu back to %llu ticks",
                  (unsigned long long)last.device_tick,
                  (unsigned long long)c.device_tick);
        KIT_CHECK(k, c.host_ns >= begin && c.host_ns <= end,
                  "calibrate gives host_ns %llu, the call lasted from %llu to "
                  "%llu (host->now_ns)",
                  (unsigned long long)c.host_ns, (unsigned long long)begin,
                  (unsigned long long)end);
        KIT_CHECK(k, c.max_error_ns <= 100 * KIT_MS,
                  "calibrate gives a max_error_ns of %llu: no use",
                  (unsigned long long)c.max_error_ns);
        if (!i)
            first = c;
        last = c;
        error = c.max_error_ns > error ? c.max_error_ns : error;
        kit_sleep(2 * KIT_MS);
    }
    if (is_virtual(p)) {
        kit_note(k, "the clock is virtual: not compared with the host's");
        return;
    }
    /* What the first says of the last moment, against the last's own word:
     * both errors, and a tenth of a percent for a tick that is a mean. */
    double span = (double)(last.host_ns - first.host_ns);
    worst = fabs(host_time(&first, last.device_tick) - (double)last.host_ns);
    double bound = (double)first.max_error_ns + (double)last.max_error_ns +
                   span * 1e-3 + 1000;
    KIT_CHECK(k, worst <= bound,
              "after %.0f us the device's clock is %.0f ns from where "
              "calibrate put it, with a max_error_ns of %llu",
              span / 1e3, worst, (unsigned long long)error);
    kit_note(k, "tick %.3f ns, off by %.0f ns after %.1f ms, max_error %llu ns",
             last.tick_ns, worst, span / 1e6, (unsigned long long)error);
}

/* --- records -------------------------------------------------------------- */

typedef struct timed {
    kit_plugin *p;
    kit_graph g;
    kit_program prog;
    clv_plugin_timeline *tl;
    uint64_t value;
} timed;

static bool timed_open(kit *k, timed *t)
{
    char reason[KIT_TEXT_SIZE];
    uint32_t output;
    memset(t, 0, sizeof *t);
    t->p = kit_subject(k);
    if (!kit_any_graph(k, t->p, &t->g, KIT_ANY_NODES, &output, reason) &&
        !kit_any_graph(k, t->p, &t->g, 0, &output, reason)) {
        kit_skip(k, "%s", reason);
        return false;
    }
    kit_program_make(&t->g, 0, false, &t->prog);
    kit_program_upload(&t->prog);
    t->tl = kit_timeline(t->p, 0);
    drain(t->p);
    return true;
}

static void timed_close(timed *t)
{
    t->p->api.timeline_destroy(t->tl);
    kit_program_free(&t->prog);
    kit_graph_free(&t->g);
}

static void timed_run(timed *t, uint64_t correlation)
{
    clv_command command = kit_program_command(&t->prog);
    clv_timeline_point done = kit_point(t->tl, ++t->value);
    KIT_OK(t->p->k,
           kit_try_submit(t->p, &command, 1, NULL, &done, correlation),
           "submit with correlation %llu", (unsigned long long)correlation);
    kit_await(t->p, t->tl, t->value, "a program that is traced");
}

static void check_record(kit *k, timed *t, const clv_trace_record *r)
{
    KIT_CHECK(k, r->begin <= r->end,
              "a trace record begins at tick %llu and ends at %llu",
              (unsigned long long)r->begin, (unsigned long long)r->end);
    KIT_CHECK(k, r->name[0], "a trace record has no name");
    KIT_CHECK(k, !r->command, "a trace record is of command %u of 1",
              (unsigned)r->command);
    KIT_CHECK(k, r->node == CLV_NO_TENSOR || r->node < t->g.n_nodes,
              "a trace record is of node %u of %u", (unsigned)r->node,
              (unsigned)t->g.n_nodes);
}

static void run_records(kit *k, const void *arg)
{
    enum { ROUNDS = 8 };
    clv_trace_record records[RECORDS];
    timed t;
    (void)arg;
    if (!timed_open(k, &t))
        return;
    uint64_t last_end = 0;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        timed_run(&t, 0); /* not recorded */
        timed_run(&t, 1000 + i);
        uint32_t n = read_records(t.p, records, 1), nodes = 0, whole = 0;
        KIT_CHECK(k, n, "a submit with correlation %llu left no trace record",
                  (unsigned long long)(1000 + i));
        for (uint32_t j = 0; j < n; j++) {
            check_record(k, &t, &records[j]);
            KIT_CHECK(k, records[j].correlation == 1000 + i,
                      "a trace record has correlation %llu; the submits had 0 "
                      "(not recorded) and %llu",
                      (unsigned long long)records[j].correlation,
                      (unsigned long long)(1000 + i));
            KIT_CHECK(k, records[j].begin >= last_end,
                      "a submit's span begins at tick %llu, an earlier one "
                      "ended at %llu (the queue is in order)",
                      (unsigned long long)records[j].begin,
                      (unsigned long long)last_end);
            whole += records[j].node == CLV_NO_TENSOR;
            nodes += records[j].node != CLV_NO_TENSOR;
        }
        for (uint32_t j = 0; j < n; j++)
            last_end = records[j].end > last_end ? records[j].end : last_end;
        KIT_CHECK(k, whole <= 1, "one command has %u records of the whole",
                  (unsigned)whole);
        kit_note(k, "%u records of nodes, %u of the command, for %u nodes",
                 (unsigned)nodes, (unsigned)whole, (unsigned)t.g.n_nodes);
    }
    timed_close(&t);
}

/* A span lies between the host's clock before submit and after the wait. */
static void run_bracket(kit *k, const void *arg)
{
    clv_trace_record records[RECORDS];
    timed t;
    (void)arg;
    if (is_virtual(kit_subject(k))) {
        kit_skip(k, "the device's clock is virtual");
        return;
    }
    if (!timed_open(k, &t))
        return;
    double widest = 0;
    for (uint64_t i = 1; i <= 20; i++) {
        clv_calibration c = calibrate(t.p);
        uint64_t begin = kit_now();
        timed_run(&t, i);
        uint64_t end = kit_now();
        uint32_t n = read_records(t.p, records, 1);
        double error = (double)c.max_error_ns + 2 * c.tick_ns + 1000 +
                       (double)(end - c.host_ns) * 1e-3;
        for (uint32_t j = 0; j < n; j++) {
            double from = host_time(&c, records[j].begin),
                   to = host_time(&c, records[j].end);
            KIT_CHECK(k, from >= (double)begin - error &&
                             to <= (double)end + error,
                      "the span of \"%s\" lies %.0f ns before its submit and "
                      "%.0f ns after its wait; max_error_ns is %llu",
                      records[j].name, (double)begin - from, to - (double)end,
                      (unsigned long long)c.max_error_ns);
            widest = fmax(widest, (to - from) / (double)(end - begin));
        }
    }
    kit_note(k, "spans fill at most %.0f%% of the host's bracket",
             widest * 100);
    timed_close(&t);
}

/* Records wait until they are read, in pieces, at any stride. */
static void run_pieces(kit *k, const void *arg)
{
    enum { SUBMITS = 5, STRIDE = sizeof(clv_trace_record) + 16 };
    timed t;
    (void)arg;
    if (!timed_open(k, &t))
        return;
    for (uint64_t i = 1; i <= SUBMITS; i++)
        timed_run(&t, i);
    uint8_t room[3 * STRIDE];
    uint64_t last = 0;
    uint32_t total = 0, seen = 0, none = 0;
    KIT_OK(k, t.p->api.trace_read(t.p->dev, &none, NULL, 0),
           "trace_read without room");
    KIT_CHECK(k, none == 0, "trace_read without room counts %u",
              (unsigned)none);
    for (int idle = 0; idle < 50 && seen < (1u << SUBMITS) - 1;) {
        memset(room, 0x77, sizeof room);
        for (int i = 0; i < 2; i++)
            *(clv_header *)(void *)(room + i * STRIDE) = (clv_header){
                sizeof(clv_trace_record), CLV_STRUCT_TRACE_RECORD, NULL};
        uint32_t count = 2;
        KIT_OK(k, t.p->api.trace_read(t.p->dev, &count, (void *)room, STRIDE),
               "trace_read with room for 2");
        KIT_CHECK(k, count <= 2, "trace_read with room for 2 counts %u",
                  (unsigned)count);
        for (uint32_t i = 0; i < sizeof room; i++) {
            uint32_t at = i % STRIDE, e = i / STRIDE;
            uint32_t used = e < count ? sizeof(clv_trace_record)
                            : e < 2   ? sizeof(clv_header)
                                      : 0;
            KIT_CHECK(k, at < used || room[i] == 0x77,
                      "trace_read gives %u records and writes byte %u of "
                      "element %u",
                      (unsigned)count, (unsigned)at, (unsigned)e);
        }
        for (uint32_t i = 0; i < count; i++) {
            const clv_trace_record *r = (const void *)(room + i * STRIDE);
            KIT_CHECK(k, r->correlation >= last && r->correlation >= 1 &&
                             r->correlation <= SUBMITS,
                      "trace_read gives correlation %llu after %llu; submits "
                      "end in order",
                      (unsigned long long)r->correlation,
                      (unsigned long long)last);
            last = r->correlation;
            seen |= 1u << (r->correlation - 1);
            total++;
        }
        if (!count) {
            idle++;
            kit_sleep(KIT_MS);
        }
    }
    KIT_CHECK(k, seen == (1u << SUBMITS) - 1,
              "%u submits with a correlation, trace records of mask %#x of "
              "them", (unsigned)SUBMITS, (unsigned)seen);
    kit_note(k, "%u records of %d submits", (unsigned)total, SUBMITS);
    drain(t.p);
    timed_close(&t);
}

/* --- cost hints ----------------------------------------------------------- */

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
        KIT_CHECK(k, cost >= before, "a cost hint falls from %g ns to %g at "
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
    {CLV_OP_SILU, 1, 64},      {CLV_OP_SILU, 16, 256}, {CLV_OP_ADD, 8, 64},
    {CLV_OP_ADD, 128, 1024},   {CLV_OP_MATMUL, 1, 64}, {CLV_OP_MATMUL, 8, 256},
    {CLV_OP_MATMUL, 64, 256},  {CLV_OP_MATMUL, 8, 1024},
    {CLV_OP_MATMUL, 32, 512}, {CLV_OP_MATMUL, 1, 2048},
};
enum { WORKS = sizeof works / sizeof *works };

static void build_work(kit *k, kit_graph *g, const work *w)
{
    kit_graph_init(k, g);
    uint32_t x =
        kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, w->n, w->c, 0);
    uint32_t b = w->op == CLV_OP_MATMUL
                     ? kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, w->c,
                                      w->c, 0)
                 : w->op == CLV_OP_ADD
                     ? kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, w->n,
                                      w->c, 0)
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
            if (h.confidence && !is_virtual(p)) {
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
    kit_note(k, "rank correlation %.2f with times of %u ops, off by at most a "
             "factor of %.1f", rank, (unsigned)n, worst);
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

static void list(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_calibrate, NULL,
            "calibrate");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_records, NULL, "records");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_bracket, NULL, "bracket");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_pieces, NULL, "pieces");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_COST, run_costs, NULL, "costs");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_COST, run_costs_of_no, NULL,
            "costs.of_no");
}

const kit_group kit_group_timing = {
    "timing", "Timing: device clocks, spans, cost hints", list};
