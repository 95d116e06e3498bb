/*
 * How well profiles predict what was not measured: on every simulated chip,
 * whose times are exact, and on this machine's processor, whose times are not.
 */
#include "layer.h"
#include "../../core/device/caps.h"

#include "../../planner/profile/store.h"

#include <math.h>
#include <stdio.h>

#define TRIES 60 /* works a device and op */

typedef struct rig {
    clv_config *config;
    clv_context *ctx;
    test_layer layer;
} rig;

static const test_shape phone = {.hidden = 2048,
                                 .heads = 32,
                                 .groups = 8,
                                 .head_dim = 64,
                                 .ffn = 8192,
                                 .vocabulary = 8000,
                                 .tokens = 512,
                                 .context = 2048,
                                 .dtype = CLV_DTYPE_I4};
static const test_shape small = {.hidden = 256,
                                 .heads = 8,
                                 .groups = 4,
                                 .head_dim = 32,
                                 .ffn = 704,
                                 .vocabulary = 1000,
                                 .tokens = 128,
                                 .context = 256,
                                 .dtype = CLV_DTYPE_Q8_0};

static void show(void *ctx, uint32_t level, const char *line)
{
    (void)ctx, (void)level;
    printf("%s\n", line);
}

static void rig_make(struct rig *r, const char *conf, const char *plugin,
                     const test_shape *shape)
{
    char text[1024];
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_ok(clv_config_create(&r->config));
    if (conf) {
        snprintf(text, sizeof text, "%s/conf/soc/%s",
                 getenv("CLEAVE_TEST_SOURCE"), conf);
        assert_ok(clv_config_load_file(r->config, text));
        assert_ok(clv_config_set(r->config, "npu_sim.compute=off", "test"));
    }
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins", build);
    assert_ok(clv_config_set(r->config, text, "test"));
    assert_ok(clv_config_set(r->config, "core.cache_dir=", "test"));
    assert_ok(
        clv_config_set(r->config, "core.allow_unsafe_plugins=on", "test"));
    snprintf(text, sizeof text, "core.plugins=%s", plugin);
    assert_ok(clv_config_set(r->config, text, "test"));
    const clv_context_params params = {.config = r->config, .log = show};
    assert_ok(clv_context_create(&params, &r->ctx));
    test_layer_make(&r->layer, r->ctx, shape);
}

static void rig_free(rig *r)
{
    test_layer_free(&r->layer);
    clv_context_destroy(r->ctx);
    clv_config_destroy(r->config);
}

/* ------------------------------------------------------------------------ */
/* Works that were not chosen                                               */

static void cut(const clv_graph *g, const clv_op_caps *caps, test_random *r,
                uint32_t axis, core_piece *piece)
{
    int64_t extent = core_cut_extent(g, piece->node, axis);
    int64_t granule = core_cut_granule(g, piece->node, axis);
    if (clv_split_granularity(caps, axis) > granule)
        granule = clv_split_granularity(caps, axis);
    int64_t parts = extent / granule;
    if (!(caps->split_axes >> axis & 1) || parts < 2 || test_below(r, 2))
        return;
    int64_t part = granule * (1 + test_below(r, (uint32_t)parts - 1));
    piece->ranges[axis] = (core_range){0, part};
}

