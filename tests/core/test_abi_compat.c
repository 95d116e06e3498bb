/*
 * Plugins built against other releases of plugin.h, and ones whose table is
 * wrong: the host runs graphs on the former and says what is wrong with the
 * latter. Compiled a second time with a host of the newer release.
 */
#include "../../core/plugin/abi_v1.h"
#include "../../core/device/caps.h"
#include "../../core/device/submit.h"
#include "../../core/device/device.h"
#include "../../core/graph/graph.h"
#include "test.h"

#include "message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define N 5
#define C 8

typedef struct fixture {
    clv_config *config;
    clv_context *ctx;
} fixture;

/* settings: separated by blanks. */
static fixture begin(const char *plugin, const char *settings)
{
    fixture f;
    char text[2048], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/versions:%s/tests/plugins/ref "
             "core.cache_dir=%s/tests/core core.allow_unsafe_plugins=on "
             "core.plan=first core.plugins=%s %s",
             build, build, build, plugin, settings);
    assert_ok(clv_config_create(&f.config));
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(f.config, word, "test"));
    clv_context_params params = {.config = f.config};
    assert_ok(clv_context_create(&params, &f.ctx));
    return f;
}

static void finish(fixture *f)
{
    clv_context_destroy(f->ctx);
    clv_config_destroy(f->config);
}

/* ------------------------------------------------------------------------ */
/* A graph: silu(x w^T) + x, a part on each device                           */

typedef struct example {
    clv_graph *graph;
    clv_value x, y;
    clv_tensor *w;
    float weights[C * C];
} example;

static void make_example(clv_context *ctx, example *e)
{
    const int64_t dims[] = {C, C};
    test_random r = {1};
    for (int i = 0; i < C * C; i++)
        e->weights[i] = test_float(&r);
    assert_ok(clv_graph_create(&e->graph));
    assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, 2, dims, &e->w));
    memcpy(clv_tensor_data(e->w), e->weights, sizeof e->weights);
    clv_dim rows = clv_graph_symbol(e->graph, "n", 1, N);
    e->x = clv_graph_input(e->graph, "x", CLV_DTYPE_F32, 2,
                           (clv_dim[]){rows, clv_dim_fixed(C)});
    clv_value w = clv_graph_weight(e->graph, "w", e->w);
    clv_value h = clv_graph_silu(
        e->graph, clv_graph_matmul(e->graph, e->x, w, CLV_NO_TENSOR));
    e->y = clv_graph_add(e->graph, h, e->x);
    clv_graph_output(e->graph, e->y, "y");
}

static void check_result(const example *e, const float *x, const float *y)
{
    for (int i = 0; i < N; i++) {
        for (int o = 0; o < C; o++) {
            double sum = 0;
            for (int c = 0; c < C; c++)
                sum += (double)x[i * C + c] * (double)e->weights[o * C + c];
            sum = sum / (1 + exp(-sum)) + (double)x[i * C + o];
            assert_true(fabs((double)y[i * C + o] - sum) < 1e-5);
        }
    }
}

static void run_example(clv_context *ctx)
{
    example e;
    clv_plan *plan;
    clv_exec *exec;
    test_random r = {2};
    const int64_t n = N;
    make_example(ctx, &e);
    assert_ok(clv_plan_create(ctx, e.graph, NULL, &plan));
    assert_int_equal(clv_plan_summarise(plan).n_steps, 2);
    assert_ok(clv_exec_create(plan, &exec));
    clv_trace_enable(ctx, true);
    float *x = clv_tensor_data(clv_exec_tensor(exec, e.x));
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < N * C; i++)
            x[i] = test_float(&r);
        assert_ok(clv_exec_run(exec, &n, 1));
        check_result(&e, x, clv_tensor_data(clv_exec_tensor(exec, e.y)));
    }
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(e.graph);
    clv_tensor_destroy(e.w);
}

