/* Programs: any number of threads gives the same; no rows at all; what traces
 * and hints say. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

static void make_symbolic(kit_graph *g, int64_t min, int64_t max, int64_t value)
{
    uint32_t symbol = kit_make_symbol(g, min, max, value);
    for (uint32_t t = 0; t < g->n_tensors; t++)
        if (g->descs[t].usage != CLV_USAGE_WEIGHT &&
            g->descs[t].usage != CLV_USAGE_STATE)
            kit_set_symbol(g, t, 0, symbol);
}

/* The same random layer each time, run by what is open now. */
static uint8_t *layer_result(kit *k, uint32_t weights, bool symbolic)
{
    kit_graph g;
    k->random = 12345;
    cpu_layer_graph(k, &g, weights, 70);
    if (symbolic)
        make_symbolic(&g, 1, 70, 70);
    kit_run(&g, 0);
    uint8_t *result = malloc(g.tensors[11].size);
    KIT_CHECK(k, result, "no memory for a result");
    memcpy(result, g.tensors[11].data, g.tensors[11].size);
    kit_graph_free(&g);
    return result;
}

/* Any number of threads, and any bucket a length falls in, give the same. */
static void run_same_results(kit *k, const void *arg)
{
    static const char *const threads[] = {"cpu.threads=1", "cpu.threads=2",
                                          "cpu.threads=3", "cpu.threads=7"};
    static const uint32_t weights[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                       CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};
    uint8_t *first[4] = {0};
    (void)arg;
    for (int t = 0; t < 4; t++) {
        cpu_reopen(k, &threads[t], 1);
        for (int w = 0; w < 4; w++)
            for (int symbolic = 0; symbolic < 2; symbolic++) {
                uint8_t *result = layer_result(k, weights[w], symbolic);
                KIT_CHECK(k,
                          !first[w] || !memcmp(first[w], result, 70 * 64 * 4),
                          "%s%s: other bytes than with one thread, weights "
                          "of %s",
                          threads[t], symbolic ? " by symbol" : "",
                          kit_dtype_name(weights[w]));
                if (first[w])
                    free(result);
                else
                    first[w] = result;
            }
    }
    for (int w = 0; w < 4; w++)
        free(first[w]);
}

/* A bucket that begins at 0 may be run with no rows: nothing is written. */
static void run_no_rows(kit *k, const void *arg)
{
    kit_graph g;
    (void)arg;
    cpu_layer_graph(k, &g, CLV_DTYPE_Q8_0, 70);
    make_symbolic(&g, 0, 70, 0);
    for (int64_t i = 0; i < 70; i++)
        kit_set(&g, 11, i, 0, 12345);
    kit_run(&g, 0);
    for (int64_t i = 0; i < 70; i++)
        KIT_CHECK(k, kit_get(&g, 11, i, 0) == 12345,
                  "row %d of a run without rows was written", (int)i);
    kit_graph_free(&g);
}

/* A weight may be bound in a run too, where it is ignored. */
static void run_weight_bound(kit *k, const void *arg)
{
    const kit_plugin *s = kit_under_test(k);
    clv_plugin_timeline *tl = NULL;
    clv_binding bindings[3];
    kit_program p;
    kit_graph g;
    (void)arg;
    cpu_matmul_graph(k, &g);
    kit_program_make(&g, 0, false, &p);
    memcpy(bindings, p.bindings, 2 * sizeof *bindings);
    bindings[2] = (clv_binding){.tensor = 1};
    clv_command command = kit_program_command(&p);
    command.bindings = bindings;
    command.n_bindings = 3;
    KIT_OK(k, s->api.timeline_create(s->dev, 0, &tl), "timeline_create");
    KIT_OK(k, kit_submit(k, &command, 1, NULL, 0, tl, 1), "submit");
    KIT_OK(k, kit_wait(k, tl, 1), "timeline_wait");
    s->api.timeline_destroy(tl);
    kit_program_free(&p);
    kit_graph_free(&g);
}

