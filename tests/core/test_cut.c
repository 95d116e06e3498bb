/*
 * Cutting: a layer of a transformer divided at random over two and three
 * devices gives what one device gives. With the argument "gpu": over devices of
 * the GPU plugins and the CPU; and "all", in more ways.
 */
#include "../plugins/ref/context.h"

#include "../../core/base/sanitizer.h"
#include "../../core/device/device.h"
#include "../../core/device/memory.h"
#include "../../planner/planner.h"

#include "cut_layer.h"
#include "divide.h"
#include "drivers.h"
#include "message.h"

/* Now and then a node of experts is divided as the one before was, so that one
 * reads what the other leaves it. Returns the number of pieces. */
static uint32_t divide_alike(const clv_graph *g, test_random *r, uint32_t node,
                             uint32_t n_devices, core_piece *pieces, uint32_t n)
{
    uint32_t first = n;
    while (first && pieces[first - 1].node == node - 1)
        first--;
    const bool alike = node && core_cut_extent(g, node, CORE_AXIS_EXPERTS) &&
                       core_cut_extent(g, node - 1, CORE_AXIS_EXPERTS) &&
                       !pieces[first].ranges[CORE_AXIS_ROWS].end &&
                       test_below(r, 4);
    if (!alike)
        return test_divide_or_replicate(g, r, node, n_devices, &pieces[n]);
    for (uint32_t i = 0; i < n - first; i++) {
        pieces[n + i] = pieces[first + i];
        pieces[n + i].node = node;
        pieces[n + i].adds = 0;
        if (test_below(r, 4) == 0 && !core_piece_is_whole(&pieces[n + i]))
            pieces[n + i].device = test_below(r, n_devices);
    }
    return n - first;
}

/* Some pieces of devices with memory of their own are sent their weights in
 * each run, or in the first one. */
static void stream_some(test_random *r, clv_device *const *devices,
                        core_piece *pieces, uint32_t n)
{
    const uint32_t part = test_below(r, 3); /* none, half or all */
    uint32_t type;
    for (uint32_t i = 0; i < n; i++) {
        const clv_device *dev = devices[pieces[i].device];
        const bool streams =
            core_device_has_local(dev, &type) && test_below(r, 2) < part;
        pieces[i].streamed = !streams ? CORE_STREAM_NOT
                             : dev->info.copy_queues && test_below(r, 2)
                                 ? CORE_STREAM_ONCE
                                 : CORE_STREAM_EACH;
    }
}

/* Copies of a device that cannot import the host's memory, from and to memory
 * that both see. */
static uint32_t count_direct(const clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_copy *copy = &plan->copies[i];
        n += plan->devices[plan->parts[copy->part].device].staged &&
             !copy->staged && !copy->streams;
    }
    return n;
}

/* Copies of parts of streamed weights, which no node reads by themselves. */
static uint32_t count_divided(const clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_part *part = &plan->parts[plan->copies[i].part];
        const clv_value to = plan->graph->nodes[part->node].outputs[0];
        bool read = !plan->copies[i].streams;
        for (uint32_t p = 0; p < plan->n_parts && !read; p++) {
            const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
            for (uint32_t j = 0; j < node->n_inputs; j++)
                read |= node->inputs[j] == to;
        }
        n += !read;
    }
    return n;
}

static uint32_t direct, divided; /* of all plans of try_plans() */

/* Random plans of one layer; returns how many could be had. bound: of the
 * normalised mean square error. */
static uint32_t try_plans(const test_context *t, test_random *r, int64_t tokens,
                          double bound, uint32_t count)
{
    layer l;
    results want, got;
    clv_plan *plan;
    uint32_t n_devices = clv_context_device_count(t->ctx);
    clv_device *devices[4];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < n_devices; i++) {
        devices[i] = clv_context_device(t->ctx, i);
        /* So little that few of the streamed weights are there at once. */
        if (test_below(r, 2))
            devices[i]->info.memory_size = 1 << 20;
    }
    const clv_plan_params one = {.devices = devices, .n_devices = 1},
                          all = {.devices = devices, .n_devices = n_devices};
    build(&l, t->ctx, r, tokens);
    assert_ok(clv_plan_create(t->ctx, l.graph, &one, &plan));
    run(&l, plan, &want);
    clv_plan_destroy(plan);
    for (uint32_t i = 0; i < count; i++) {
        core_piece pieces[MAX_PIECES];
        uint32_t n = 0;
        for (uint32_t node = 0; node < l.graph->n_nodes; node++)
            n += divide_alike(l.graph, r, node, n_devices, pieces, n);
        stream_some(r, devices, pieces, n);
        clv_status status =
            planner_from_pieces(t->ctx, l.graph, &all, pieces, n, &plan);
        if (status == CLV_ERR_UNSUPPORTED) {
            assert_message("does not take its piece");
            continue;
        }
        assert_ok(status);
        direct += count_direct(plan);
        divided += count_divided(plan);
        run(&l, plan, &got);
        assert_same(&l, &want, &got, bound);
        clv_plan_destroy(plan);
        taken++;
    }
    layer_free(&l);
    return taken;
}

/* Of so many plans: sanitizers find in some what they find in more. */
static uint32_t some(uint32_t n)
{
    return core_sanitizers() ? n / 3 : n;
}