/* The answers about the graph, and what else a plan would ask for. */
static void ask_device(clv_device *dev, const example *e)
{
    clv_op_caps caps[3];
    clv_subgraph view = core_graph_view(e->graph);
    assert_int_equal(view.n_nodes, 3);
    assert_ok(core_device_caps(dev, &view, caps));
    for (int i = 0; i < 3; i++)
        assert_null(caps[i].header.next);
    assert_int_equal(caps[0].answer, CLV_ANSWER_YES);
    assert_int_equal(caps[2].answer, CLV_ANSWER_NO);
    assert_int_equal(dev->n_mem_types, 4);
    assert_null(dev->info.header.next);
}

static void check_accepted(const char *plugin)
{
    char settings[256];
    snprintf(settings, sizeof settings,
             "%s.ops0=matmul,silu %s.ops1=add %s.flag_wait1=on", plugin, plugin,
             plugin);
    fixture f = begin(plugin, settings);
    const clv_candidate *c = NULL;
    for (uint32_t i = 0; i < clv_context_candidate_count(f.ctx); i++)
        if (clv_context_candidate(f.ctx, i)->stage == CLV_STAGE_READY)
            c = clv_context_candidate(f.ctx, i);
    assert_non_null(c);
    assert_string_equal(c->plugin, plugin);
    assert_int_equal(clv_context_device_count(f.ctx), 2);
    example e;
    make_example(f.ctx, &e);
    ask_device(clv_context_device(f.ctx, 0), &e);
    clv_graph_destroy(e.graph);
    clv_tensor_destroy(e.w);
    run_example(f.ctx);
    finish(&f);
}

static void test_same(void **state)
{
    (void)state;
    check_accepted("ref");
}

static void test_old(void **state)
{
    (void)state;
    check_accepted("old");
    fixture f = begin("old", "");
    clv_device *dev = clv_context_device(f.ctx, 0);
    assert_int_equal(dev->plugin->abi_version, 1);
    assert_non_null(dev->api->calibrate);
    assert_null(dev->api->fault_inject); /* what it lacks is NULL */
    assert_int_equal(dev->api->header.struct_size, sizeof(clv_plugin_api));
    finish(&f);
}

