/* The trace, read back with an independent JSON parser. */
#include "../plugins/ref/context.h"

#include <cjson/cJSON.h>
#include <pthread.h>

#include "../../core/context/device_use.h"
#include "../../core/context/trace.h"

static cJSON *write_and_parse(clv_context *ctx)
{
    char path[1024];
    clv_file_map map;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    snprintf(path, sizeof path, "%s/tests/core/trace.json", build);
    assert_ok(clv_trace_write(ctx, path));
    assert_ok(clv_file_map_open(path, &map));
    cJSON *json = cJSON_ParseWithLength((const char *)map.data, map.size);
    clv_file_map_close(&map);
    remove(path);
    assert_non_null(json);
    return json;
}

static const char *string_of(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
}

static int int_of(const cJSON *object, const char *key)
{
    return (int)cJSON_GetNumberValue(cJSON_GetObjectItem(object, key));
}

/* Spans of this name; *last is one of them. */
static int count_spans(const cJSON *json, const char *name, const cJSON **last)
{
    int n = 0;
    const cJSON *event;
    cJSON_ArrayForEach (event, cJSON_GetObjectItem(json, "traceEvents")) {
        if (!strcmp(string_of(event, "ph"), "X") &&
            !strcmp(string_of(event, "name"), name)) {
            n++;
            if (last)
                *last = event;
        }
    }
    return n;
}

/* The name that metadata gives to a span's process or thread. */
static const char *label_of(const cJSON *json, const cJSON *span,
                            const char *what)
{
    const cJSON *event;
    cJSON_ArrayForEach (event, cJSON_GetObjectItem(json, "traceEvents")) {
        if (!strcmp(string_of(event, "ph"), "M") &&
            !strcmp(string_of(event, "name"), what) &&
            int_of(event, "pid") == int_of(span, "pid") &&
            (!strcmp(what, "process_name") ||
             int_of(event, "tid") == int_of(span, "tid")))
            return string_of(cJSON_GetObjectItem(event, "args"), "name");
    }
    return "";
}

static void test_spans(void **state)
{
    (void)state;
    const cJSON *span;
    test_context t = test_context_create("");
    const char *odd = "a \"quoted\" \\ \t \x01 \xc3\xa9 name";
    clv_trace_span(t.ctx, "main", "before", 0, 1);
    clv_trace_enable(t.ctx, true);
    assert_true(clv_trace_enabled(t.ctx));
    clv_trace_span(t.ctx, "main", "first", 5000, 6500);
    clv_trace_span(t.ctx, "other \"track\"", odd, 6000001, 8000003);
    clv_trace_span(t.ctx, "main", "broken \xff\xc3(", 7000, 6000);
    clv_trace_enable(t.ctx, false);
    clv_trace_span(t.ctx, "main", "after", 0, 1);
    cJSON *json = write_and_parse(t.ctx);
    assert_int_equal(count_spans(json, "before", NULL), 0);
    assert_int_equal(count_spans(json, "after", NULL), 0);
    assert_int_equal(count_spans(json, "first", &span), 1);
    assert_string_equal(label_of(json, span, "thread_name"), "main");
    assert_string_equal(label_of(json, span, "process_name"), "real time");
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(span, "dur")),
                       1.5, 1e-9);
    assert_int_equal(count_spans(json, odd, &span), 1);
    assert_string_equal(label_of(json, span, "thread_name"), "other \"track\"");
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(span, "ts")),
                       5995.001, 1e-6);
    assert_float_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(span, "dur")),
                       2000.002, 1e-6);
    assert_int_equal(
        count_spans(json, "broken \xef\xbf\xbd\xef\xbf\xbd(", &span), 1);
    assert_int_equal(int_of(span, "dur"), 0);
    cJSON_Delete(json);
    test_context_destroy(&t);
}

#define N_THREADS 4
#define N_SPANS 2000

static void *add_spans(void *arg)
{
    clv_context *ctx = arg;
    char name[32];
    for (int i = 0; i < N_SPANS; i++) {
        snprintf(name, sizeof name, "span %d", i % 700);
        clv_trace_span(ctx, core_trace_host_track(), name, (uint64_t)i,
                       (uint64_t)i + 1);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    pthread_t threads[N_THREADS];
    clv_trace_enable(t.ctx, true);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, add_spans, t.ctx);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    cJSON *json = write_and_parse(t.ctx);
    int n = 0;
    for (int i = 0; i < 700; i += 100) {
        char name[32];
        snprintf(name, sizeof name, "span %d", i);
        n = count_spans(json, name, NULL);
        assert_int_equal(n, N_THREADS * (N_SPANS / 700 + (i < N_SPANS % 700)));
    }
    cJSON_Delete(json);
    test_context_destroy(&t);
}