/* Any part of any node, with any number of rows that the device has. */
static bool random_work(const rig *on, const clv_op_caps *caps, uint32_t node,
                        test_random *r, planner_workload *out)
{
    const clv_graph *g = on->layer.graph;
    const test_shape *s = on->layer.shape;
    core_piece piece = {.node = node};
    if (caps->answer != CLV_ANSWER_YES && caps->answer != CLV_ANSWER_STATIC)
        return false;
    int64_t n = caps->n_static
                    ? caps->static_shapes[test_below(r, caps->n_static)]
                    : (int64_t)pow((double)s->tokens, fabs(test_float(r)));
    if (n > s->tokens)
        n = s->tokens;
    int64_t depth = n + test_below(r, (uint32_t)(s->context - n + 1));
    cut(g, caps, r, CORE_AXIS_ROWS, &piece);
    cut(g, caps, r, CORE_AXIS_CHANNELS, &piece);
    cut(g, caps, r, CORE_AXIS_HEADS, &piece);
    planner_workload_of(g, node, &piece, (const int64_t[]){n, depth}, out);
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median and, of ten, the ninth error of what was predicted for one op. */
static bool errors_of(const rig *on, planner_meter *meter, clv_device *dev,
                      const clv_op_caps *caps, uint32_t op, double out[2])
{
    const clv_graph *g = on->layer.graph;
    double errors[TRIES];
    uint32_t n = 0;
    test_random r = {op};
    planner_profile *profile;
    assert_ok(planner_profile_of(on->ctx, &profile));
    for (int i = 0; i < 20 * TRIES && n < TRIES; i++) {
        uint32_t node = test_below(&r, g->n_nodes);
        planner_workload workload;
        planner_sample sample;
        planner_cost cost;
        char text[PLANNER_WORKLOAD_TEXT];
        if (g->nodes[node].op != op ||
            !random_work(on, &caps[node], node, &r, &workload))
            continue;
        if (!planner_profile_cost(profile, dev, &workload, &cost))
            fail_msg("%s: nothing is known of %s", dev->id,
                     planner_workload_text(&workload, text));
        if (cost.measured)
            continue;
        assert_ok(planner_measure_workload(meter, dev, &workload, &sample));
        errors[n++] = fabs(cost.ns / sample.ns - 1);
    }
    if (!n)
        return false;
    qsort(errors, n, sizeof *errors, compare);
    out[0] = errors[n / 2];
    out[1] = errors[(n - 1) * 9 / 10];
    printf("%-18s %-10s median %5.1f%%, p90 %5.1f%% of %u\n", dev->id,
           core_op_name(op), 100 * out[0], 100 * out[1], n);
    return true;
}

static void check(const char *conf, const char *plugin, const test_shape *shape,
                  double median)
{
    rig r;
    planner_meter *meter;
    char *text;
    rig_make(&r, conf, plugin, shape);
    uint64_t before = clv_now_ns();
    assert_ok(clv_profile_graph(r.ctx, r.layer.graph, NULL));
    printf("%s: %.2f s\n", conf ? conf : plugin,
           (double)(clv_now_ns() - before) / 1e9);
    assert_ok(clv_profile_print(r.ctx, NULL, 0, "md", &text));
    printf("%s\n", text);
    clv_string_free(text);
    assert_ok(planner_meter_create(r.ctx, NULL, &meter));
    clv_subgraph view = core_graph_view(r.layer.graph);
    clv_op_caps *caps = calloc(view.n_nodes, sizeof *caps);
    for (uint32_t d = 0; d < clv_context_device_count(r.ctx); d++) {
        clv_device *dev = clv_context_device(r.ctx, d);
        assert_ok(core_device_caps(dev, &view, caps));
        for (uint32_t op = 1; op < CLV_OP_COUNT; op++) {
            double error[2];
            if (errors_of(&r, meter, dev, caps, op, error) && error[0] > median)
                fail_msg("%s, %s: the median error is %.1f%%", dev->id,
                         core_op_name(op), 100 * error[0]);
        }
    }
    free(caps);
    planner_meter_destroy(meter);
    rig_free(&r);
}

static void test_snapdragon(void **state)
{
    (void)state;
    check("snapdragon-8gen3.ini", "npu_sim", &phone, 0.10);
}

static void test_int8_npu(void **state)
{
    (void)state;
    check("int8-npu.ini", "npu_sim", &phone, 0.10);
}

static void test_two_npus(void **state)
{
    (void)state;
    check("two-npus.ini", "npu_sim", &phone, 0.10);
}

/* What else the machine does is none of the model's fault: errors are shown,
 * and only that all is predicted is asserted. */
static void test_cpu(void **state)
{
    (void)state;
    if (!getenv("CLEAVE_TEST_LONG"))
        skip();
    check(NULL, "cpu", &small, INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapdragon),
        cmocka_unit_test(test_int8_npu),
        cmocka_unit_test(test_two_npus),
        cmocka_unit_test(test_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
