/* Device times and calibration. */
#include "../work/work.h"

#include <math.h>
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
        KIT_CHECK(p->k, ++rounds < 10000,
                  "trace_read never runs out of "
                  "records, though nothing is submitted");
}

/* --- the clocks ----------------------------------------------------------- */

static void run_calibrate(kit *k, const void *arg)
{
    enum { ROUNDS = 20 };
    kit_plugin *p = kit_under_test(k);
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
    t->p = kit_under_test(k);
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
    KIT_OK(t->p->k, kit_try_submit(t->p, &command, 1, NULL, &done, correlation),
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
    if (is_virtual(kit_under_test(k))) {
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
            KIT_CHECK(
                k, from >= (double)begin - error && to <= (double)end + error,
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
            KIT_CHECK(k,
                      r->correlation >= last && r->correlation >= 1 &&
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
              "them",
              (unsigned)SUBMITS, (unsigned)seen);
    kit_note(k, "%u records of %d submits", (unsigned)total, SUBMITS);
    drain(t.p);
    timed_close(&t);
}

static void list(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_calibrate, NULL,
            "calibrate");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_records, NULL, "records");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_bracket, NULL, "bracket");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_TRACE, run_pieces, NULL, "pieces");
}

const kit_group kit_group_timing = {"timing", "Timing: device clocks, spans",
                                    list};
