/* Compiling and running. */
#include "programs.h"

#include <stdlib.h>
#include <string.h>

#define UNWRITTEN 0x3c

bool programs_open(kit *k, uint32_t flags, programs_bench *b)
{
    char reason[KIT_TEXT_SIZE];
    b->k = k;
    b->p = kit_under_test(k);
    if (!kit_any_graph(k, b->p, &b->g, flags, &b->output, reason)) {
        kit_skip(k, "%s", reason);
        return false;
    }
    kit_program_make(&b->g, 0, false, &b->prog);
    return true;
}

void programs_close(programs_bench *b)
{
    kit_program_free(&b->prog);
    kit_graph_free(&b->g);
}

clv_status programs_submit(kit_plugin *p, const clv_command *command)
{
    clv_plugin_timeline *tl = kit_timeline(p, 0);
    clv_timeline_point done = kit_point(tl, 1);
    clv_status status = kit_try_submit(p, command, 1, NULL, &done, 0);
    if (!status)
        kit_await(p, tl, 1, "a program");
    p->api.timeline_destroy(tl);
    return status;
}

void programs_run(programs_bench *b, clv_plugin_program *program,
                  const char *what)
{
    kit_tensor *out = &b->g.tensors[b->output];
    memset(out->data, UNWRITTEN, out->size);
    kit_program_upload(&b->prog);
    clv_command command = kit_program_command(&b->prog);
    command.program = program;
    command.n_bindings = b->prog.n_all_bindings;
    KIT_OK(b->k, programs_submit(b->p, &command), "submit of %s", what);
    kit_program_download(&b->prog);
    uint64_t same = 0;
    while (same < out->size && out->data[same] == UNWRITTEN)
        same++;
    KIT_CHECK(b->k, same < out->size, "%s: the output was not written", what);
}

uint8_t *programs_output(programs_bench *b)
{
    const kit_tensor *out = &b->g.tensors[b->output];
    uint8_t *copy = malloc(out->size);
    KIT_CHECK(b->k, copy, "no memory for the case");
    memcpy(copy, out->data, out->size);
    return copy;
}

void programs_same(programs_bench *b, const uint8_t *bytes, const char *what)
{
    const kit_tensor *out = &b->g.tensors[b->output];
    for (uint64_t i = 0; i < out->size; i++)
        KIT_CHECK(b->k, out->data[i] == bytes[i],
                  "%s: byte %llu of the result is %#x, not %#x; the same "
                  "program gives the same bytes",
                  what, (unsigned long long)i, out->data[i], bytes[i]);
}

clv_plugin_program *programs_compile(programs_bench *b, const clv_compile *info,
                                     const char *what)
{
    clv_plugin_program *program = NULL;
    KIT_OK(b->k, b->p->api.program_compile(b->p->dev, info, &program),
           "program_compile %s", what);
    KIT_CHECK(b->k, program, "program_compile answers OK and gives no program");
    return program;
}

static void run_twice(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, KIT_ANY_NODES, &b))
        return;
    programs_run(&b, b.prog.handle, "a program");
    uint8_t *first = programs_output(&b);
    programs_run(&b, b.prog.handle, "a program, again");
    programs_same(&b, first, "a second run");
    if (b.p->info.max_programs != 1) {
        clv_subgraph graph;
        clv_compile info = kit_program_compile_info(&b.prog, &graph);
        clv_plugin_program *twin = programs_compile(&b, &info, "a second time");
        programs_run(&b, twin, "a program compiled again");
        programs_same(&b, first, "a program compiled again");
        b.p->api.program_destroy(b.prog.handle);
        b.prog.handle = twin;
        programs_run(&b, twin, "a program whose twin is gone");
        programs_same(&b, first, "a program whose twin is gone");
    }
    free(first);
    programs_close(&b);
}

static void *copy_of(kit *k, const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    KIT_CHECK(k, copy, "no memory for the case");
    memcpy(copy, data, size);
    return copy;
}

/* All that compile is given is gone after it. */
static void run_keeps_nothing(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, 0, &b))
        return;
    programs_run(&b, b.prog.handle, "a program");
    uint8_t *first = programs_output(&b);
    b.p->api.program_destroy(b.prog.handle);
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&b.prog, &graph);
    const size_t sizes[] = {graph.n_tensors * sizeof(clv_tensor_desc),
                            graph.n_nodes * sizeof(clv_node),
                            graph.n_symbols * sizeof(clv_symbol_range),
                            info.n_weights * sizeof(clv_binding)};
    void *parts[] = {copy_of(k, graph.tensors, sizes[0]),
                     copy_of(k, graph.nodes, sizes[1]),
                     copy_of(k, graph.symbols, sizes[2]),
                     copy_of(k, info.weights, sizes[3])};
    graph.tensors = parts[0];
    graph.nodes = parts[1];
    graph.symbols = graph.n_symbols ? parts[2] : NULL;
    info.weights = info.n_weights ? parts[3] : NULL;
    graph.tensor_stride = sizeof(clv_tensor_desc);
    graph.node_stride = sizeof(clv_node);
    b.prog.handle = programs_compile(&b, &info, "from copies");
    kit_forget(&info, sizeof info);
    kit_forget(&graph, sizeof graph);
    for (int i = 0; i < 4; i++) {
        kit_forget(parts[i], sizes[i]);
        free(parts[i]);
    }
    programs_run(&b, b.prog.handle,
                 "a program whose graph was overwritten after compiling "
                 "(clv_compile.graph is only read during the call)");
    programs_same(&b, first,
                  "a program whose graph and binding arrays were "
                  "overwritten after compiling");
    free(first);
    programs_close(&b);
}