/* Runs on a device with either clock: it has a track in the process of its
 * clock, beside the host's in real time. */
static void trace_run(bool is_virtual)
{
    const cJSON *span;
    test_context t = test_context_create(
        is_virtual ? "ref.virtual0=on ref.virtual1=on" : "");
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    assert_ok(clv_graph_create(&g));
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 1,
                                  (clv_dim[]){clv_dim_fixed(4)});
    clv_graph_output(g, clv_graph_silu(g, x), "y");
    assert_ok(clv_plan_create(t.ctx, g, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    assert_ok(clv_exec_run(exec, NULL, 0));
    clv_trace_enable(t.ctx, true);
    uint64_t begin = clv_now_ns();
    assert_ok(clv_exec_run(exec, NULL, 0));
    assert_ok(clv_exec_run(exec, NULL, 0));
    uint64_t length = clv_now_ns() - begin;
    cJSON *json = write_and_parse(t.ctx);
    assert_int_equal(count_spans(json, "run \"0\"", &span), 2);
    assert_string_equal(label_of(json, span, "thread_name"), "ref:0");
    assert_string_equal(label_of(json, span, "process_name"),
                        is_virtual ? "virtual time" : "real time");
    double end = cJSON_GetNumberValue(cJSON_GetObjectItem(span, "ts")) +
                 cJSON_GetNumberValue(cJSON_GetObjectItem(span, "dur"));
    assert_true(is_virtual || (end >= 0 && end * 1000 <= (double)length + 1));
    assert_int_equal(count_spans(json, "submit", &span), 2);
    assert_string_equal(label_of(json, span, "process_name"), "real time");
    assert_true(strstr(label_of(json, span, "thread_name"), "host"));
    cJSON_Delete(json);
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    test_context_destroy(&t);
}

static void test_run_is_traced(void **state)
{
    (void)state;
    trace_run(false);
    trace_run(true);
}

/* Spans of nodes lie in those of their program, some lie outside of the runs,
 * and two runs overlap. */
static void test_devices(void **state)
{
    (void)state;
    test_context t = test_context_create("ref.virtual1=on");
    clv_device *real = clv_context_device(t.ctx, 0);
    clv_device_use use[3];
    assert_int_equal(clv_trace_devices(t.ctx, use, 3), 0);
    core_device_use_add_run(t.ctx, CLV_CLOCK_REAL, 100, 200);
    core_device_use_add_run(t.ctx, CLV_CLOCK_REAL, 300, 450);
    core_device_use_add_run(t.ctx, CLV_CLOCK_REAL, 400, 500);
    core_device_use_add_run(t.ctx, CLV_CLOCK_VIRTUAL, 0, 1000);
    core_device_use_add(t.ctx, real, 110, 120);
    core_device_use_add(t.ctx, real, 120, 130);
    core_device_use_add(t.ctx, real, 105, 140); /* the program of both */
    core_device_use_add(t.ctx, real, 490, 600);
    core_device_use_add(t.ctx, real, 190, 310); /* of another queue */
    core_device_use_add(t.ctx, clv_context_device(t.ctx, 1), 1, 2);
    assert_int_equal(clv_trace_devices(t.ctx, use, 1), 2);
    assert_int_equal(clv_trace_devices(t.ctx, use, 3), 2);
    assert_string_equal(use[0].device, "ref:0");
    assert_float_equal(use[0].busy_ns, 35 + 10 + 10 + 10, 0);
    assert_float_equal(use[0].run_ns, 100 + 200, 0);
    assert_false(use[0].is_virtual);
    assert_float_equal(use[1].busy_ns, 1, 0);
    assert_float_equal(use[1].run_ns, 1000, 0);
    assert_true(use[1].is_virtual);
    clv_trace_forget_devices(t.ctx);
    assert_int_equal(clv_trace_devices(t.ctx, use, 3), 2);
    assert_float_equal(use[0].busy_ns + use[0].run_ns, 0, 0);
    test_context_destroy(&t);
}

static void test_unwritable(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    assert_int_not_equal(clv_trace_write(t.ctx, "/nonexistent/trace.json"),
                         CLV_OK);
    assert_error_says("/nonexistent/trace.json");
    test_context_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans),         cmocka_unit_test(test_threads),
        cmocka_unit_test(test_run_is_traced), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_unwritable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
