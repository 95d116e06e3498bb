/* Programs: chains of ops, shapes, wrong bindings, traces. */
#include "graphs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static plugin p;

static void symbolic_rows(graph *g, int64_t max, int64_t value)
{
    g->n_symbols = 1;
    g->ranges[0] = (clv_symbol_range){1, max};
    g->values[0] = value;
    for (uint32_t t = 0; t < g->n_tensors; t++)
        if (g->descs[t].usage != CLV_USAGE_WEIGHT &&
            g->descs[t].usage != CLV_USAGE_STATE)
            g->descs[t].symbols[0] = 1;
}

/* Any number of threads, and any bucket a length falls in, give the same. */
static void test_same_results(void **state)
{
    static const char *const threads[] = {"1", "2", "3", "7"};
    static const uint32_t weights[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                       CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};
    (void)state;
    for (size_t w = 0; w < 4; w++) {
        graph g = {0};
        layer(&g, weights[w], 70);
        unsigned char *first = NULL;
        for (size_t t = 0; t < 4; t++) {
            plugin q;
            plugin_open(&q, threads[t], NULL);
            memset(g.tensors[11].data, 0, g.tensors[11].size);
            must_run(&q, &g);
            if (t)
                assert_memory_equal(first, g.tensors[11].data,
                                    g.tensors[11].size);
            else
                first = malloc(g.tensors[11].size);
            memcpy(first, g.tensors[11].data, g.tensors[11].size);
            plugin_close(&q);
        }
        symbolic_rows(&g, 70, 70);
        must_run(&p, &g);
        assert_memory_equal(first, g.tensors[11].data, g.tensors[11].size);
        free(first);
        graph_free(&g);
    }
}

/* The part of a bucket that is not used stays as it was. */
static void test_bucket(void **state)
{
    graph g = {0};
    (void)state;
    layer(&g, CLV_DTYPE_F32, 70);
    symbolic_rows(&g, 70, 5);
    for (int64_t i = 0; i < 70; i++)
        set_f32(&g, 11, i, 0, 12345);
    must_run(&p, &g);
    for (int64_t i = 0; i < 70; i++)
        assert_true((get(&g, 11, i, 0) == 12345) == (i >= 5));
    g.ranges[0].min = 0; /* no rows at all */
    g.values[0] = 0;
    for (int64_t i = 0; i < 5; i++)
        set_f32(&g, 11, i, 0, 12345);
    must_run(&p, &g);
    for (int64_t i = 0; i < 5; i++)
        assert_true(get(&g, 11, i, 0) == 12345);
    g.ranges[0].min = 1;
    static const int64_t bad[] = {0, 71, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        g.values[0] = bad[i];
        assert_int_equal(graph_run(&p, &g), CLV_ERR_INVALID);
    }
    graph_free(&g);
}

/* x changes between two products: the second must not use what was prepared
 * for the first. */
static void test_prepared_anew(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        graph g = {0};
        add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_STATE, 2, 32, 0);
        add_tensor(&g, CLV_DTYPE_Q8_0, CLV_USAGE_WEIGHT, 32, 32, 0);
        add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 2, 32, 0);
        add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 2, 32, 0);
        add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 2, 0);
        NODE(&g, CLV_OP_MATMUL, 2, 0, 1);
        if (in_place) {
            NODE(&g, CLV_OP_ADD, 0, 0, 0);
        } else {
            set_i32(&g, 4, 0, 0);
            set_i32(&g, 4, 1, 1);
            NODE(&g, CLV_OP_ADD, 3, 0, 0);
            NODE(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, 0, 3, 4);
        }
        NODE(&g, CLV_OP_MATMUL, 3, 0, 1);
        must_run(&p, &g);
        for (int64_t i = 0; i < 2; i++)
            for (int64_t j = 0; j < 32; j++)
                assert_true(fabs(get(&g, 3, i, j) - 2 * get(&g, 2, i, j)) <
                            1e-4);
        graph_free(&g);
    }
}

/* --- bindings, traces ---------------------------------------------------- */

typedef struct bench {
    graph g;
    clv_plugin_buffer *buffers[MAX_TENSORS];
    clv_binding bindings[MAX_TENSORS];
    clv_plugin_program *program;
} bench;