static void test_newer(void **state)
{
    (void)state;
    check_accepted("newer");
    fixture f = begin("newer", "");
    clv_device *dev = clv_context_device(f.ctx, 0);
    assert_int_equal(dev->plugin->abi_version, CLV_ABI_VERSION);
    assert_non_null(dev->api->fault_inject);
    assert_int_equal(dev->api->header.struct_size, sizeof(clv_plugin_api));
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* Extensions that must be understood                                        */

static clv_status new_timeline(clv_device *dev)
{
    core_timeline *tl;
    clv_status status = core_timeline_create(dev, 0, &tl);
    if (!status)
        core_timeline_destroy(tl);
    return status;
}

static clv_status new_program(clv_device *dev, const clv_subgraph *view)
{
    clv_subgraph graph = *view;
    core_program *prog;
    clv_node add = view->nodes[2];
    clv_tensor_desc tensors[8];
    assert_true(view->n_tensors <= 8);
    memcpy(tensors, view->tensors, view->n_tensors * sizeof *tensors);
    for (uint32_t i = 0; i < view->n_tensors; i++)
        if (tensors[i].usage == CLV_USAGE_WEIGHT)
            tensors[i].usage = CLV_USAGE_INPUT; /* nothing to bind */
    graph.tensors = tensors;
    graph.nodes = &add;
    graph.n_nodes = 1;
    core_compile compile = {.graph = &graph};
    clv_status status = core_program_compile(dev, &compile, &prog);
    if (!status)
        core_program_destroy(prog);
    return status;
}

/* One traced fill, and its record. */
static clv_status read_trace(clv_device *dev)
{
    core_buffer *buf;
    core_timeline *tl;
    clv_trace_record record;
    uint32_t n = 1;
    assert_ok(core_buffer_alloc(dev, 0, 4096, &buf));
    assert_ok(core_timeline_create(dev, 0, &tl));
    core_command fill = {.kind = CLV_COMMAND_FILL, .dst = buf, .size = 4096};
    core_point signal = {tl, 1};
    core_submit submit = {.commands = &fill,
                          .n_commands = 1,
                          .signals = &signal,
                          .n_signals = 1,
                          .correlation = 7};
    assert_ok(core_device_submit(dev, &submit));
    assert_ok(core_timeline_wait(tl, 1, 0, 5000000000u));
    clv_status status = core_device_trace_read(dev, &n, &record);
    if (!status)
        assert_int_equal(n, 1);
    core_timeline_destroy(tl);
    core_buffer_free(buf);
    return status;
}

static clv_status call(clv_device *dev, const char *what,
                       const clv_subgraph *view)
{
    clv_op_caps caps[3];
    clv_calibration calibration;
    if (!strcmp(what, "caps"))
        return core_device_caps(dev, view, caps);
    if (!strcmp(what, "timeline"))
        return new_timeline(dev);
    if (!strcmp(what, "program"))
        return new_program(dev, view);
    if (!strcmp(what, "trace"))
        return read_trace(dev);
    assert_string_equal(what, "calibration");
    return core_device_calibrate(dev, &calibration);
}

static void test_required_in_answers(void **state)
{
    (void)state;
    static const char *const answers[] = {"caps", "timeline", "program",
                                          "trace", "calibration"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        fixture f = begin("newer", "");
        clv_device *dev = clv_context_device(f.ctx, 0);
        assert_non_null(dev);
        example e;
        make_example(f.ctx, &e);
        clv_subgraph view = core_graph_view(e.graph);
        assert_ok(call(dev, answers[i], &view));
        setenv("CLEAVE_TEST_REQUIRED", answers[i], 1);
        assert_int_equal(call(dev, answers[i], &view), CLV_ERR_UNSUPPORTED);
        assert_message("device 'newer:0'|extension|newer one");
        unsetenv("CLEAVE_TEST_REQUIRED");
        assert_ok(call(dev, answers[i], &view));
        clv_graph_destroy(e.graph);
        clv_tensor_destroy(e.w);
        finish(&f);
    }
}

/* ------------------------------------------------------------------------ */
/* Refusals                                                                  */

/* The plugin, started with this variable set, stops for these reasons. */
static void check_refused(const char *plugin, const char *variable,
                          const char *value, uint32_t stage, clv_status status,
                          const char *parts)
{
    setenv(variable, value, 1);
    fixture f = begin(plugin, "");
    unsetenv(variable);
    const clv_candidate *c = NULL;
    char name[64];
    snprintf(name, sizeof name, "cleave_%s.so", plugin);
    for (uint32_t i = 0; i < clv_context_candidate_count(f.ctx); i++)
        if (strstr(clv_context_candidate(f.ctx, i)->path, name))
            c = clv_context_candidate(f.ctx, i);
    assert_non_null(c);
    if (c->status != status || c->stage != stage)
        fail_msg("%s: stage %s, status %s: %s", value,
                 clv_load_stage_name(c->stage), clv_status_name(c->status),
                 c->reason);
    clv_error(c->status, "%s", c->reason);
    assert_message(parts);
    assert_int_equal(clv_context_device_count(f.ctx), 0);
    finish(&f);
}

static void check_wrong(const char *value, uint32_t stage, clv_status status,
                        const char *parts)
{
    check_refused("wrong", "CLEAVE_TEST_WRONG", value, stage, status, parts);
}

static void test_versions(void **state)
{
    (void)state;
    char mine[32];
    snprintf(mine, sizeof mine, "1 to %u", CLV_ABI_VERSION);
    char parts[64];
    snprintf(parts, sizeof parts, "0 to 0|%s", mine);
    check_wrong("version_0", CLV_STAGE_MAPPED, CLV_ERR_VERSION, parts);
    snprintf(parts, sizeof parts, "7 to 7|%s", mine);
    check_wrong("version_new", CLV_STAGE_MAPPED, CLV_ERR_VERSION, parts);
    check_wrong("version_lie", CLV_STAGE_MAPPED, CLV_ERR_VERSION, parts);
}

static void test_query(void **state)
{
    (void)state;
    check_wrong("no_table", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL, "no table");
    check_wrong("status", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                "does not say why");
    check_wrong("positive", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                "does not say why");
    check_wrong("reason", CLV_STAGE_MAPPED, CLV_ERR_UNSUPPORTED,
                "refuses: rrrr");
}

static void test_tables(void **state)
{
    (void)state;
    char size[64];
    snprintf(size, sizeof size, "%zu bytes|the %d of",
             offsetof(clv_plugin_api, calibrate), (int)CORE_V1_PLUGIN_API);
    check_wrong("short", CLV_STAGE_MAPPED, CLV_ERR_VERSION, size);
    check_wrong("no_size", CLV_STAGE_MAPPED, CLV_ERR_VERSION, "0 bytes");
    check_wrong("type", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL, "type 3, not 4");
    check_wrong("loop", CLV_STAGE_MAPPED, CLV_ERR_UNSUPPORTED, "extension");
    check_wrong("name_other", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                "'other'|'wrong'");
    check_wrong("name_endless", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL, "'xxxx");
    check_wrong("option_short", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                "option 1");
    check_wrong("option_type", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                "option 1");
    check_wrong("option_stride", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                "options is malformed");
    check_wrong("option_count", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                "1000000000 options");
    check_wrong("option_key", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                "option 1|no proper name");
    check_wrong("null:options", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                "options is malformed");
}

static void test_mandatory_members(void **state)
{
    (void)state;
    static const char *const slots[] = {
        "create",           "quiesce",         "destroy",
        "enumerate",        "device_open",     "device_close",
        "mem_types",        "op_caps",         "buffer_alloc",
        "buffer_free",      "buffer_unmap",    "timeline_create",
        "timeline_destroy", "timeline_query",  "timeline_signal",
        "timeline_fail",    "timeline_wait",   "program_compile",
        "program_info",     "program_destroy", "submit"};
    char value[64], parts[80];
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        snprintf(value, sizeof value, "null:%s", slots[i]);
        snprintf(parts, sizeof parts, "lacks the mandatory %s()", slots[i]);
        check_wrong(value, CLV_STAGE_MAPPED, CLV_ERR_INTERNAL, parts);
    }
    static const char *const strings[] = {"name", "version", "build_id",
                                          "description"};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        snprintf(value, sizeof value, "null:%s", strings[i]);
        check_wrong(value, CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                    "lacks a name, version, build id or description");
    }
}