/* ------------------------------------------------------------------------ */

static void read_record(kit *k, clv_trace_record *out)
{
    const kit_plugin *s = kit_under_test(k);
    uint32_t n = 1;
    *out =
        (clv_trace_record)CLV_INIT(clv_trace_record, CLV_STRUCT_TRACE_RECORD);
    KIT_OK(k, s->api.trace_read(s->dev, &n, out, sizeof *out), "trace_read");
    KIT_CHECK(k, n == 1, "%u records, not 1", n);
}

static void run_trace(kit *k, const void *arg)
{
    const kit_plugin *s = kit_under_test(k);
    clv_plugin_timeline *tl = NULL;
    clv_trace_record node, whole;
    kit_program p;
    kit_graph g;
    (void)arg;
    cpu_matmul_graph(k, &g);
    kit_program_make(&g, 0, false, &p);
    KIT_OK(k, s->api.timeline_create(s->dev, 0, &tl), "timeline_create");
    clv_command command = kit_program_command(&p);
    clv_timeline_point done = {.timeline = tl, .value = 1};
    clv_submit submit = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    submit.commands = &command;
    submit.n_commands = 1;
    submit.command_stride = sizeof command;
    submit.signals = &done;
    submit.n_signals = 1;
    submit.correlation = 42;
    KIT_OK(k, s->api.submit(s->dev, &submit), "submit");
    KIT_OK(k, kit_wait(k, tl, 1), "timeline_wait");
    read_record(k, &node);
    read_record(k, &whole);
    KIT_CHECK(k,
              !strcmp(node.name, "matmul") && node.node == 0 &&
                  node.correlation == 42,
              "the node's record is '%.47s', node %u of %llu", node.name,
              node.node, (unsigned long long)node.correlation);
    KIT_CHECK(k, !strcmp(whole.name, "run") && whole.node == CLV_NO_TENSOR,
              "the command's record is '%.47s', node %u", whole.name,
              whole.node);
    KIT_CHECK(k,
              whole.begin <= node.begin && node.begin <= node.end &&
                  node.end <= whole.end,
              "a node's times lie outside its command's");
    s->api.timeline_destroy(tl);
    kit_program_free(&p);
    kit_graph_free(&g);
}

static void run_info(kit *k, const void *arg)
{
    const kit_plugin *s = kit_under_test(k);
    struct {
        clv_program_info info;
        uint8_t guard[8];
    } out;
    clv_program_info whole =
        CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    kit_program p;
    kit_graph g;
    (void)arg;
    cpu_matmul_graph(k, &g);
    kit_program_make(&g, 0, false, &p);
    KIT_OK(k, s->api.program_info(p.handle, &whole), "program_info");
    KIT_CHECK(k, whole.n_kernels == 1 && whole.memory_size > 0,
              "a program of one node has %u kernels in %llu bytes",
              whole.n_kernels, (unsigned long long)whole.memory_size);
    /* What an older host's struct does not have is not written. */
    memset(&out, 0x5a, sizeof out);
    out.info.header = (clv_header){offsetof(clv_program_info, compile_ns),
                                   CLV_STRUCT_PROGRAM_INFO, NULL};
    KIT_OK(k, s->api.program_info(p.handle, &out.info), "program_info");
    KIT_CHECK(k,
              out.info.memory_size == whole.memory_size &&
                  out.info.compile_ns == 0x5a5a5a5a5a5a5a5aull &&
                  out.info.n_kernels == 0x5a5a5a5a,
              "program_info wrote past the size of an older struct");
    kit_program_free(&p);
    kit_graph_free(&g);
}

int main(void)
{
    static const kit_case cases[] = {
        {.name = "same_results", .run = run_same_results},
        {.name = "no_rows", .run = run_no_rows},
        {.name = "weight_bound", .run = run_weight_bound},
        {.name = "trace", .run = run_trace},
        {.name = "info", .run = run_info},
    };
    return cpu_cases_run(cases, sizeof cases / sizeof *cases);
}