static void test_two_devices(void **state)
{
    (void)state;
    const uint32_t n = some(25);
    test_random r = {41};
    test_context t = test_context_create("");
    for (int64_t tokens = 1; tokens <= MAX_TOKENS; tokens += 4)
        assert_int_equal(try_plans(&t, &r, tokens, EXACT, n), n);
    assert_int_equal(try_plans(&t, &r, 0, EXACT, n), n);
    test_context_destroy(&t);
}

/* Devices that wait for each other without the host, run late and hide what
 * they need not show. */
static void test_two_that_wait(void **state)
{
    (void)state;
    test_random r = {43};
    test_context t = test_context_create(
        "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us0=100 ref.hide0=on "
        "ref.hide1=on ref.in_place0=on");
    assert_int_equal(try_plans(&t, &r, 7, EXACT, some(15)), some(15));
    test_context_destroy(&t);
}

/* Devices with memory of their own, which copy from and to the host's memory by
 * themselves (coherent) or through a buffer (shadow, no import). */
static void test_memories(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "ref.memory0=local,coherent",
        "ref.memory1=local,coherent ref.in_place1=on",
        "ref.memory1=local,coherent ref.copy_queues1=1",
        "ref.memory1=local,shadow ref.import1=off ref.flag_wait0=on",
        "ref.memory0=local,shadow ref.memory1=local,coherent "
        "ref.flag_wait1=on ref.hide0=on ref.delay_us0=50",
        "ref.memory0=local,shadow ref.import0=off ref.in_place0=on "
        "ref.memory1=local,shadow ref.import1=off ref.hide1=on "
        "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us1=50",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        test_random r = {47 + i};
        test_context t = test_context_create(settings[i]);
        assert_true(try_plans(&t, &r, 7, EXACT, some(12)) >= some(10));
        assert_true(try_plans(&t, &r, 1, EXACT, some(12)) >= some(10));
        assert_true(try_plans(&t, &r, 0, EXACT, some(12)) >= some(10));
        test_context_destroy(&t);
        t = test_context_make(settings[i], true);
        assert_true(try_plans(&t, &r, 7, ROUNDED, some(15)) >= some(10));
        assert_true(try_plans(&t, &r, 0, ROUNDED, some(15)) >= some(10));
        test_context_destroy(&t);
    }
    assert_true(divided > 0);
}

static void test_with_cpu(void **state)
{
    (void)state;
    test_random r = {45};
    test_context t = test_context_make("ref.flag_wait1=on", true);
    assert_true(try_plans(&t, &r, 7, ROUNDED, some(40)) >= some(30));
    assert_true(try_plans(&t, &r, 0, ROUNDED, some(20)) >= some(15));
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Over what drives GPUs                                                    */

static bool all; /* the argument */
static char opencl[TEST_DEVICE_ID], vulkan[TEST_DEVICE_ID];

/* setting: one more, or "". */
static test_context gpu_context(const char *devices, const char *setting)
{
    test_context t;
    char text[4096];
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_ok(clv_config_create(&t.config));
    const char *const words[] = {"core.plugins=cpu,opencl,vulkan",
                                 "core.allow_unsafe_plugins=on",
                                 "core.plan=first", setting};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (*words[i])
            assert_ok(clv_config_set(t.config, words[i], "test"));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins", build);
    assert_ok(clv_config_set(t.config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s/tests/core", build);
    assert_ok(clv_config_set(t.config, text, "test"));
    snprintf(text, sizeof text, "core.devices=%s", devices);
    assert_ok(clv_config_set(t.config, text, "test"));
    assert_ok(
        clv_context_create(&(clv_context_params){.config = t.config}, &t.ctx));
    return t;
}

/* The same layers each time, and OpenCL for the same parts, as their kernels
 * need to be compiled. */
static void try_gpus(const char *a, const char *b, const char *setting)
{
    char devices[2 * TEST_DEVICE_ID + 2];
    test_random r = {61};
    snprintf(devices, sizeof devices, "%s,%s", a, b);
    test_context t = gpu_context(devices, setting);
    assert_int_equal(clv_context_device_count(t.ctx), 2);
    const uint32_t count = all ? 3 : 2;
    direct = 0;
    if (all) /* the same kernels for a fixed number of rows */
        assert_int_equal(try_plans(&t, &r, 7, ROUNDED, count), count);
    assert_int_equal(try_plans(&t, &r, 0, ROUNDED, count), count);
    /* Values between devices are not staged; others have no staging. */
    assert_int_equal(direct > 0, *setting != 0);
    test_context_destroy(&t);
}

static void test_gpus_with_cpu(void **state)
{
    (void)state;
    if (all) /* its memory is the host's by other drivers, too */
        try_gpus("cpu", opencl, "");
    try_gpus("cpu", opencl, "opencl.memory=separate");
    try_gpus("cpu", vulkan, "");
}

static void test_gpus(void **state)
{
    (void)state;
    try_gpus(vulkan, opencl, "");
    if (all)
        try_gpus(vulkan, opencl, "opencl.memory=separate");
}

static int run_gpu_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpus_with_cpu),
        cmocka_unit_test(test_gpus),
    };
    test_find_driver("opencl", opencl);
    test_find_driver("vulkan", vulkan);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_two_that_wait),
        cmocka_unit_test(test_with_cpu),
        cmocka_unit_test(test_memories),
    };
    all = argc > 2 && !strcmp(argv[2], "all");
    if (argc > 1 && !strcmp(argv[1], "gpu"))
        return run_gpu_tests();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