/* --- buckets -------------------------------------------------------------- */

/* Rows that both runs have agree; those beyond are as they were. */
static void check_rows(programs_bench *b, const double *full, int64_t rows,
                       int64_t most, int64_t columns)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double want = full[i * columns + j],
                   diff = kit_get(&b->g, b->output, i, j) - want;
            error += diff * diff;
            norm += want * want;
        }
    KIT_CHECK(b->k, error <= 1e-3 * norm + 1e-30,
              "with symbol value %lld of 1..%lld the rows differ from those of "
              "a full bucket, by a normalised error of %g",
              (long long)rows, (long long)most, error / norm);
    const kit_tensor *out = &b->g.tensors[b->output];
    for (uint64_t i = (uint64_t)(rows * out->stride); i < out->size; i++)
        KIT_CHECK(b->k, out->data[i] == 0x3c,
                  "with symbol value %lld of 1..%lld byte %llu of the output, "
                  "behind its last row, was written",
                  (long long)rows, (long long)most, (unsigned long long)i);
}

static void run_bucket(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, KIT_ANY_SYMBOL, &b))
        return;
    const clv_tensor_desc *desc = &b.g.descs[b.output];
    int64_t most = b.g.ranges[0].max, columns = desc->dims[1];
    const int64_t values[] = {most, 1, 2, most / 2, most - 1, most};
    double *full = calloc((size_t)(most * columns), sizeof *full);
    KIT_CHECK(k, full, "no memory for the case");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        b.g.values[0] = values[i];
        programs_run(&b, b.prog.handle, "a program of a bucket");
        for (int64_t e = 0; !i && e < most * columns; e++)
            full[e] = kit_get(&b.g, b.output, e / columns, e % columns);
        check_rows(&b, full, values[i], most, columns);
    }
    free(full);
    const int64_t bad[] = {0, -1, most + 1, INT64_MAX, INT64_MIN};
    clv_command command = kit_program_command(&b.prog);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b.g.values[0] = bad[i];
        command.symbols = &bad[i];
        kit_expect(k, programs_submit(b.p, &command), CLV_ERR_INVALID,
                   "submit with symbol value %lld, compiled for 1..%lld",
                   (long long)bad[i], (long long)most);
    }
    b.g.values[0] = most;
    command = kit_program_command(&b.prog);
    command.n_symbols = 0;
    kit_expect(k, programs_submit(b.p, &command), CLV_ERR_INVALID,
               "submit without symbol values of a program that has one");
    programs_close(&b);
}

static void run_static(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    programs_bench b;
    (void)arg;
    if (!(p->info.flags & CLV_DEVICE_STATIC_SHAPES)) {
        kit_skip(k, "the device takes ranges");
        return;
    }
    if (!programs_open(k, 0, &b))
        return;
    int64_t n = b.g.descs[b.output].dims[0];
    int64_t least = n > 1 ? 1 : 0;
    uint32_t symbol = kit_make_symbol(&b.g, least, n, n);
    for (uint32_t t = 0; t < b.g.n_tensors; t++)
        if (b.g.descs[t].usage != CLV_USAGE_WEIGHT)
            kit_set_symbol(&b.g, t, 0, symbol);
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&b.prog, &graph);
    clv_plugin_program *program = NULL;
    kit_expect(k, p->api.program_compile(p->dev, &info, &program),
               CLV_ERR_UNSUPPORTED,
               "program_compile for %lld to %lld rows on a device with "
               "CLV_DEVICE_STATIC_SHAPES",
               (long long)least, (long long)n);
    b.g.ranges[0].min = n; /* min == max: a static shape */
    info = kit_program_compile_info(&b.prog, &graph);
    if (p->info.max_programs != 1) {
        KIT_OK(k, p->api.program_compile(p->dev, &info, &program),
               "program_compile for %lld to %lld rows, a static shape",
               (long long)n, (long long)n);
        p->api.program_destroy(program);
    }
    programs_close(&b);
}

/* --- compiling ------------------------------------------------------------ */

typedef struct progress {
    uint32_t calls, cancel_at;
    float last;
    bool wrong;
} progress;

static int on_progress(void *ctx, float fraction)
{
    progress *p = ctx;
    p->wrong |= !(fraction >= p->last && fraction <= 1);
    p->last = fraction;
    return ++p->calls == p->cancel_at;
}