static clv_status compile(bench *b, const clv_binding *weights, uint32_t n,
                          int (*progress)(void *, float))
{
    clv_subgraph view = graph_view(&b->g);
    clv_compile c = {.header = {sizeof c, CLV_STRUCT_COMPILE, NULL},
                     .graph = &view,
                     .weights = weights,
                     .n_weights = n,
                     .progress = progress};
    return p.api->program_compile(p.dev, &c, &b->program);
}

static void bench_open(bench *b)
{
    memset(b, 0, sizeof *b);
    matmul_graph(&b->g);
    for (uint32_t i = 0; i < 3; i++) {
        tensor *t = &b->g.tensors[i];
        clv_import in = {.header = {sizeof in, CLV_STRUCT_IMPORT, NULL},
                         .handle_type = CLV_HANDLE_HOST_POINTER,
                         .access = i == 2 ? CLV_ACCESS_READ | CLV_ACCESS_WRITE
                                          : CLV_ACCESS_READ,
                         .pointer = t->data,
                         .size = t->size};
        assert_int_equal(p.api->buffer_import(p.dev, 0, &in, &b->buffers[i]),
                         CLV_OK);
        b->bindings[i] = (clv_binding){.tensor = i,
                                       .buffer = b->buffers[i],
                                       .size = t->size};
    }
    assert_int_equal(compile(b, &b->bindings[1], 1, NULL), CLV_OK);
}

static void bench_close(bench *b)
{
    p.api->program_destroy(b->program);
    for (int i = 0; i < 3; i++)
        p.api->buffer_free(b->buffers[i]);
    graph_free(&b->g);
}

static clv_status bench_submit(bench *b, const clv_binding *bindings,
                               uint32_t n, uint64_t correlation)
{
    clv_plugin_timeline *tl = NULL;
    clv_command c = {.header = {sizeof c, CLV_STRUCT_COMMAND, NULL},
                     .kind = CLV_COMMAND_RUN,
                     .program = b->program,
                     .bindings = bindings,
                     .n_bindings = n};
    assert_int_equal(p.api->timeline_create(p.dev, 0, &tl), CLV_OK);
    clv_timeline_point done = {.timeline = tl, .value = 1};
    clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                    .commands = &c,
                    .signals = &done,
                    .n_commands = 1,
                    .command_stride = sizeof c,
                    .n_signals = 1,
                    .correlation = correlation};
    clv_status status = p.api->submit(p.dev, &s);
    if (!status)
        status = p.api->timeline_wait(tl, 1, 0, UINT64_MAX);
    p.api->timeline_destroy(tl);
    return status;
}

static int cancel(void *ctx, float fraction)
{
    (void)ctx;
    assert_true(fraction > 0 && fraction <= 1);
    return 1;
}

static void test_bindings(void **state)
{
    bench b;
    (void)state;
    bench_open(&b);
    const clv_binding x = b.bindings[0], w = b.bindings[1], y = b.bindings[2];
    const clv_binding good[] = {x, y, {.tensor = 1}};
    assert_int_equal(bench_submit(&b, good, 2, 0), CLV_OK);
    assert_int_equal(bench_submit(&b, good, 3, 0), CLV_OK);
    assert_int_equal(bench_submit(&b, good, 1, 0), CLV_ERR_INVALID);
    assert_int_equal(bench_submit(&b, NULL, 0, 0), CLV_ERR_INVALID);
#define INVALID(field, value)                                                 \
    do {                                                                      \
        clv_binding bad[] = {x, y};                                           \
        bad[1].field = value;                                                 \
        assert_int_equal(bench_submit(&b, bad, 2, 0), CLV_ERR_INVALID);       \
    } while (0)
    INVALID(tensor, 3);
    INVALID(buffer, NULL);
    INVALID(buffer, b.buffers[0] /* read-only */);
    INVALID(size, y.size - 1);
    INVALID(size, y.size + 1);
    INVALID(offset, 1);
    INVALID(offset, UINT64_MAX);
#undef INVALID
    clv_binding odd[] = {x, y};
    odd[0].offset = 2; /* splits elements; the buffer is too short as well */
    odd[0].size -= 2;
    assert_int_equal(bench_submit(&b, odd, 2, 0), CLV_ERR_INVALID);

    clv_plugin_program *program = b.program;
    assert_int_equal(compile(&b, NULL, 0, NULL), CLV_ERR_INVALID);
    clv_binding short_weight = w;
    short_weight.size--;
    assert_int_equal(compile(&b, &short_weight, 1, NULL), CLV_ERR_INVALID);
    short_weight.tensor = 9;
    assert_int_equal(compile(&b, &short_weight, 1, NULL), CLV_ERR_INVALID);
    assert_int_equal(compile(&b, &w, 1, cancel), CLV_ERR_CANCELLED);
    assert_ptr_equal(b.program, program);
    bench_close(&b);
}