/* Without each of these the plugin still runs a graph. */
static void test_optional_slots(void **state)
{
    (void)state;
    static const char *const slots[] = {
        "progress",          "buffer_flush",     "buffer_invalidate",
        "program_serialize", "program_validate", "program_load",
        "program_key",       "trace_read",       "calibrate",
        "fault_inject"};
    char value[64];
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        snprintf(value, sizeof value, "null:%s", slots[i]);
        setenv("CLEAVE_TEST_WRONG", value, 1);
        fixture f = begin("wrong", "wrong.ops0=matmul,silu wrong.ops1=add");
        unsetenv("CLEAVE_TEST_WRONG");
        assert_int_equal(clv_context_device_count(f.ctx), 2);
        run_example(f.ctx);
        finish(&f);
    }
}

static void test_required_in_table(void **state)
{
    (void)state;
    check_refused("newer", "CLEAVE_TEST_REQUIRED", "table", CLV_STAGE_MAPPED,
                  CLV_ERR_UNSUPPORTED, "its table|extension");
}

static void test_required_in_devices(void **state)
{
    (void)state;
    check_refused("newer", "CLEAVE_TEST_REQUIRED", "device", CLV_STAGE_CREATED,
                  CLV_ERR_UNSUPPORTED, "device 0|extension");
    check_refused("newer", "CLEAVE_TEST_REQUIRED", "mem_type", CLV_STAGE_READY,
                  CLV_ERR_UNSUPPORTED, "device 'newer:|mem_types|extension");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_old),
        cmocka_unit_test(test_newer),
        cmocka_unit_test(test_required_in_answers),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_mandatory_members),
        cmocka_unit_test(test_optional_slots),
        cmocka_unit_test(test_required_in_table),
        cmocka_unit_test(test_required_in_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