static void run_cancel(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, KIT_ANY_NODES, &b))
        return;
    kit_plugin *p = b.p;
    p->api.program_destroy(b.prog.handle);
    b.prog.handle = NULL;
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&b.prog, &graph);
    progress counted = {0};
    info.progress = on_progress;
    info.progress_ctx = &counted;
    b.prog.handle = programs_compile(&b, &info, "with a progress callback");
    KIT_CHECK(k, !counted.wrong,
              "compiling reports progress that falls, or lies outside 0..1");
    p->api.program_destroy(b.prog.handle);
    uint32_t blocks = p->host.n_blocks;
    for (uint32_t at = 1; at <= counted.calls && at <= 32; at++) {
        progress cancels = {.cancel_at = at};
        info.progress_ctx = &cancels;
        b.prog.handle = NULL;
        kit_expect(k, p->api.program_compile(p->dev, &info, &b.prog.handle),
                   CLV_ERR_CANCELLED,
                   "program_compile whose progress callback answers 1 at call "
                   "%u",
                   (unsigned)at);
        KIT_CHECK(k, !b.prog.handle && cancels.calls == at,
                  "a cancelled program_compile gives a program, or goes on "
                  "calling");
        KIT_CHECK(k, p->host.n_blocks <= blocks,
                  "a cancelled program_compile leaves host allocations");
    }
    info.progress = NULL;
    b.prog.handle = programs_compile(&b, &info, "after cancelled ones");
    programs_run(&b, b.prog.handle, "a program after cancelled ones");
    kit_note(k, "%u progress calls", (unsigned)counted.calls);
    programs_close(&b);
}

static void run_info(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, 0, &b))
        return;
    kit_plugin *p = b.p;
    p->api.program_destroy(b.prog.handle);
    clv_subgraph graph;
    clv_compile compile = kit_program_compile_info(&b.prog, &graph);
    uint64_t begin = kit_now();
    b.prog.handle = programs_compile(&b, &compile, "a small graph");
    uint64_t took = kit_now() - begin;
    clv_program_info info = CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    KIT_OK(k, p->api.program_info(b.prog.handle, &info), "program_info");
    const uint64_t most = 1ull << 32;
    KIT_CHECK(k, info.memory_size < most && info.scratch_size < most,
              "a program of %u small nodes takes %llu bytes, and %llu while "
              "running",
              (unsigned)b.g.n_nodes, (unsigned long long)info.memory_size,
              (unsigned long long)info.scratch_size);
    KIT_CHECK(k,
              p->info.clock == CLV_CLOCK_VIRTUAL ||
                  info.compile_ns <= took + KIT_MS,
              "compile_ns is %llu, the call took %llu",
              (unsigned long long)info.compile_ns, (unsigned long long)took);
    KIT_CHECK(k, info.n_kernels < 1000, "%u small nodes made %u kernels",
              (unsigned)b.g.n_nodes, (unsigned)info.n_kernels);
    kit_note(k, "compiled in %.1f us, %llu bytes", (double)took / 1e3,
             (unsigned long long)info.memory_size);
    programs_close(&b);
}

static void run_max(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    uint32_t most = p->info.max_programs;
    programs_bench b;
    (void)arg;
    if (!most || most > 1024) {
        kit_skip(k, "max_programs is %u: no bound to try", (unsigned)most);
        return;
    }
    if (!programs_open(k, 0, &b))
        return;
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&b.prog, &graph);
    clv_plugin_program **all = calloc(most, sizeof *all), *over = NULL;
    KIT_CHECK(k, all, "no memory for the case");
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 1; i < most; i++)
            all[i] = programs_compile(&b, &info, "within max_programs");
        kit_expect(k, p->api.program_compile(p->dev, &info, &over),
                   CLV_ERR_LIMIT, "program_compile %u at a max_programs of %u",
                   (unsigned)most + 1, (unsigned)most);
        KIT_CHECK(k, !over, "a program_compile that failed gives a program");
        programs_run(&b, b.prog.handle, "a program among max_programs");
        for (uint32_t i = 1; i < most; i++)
            p->api.program_destroy(all[i]);
    }
    free(all);
    programs_close(&b);
}

static void list(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, 0, run_twice, NULL, "twice");
    kit_add(l, KIT_PER_DEVICE, 0, run_keeps_nothing, NULL, "keeps_nothing");
    kit_add(l, KIT_PER_DEVICE, 0, run_bucket, NULL, "bucket");
    kit_add(l, KIT_PER_DEVICE, 0, run_static, NULL, "static_shapes");
    programs_list_bindings(l);
    kit_add(l, KIT_PER_DEVICE, 0, run_cancel, NULL, "cancel");
    kit_add(l, KIT_PER_DEVICE, 0, run_info, NULL, "info");
    kit_add(l, KIT_PER_DEVICE, 0, run_max, NULL, "max_programs");
    programs_list_blobs(l);
}

const kit_group kit_group_programs = {
    "programs", "Programs: compiling, bindings, buckets, bytes", list};