static void test_trace(void **state)
{
    bench b;
    clv_trace_record records[8];
    clv_calibration c = {.header = {sizeof c, CLV_STRUCT_CALIBRATION, NULL}};
    const clv_host_api *h = &p.host.api;
    (void)state;
    bench_open(&b);
    uint64_t before = h->now_ns(h->host);
    assert_int_equal(bench_submit(&b, (clv_binding[]){b.bindings[0],
                                                      b.bindings[2]},
                                  2, 42),
                     CLV_OK);
    uint64_t after = h->now_ns(h->host);
    for (int i = 0; i < 8; i++)
        records[i].header = (clv_header){sizeof *records,
                                         CLV_STRUCT_TRACE_RECORD, NULL};
    uint32_t n = 1;
    assert_int_equal(p.api->trace_read(p.dev, &n, records, sizeof *records),
                     CLV_OK);
    assert_int_equal(n, 1);
    n = 7;
    assert_int_equal(p.api->trace_read(p.dev, &n, records + 1,
                                       sizeof *records),
                     CLV_OK);
    assert_int_equal(n, 1);
    assert_string_equal(records[0].name, "matmul");
    assert_int_equal(records[0].node, 0);
    assert_int_equal(records[0].correlation, 42);
    assert_string_equal(records[1].name, "run");
    assert_int_equal(records[1].node, CLV_NO_TENSOR);
    assert_true(records[1].begin <= records[0].begin);
    assert_true(records[0].begin <= records[0].end);
    assert_true(records[0].end <= records[1].end);

    assert_int_equal(p.api->calibrate(p.dev, &c), CLV_OK);
    assert_true(c.tick_ns > 0);
    double begin = (double)c.host_ns + ((double)records[1].begin -
                                        (double)c.device_tick) * c.tick_ns;
    double end = (double)c.host_ns + ((double)records[1].end -
                                      (double)c.device_tick) * c.tick_ns;
    assert_true(begin >= (double)before - (double)c.max_error_ns - 1000);
    assert_true(end <= (double)after + (double)c.max_error_ns + 1000);
    bench_close(&b);
}

static void test_info_and_hints(void **state)
{
    bench b;
    clv_program_info info = {.header = {sizeof info, CLV_STRUCT_PROGRAM_INFO,
                                        NULL}};
    clv_cost_hint hint = {.header = {sizeof hint, CLV_STRUCT_COST_HINT, NULL}};
    (void)state;
    bench_open(&b);
    assert_int_equal(p.api->program_info(b.program, &info), CLV_OK);
    assert_int_equal(info.n_kernels, 1);
    assert_true(info.memory_size > 0);
    clv_subgraph view = graph_view(&b.g);
    assert_int_equal(p.api->cost_hints(p.dev, &view, &hint, sizeof hint),
                     CLV_OK);
    assert_int_equal(hint.confidence, CLV_CONFIDENCE_GUESS);
    assert_true(hint.row_ns > 0 && hint.fixed_ns > 0 && hint.submit_ns > 0);
    bench_close(&b);
}

/* What an older host's struct does not have is not written. */
static void test_short_structs(void **state)
{
    struct {
        clv_program_info info;
        unsigned char guard[8];
    } out;
    bench b;
    (void)state;
    bench_open(&b);
    memset(&out, 0x5a, sizeof out);
    out.info.header = (clv_header){offsetof(clv_program_info, compile_ns),
                                   CLV_STRUCT_PROGRAM_INFO, NULL};
    assert_int_equal(p.api->program_info(b.program, &out.info), CLV_OK);
    assert_true(out.info.memory_size != 0x5a5a5a5a5a5a5a5aull);
    assert_true(out.info.compile_ns == 0x5a5a5a5a5a5a5a5aull);
    assert_int_equal(out.info.n_kernels, 0x5a5a5a5a);
    bench_close(&b);
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
        cmocka_unit_test(test_same_results),
        cmocka_unit_test(test_bucket),
        cmocka_unit_test(test_prepared_anew),
        cmocka_unit_test(test_bindings),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_info_and_hints),
        cmocka_unit_test(test_short_structs),
    };
    return cmocka_run_group_tests_name("cpu program", tests, setup, teardown);
}
