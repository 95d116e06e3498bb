/*
 * Which devices work in plans by costs, and how much: no more than max_share
 * allows, none whose times cannot be compared, and none that brings nothing.
 */
#include "plan_world.h"
#include "made_up.h"
#include "message.h"

#include "../../core/device/subgraph.h"
#include "../../planner/limits.h"
#include "../../planner/profile/store.h"

/* Devices work no more than they may, as the forecast counts it; in each of
 * these cases they would work more than that. Of 300 tokens some are for the
 * GPU, as the NPU's programs have fixed lengths: if that takes too long, no
 * plan is made. */
static void test_max_share(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        double most;
        int64_t tokens;
        uint32_t dtype, n_layers;
        int64_t heads, wider; /* than hidden: ffn, times */
        bool refused;
    } cases[] = {
        {"npu_sim:hexagon", 0.7, 1, CLV_DTYPE_I4, 3, 8, 3, false},
        {"npu_sim:hexagon", 0.3, 1, CLV_DTYPE_I4, 1, 16, 4, false},
        {"npu_sim:hexagon", 0.4, 32, CLV_DTYPE_I4, 2, 16, 4, false},
        {"npu_sim:hexagon", 0.2, 64, CLV_DTYPE_I8, 1, 24, 2, false},
        {"npu_sim:hexagon", 0.7, 256, CLV_DTYPE_I4, 1, 16, 2, false},
        {"npu_sim:hexagon", 0.9, 300, CLV_DTYPE_I8, 1, 16, 4, false},
        {"npu_sim:adreno", 0.7, 1, CLV_DTYPE_I8, 1, 24, 4, false},
        {"npu_sim:adreno", 0.2, 64, CLV_DTYPE_I4, 1, 24, 2, false},
        {"npu_sim:adreno", 0.7, 64, CLV_DTYPE_I8, 1, 16, 3, false},
        {"npu_sim:adreno", 0.1, 256, CLV_DTYPE_I8, 1, 16, 4, false},
        {"npu_sim:adreno", 0.8, 300, CLV_DTYPE_I8, 1, 16, 4, false},
        {"npu_sim:adreno", 0.1, 300, CLV_DTYPE_I4, 1, 8, 2, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        char setting[128];
        layers_shape s = shape;
        clv_plan *plan;
        s.n_layers = cases[i].n_layers;
        s.heads = cases[i].heads;
        s.hidden = s.heads * s.head_dim;
        s.ffn = s.hidden * cases[i].wider;
        s.tokens = cases[i].tokens;
        s.dtype = cases[i].dtype;
        snprintf(setting, sizeof setting, "%s.max_share=%g", cases[i].id,
                 cases[i].most);
        open_world(&w, "snapdragon-8gen3", setting, &s);
        if (cases[i].refused) {
            assert_int_equal(clv_plan_create(w.ctx, w.l.graph, NULL, &plan),
                             CLV_ERR_LIMIT);
            assert_message("not the 10% of its max_share");
            close_world(&w);
            continue;
        }
        plan = plan_for(&w, NULL, 0);
        uint32_t d = strcmp(plan->devices[0].dev->id, cases[i].id) != 0;
        double share = plan->forecast->busy_ns[d] / predicted(plan);
        if (share > cases[i].most + 0.02)
            fail_msg("case %zu: %s works %.1f%% of the time, not %.0f%%", i,
                     cases[i].id, 100 * share, 100 * cases[i].most);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

/* Nobody else is there to do the rest. */
static void test_max_share_alone(void **state)
{
    (void)state;
    static const char *const strategies[] = {"auto", "layer", "first"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        world w;
        char setting[128];
        clv_plan *plan;
        snprintf(setting, sizeof setting,
                 "core.plan=%s npu_sim:adreno.max_share=0.5", strategies[i]);
        open_world(&w, "snapdragon-8gen3", setting, &shape);
        clv_device *dev = clv_context_device(w.ctx, 1);
        const clv_plan_params params = {.devices = &dev, .n_devices = 1};
        assert_string_equal(clv_device_id(dev), "npu_sim:adreno");
        assert_int_equal(clv_plan_create(w.ctx, w.l.graph, &params, &plan),
                         CLV_ERR_LIMIT);
        assert_null(plan);
        assert_message("device 'npu_sim:adreno' works 100% of the time in the "
                       "best plan found, not the 50% of its max_share; raise "
                       "max_share, list another device in core.devices");
        close_world(&w);
    }
}

/* Times of two clocks cannot be compared: such devices share no plan, and
 * where core.devices names none the simulated ones are used. */
static void test_clocks(void **state)
{
    (void)state;
    static const char *const both =
        "core.plugins=cpu,npu_sim core.devices=npu_sim,cpu";
    world w;
    clv_plan *plan;
    for (int i = 0; i < 3; i++) {
        char settings[128];
        snprintf(settings, sizeof settings, "%s core.plan=%s", both,
                 (const char *[]){"first", "layer", "tensor"}[i]);
        open_world(&w, "snapdragon-8gen3", settings, &shape);
        assert_int_equal(clv_context_device_count(w.ctx), 3);
        assert_int_equal(clv_plan_create(w.ctx, w.l.graph, NULL, &plan),
                         CLV_ERR_INVALID);
        assert_message("'cpu' works in real time|'npu_sim:hexagon' in virtual "
                       "time|core.devices");
        close_world(&w);
    }
    open_world(&w, "snapdragon-8gen3", "core.plugins=cpu,npu_sim", &shape);
    assert_int_equal(clv_context_device_count(w.ctx), 2);
    if (!strstr(w.log, "cpu is left out: its work takes real time"))
        fail_msg("not said: %s", w.log);
    plan = plan_for(&w, NULL, 0);
    assert_non_null(plan->forecast);
    clv_plan_destroy(plan);
    close_world(&w);
    open_world(&w, "snapdragon-8gen3",
               "core.plugins=cpu,npu_sim core.plan=first npu_sim.clock=real",
               &shape);
    assert_int_equal(clv_context_device_count(w.ctx), 3);
    clv_plan_destroy(plan_for(&w, NULL, 0));
    close_world(&w);
}

/* ------------------------------------------------------------------------ */
/* Devices with a clock of the host's, whose times are made up              */

static const layers_shape tiny = {.n_layers = 1,
                                  .hidden = 64,
                                  .heads = 4,
                                  .groups = 2,
                                  .head_dim = 16,
                                  .ffn = 128,
                                  .vocabulary = 96,
                                  .context = 32,
                                  .tokens = 8,
                                  .dtype = CLV_DTYPE_F16};

static struct {
    double slowness[2]; /* of the devices, ns a floating point operation */
    double submit;
} made_up;

static clv_status made_up_work(planner_meter *meter, clv_device *dev,
                               const planner_workload *workload,
                               planner_sample *out)
{
    (void)meter;
    *out = (planner_sample){.workload = *workload,
                            .ns = 10 + planner_workload_flops(workload) *
                                           made_up.slowness[dev->plugin_index]};
    return CLV_OK;
}

static clv_status made_up_overheads(planner_meter *meter, clv_device *dev,
                                    planner_overheads *out)
{
    (void)meter, (void)dev;
    *out = (planner_overheads){.submit = made_up.submit,
                               .submit_idle = made_up.submit,
                               .copy = 100,
                               .copy_byte = 0.1};
    return CLV_OK;
}

static const planner_profile_source made_up_source = {
    .open = made_up_open,
    .close = made_up_close,
    .workload = made_up_work,
    .overheads = made_up_overheads,
    .contention = made_up_contention};

static void open_made_up(world *w, const char *settings)
{
    char text[2048], *save = NULL;
    memset(w, 0, sizeof *w);
    assert_ok(clv_config_create(&w->config));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref core.plugins=ref "
             "core.allow_unsafe_plugins=on core.cache_dir= core.probe=off "
             "core.plan=auto %s",
             getenv("CLEAVE_TEST_BUILD"), settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
    planner_profile *profile;
    assert_ok(planner_profile_of(w->ctx, &profile));
    profile->source = &made_up_source;
    layers_build(&w->l, w->ctx, &tiny);
}

/* A device that brings nothing to speak of gets no work: it is slow, or slow to
 * begin, or what it needs has to be copied. Which comes first does not matter.
 */
static void test_no_help(void **state)
{
    (void)state;
    static const struct {
        double slowness[2], submit;
        const char *settings, *used; /* NULL: both */
    } cases[] = {
        {{1, 1}, 0, "", NULL},
        {{1, 80}, 0, "", "ref:0"}, /* would bring 1% */
        {{80, 1}, 0, "", "ref:1"},
        {{1, 1}, 1e7, "", "ref:0"},
        {{1, 0.9}, 1e7, "", "ref:1"},
        {{0.002, 0.002}, 0, "ref.memory1=local,coherent", "ref:0"},
        {{0.02, 0.00002}, 0, "ref.memory1=local,coherent", "ref:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        memcpy(made_up.slowness, cases[i].slowness, sizeof made_up.slowness);
        made_up.submit = cases[i].submit;
        open_made_up(&w, cases[i].settings);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_plan *plan = plan_for(&w, NULL, 0);
        uint32_t n = clv_plan_summarise(plan).n_devices;
        const char *first = clv_device_id(clv_plan_device(plan, 0));
        if (n != (cases[i].used ? 1 : 2) ||
            (cases[i].used && strcmp(first, cases[i].used)))
            fail_msg("case %zu: %u devices, the first is %s", i, n, first);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

/* No device gets a node whose weight is larger than what it reaches at once. */
static void check_reach(const char *settings)
{
    enum { REACH = 15000 };
    world w;
    uint32_t larger = 0;
    open_made_up(&w, settings);
    assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
    clv_plan *plan = plan_for(&w, NULL, 0);
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        if (clv_tensor_size(plan->graph->values[load->weight].weight) <= REACH)
            continue;
        assert_string_equal(clv_device_id(plan->devices[load->device].dev),
                            "ref:1");
        larger++;
    }
    assert_true(larger > 0);
    clv_plan_destroy(plan);
    close_world(&w);
}

static void test_reach(void **state)
{
    (void)state;
    made_up.slowness[0] = made_up.slowness[1] = 1;
    made_up.submit = 0;
    check_reach("ref.max_buffer0=15000");
    check_reach("ref.max_buffer0=15000 core.plan=first");
}

/* Nodes that compute, where the next one runs on another device. */
static uint32_t count_changes(const clv_plan *plan)
{
    uint32_t n = 0, last = UINT32_MAX;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        if (core_part_copies(plan, p))
            continue;
        n += last != UINT32_MAX && plan->parts[p].device != last;
        last = plan->parts[p].device;
    }
    return n;
}

/* A fast device that holds a part of the weights gets the first layers:
 * repeated blocks divided all alike would need exchanges in each. */
static void test_front(void **state)
{
    (void)state;
    world w;
    made_up.slowness[0] = 1e-4; /* weights take longer to copy */
    made_up.slowness[1] = 1e-6;
    made_up.submit = 2e5;
    open_made_up(&w, "ref.memory1=local,coherent");
    layers_free(&w.l);
    layers_build(&w.l, w.ctx, &deep);
    uint64_t weights = 0, size;
    for (uint32_t v = 0; v < w.l.graph->n_tensors; v++)
        if (w.l.graph->tensors[v].usage == CLV_USAGE_WEIGHT &&
            !core_desc_size(&w.l.graph->tensors[v], NULL, &size))
            weights += size;
    clv_context_device(w.ctx, 1)->info.memory_size = weights / 2;
    assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_int_equal(clv_plan_summarise(plan).n_devices, 2);
    if (count_changes(plan) > 3)
        fail_msg("%u changes of device", count_changes(plan));
    assert_true(planner_limits_bytes(plan, 1) <= weights / 2);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* Of two drivers of one piece of hardware the faster one is used. */
static void test_same_hardware(void **state)
{
    (void)state;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    char settings[1024];
    made_up.slowness[0] = 1;
    made_up.slowness[1] = 0.5;
    made_up.submit = 0;
    snprintf(settings, sizeof settings,
             "core.plugin_dirs=%s/tests/plugins/ref:%s/plugins "
             "core.plugins=cpu,ref",
             build, build);
    for (int same = 0; same < 2; same++) {
        world w;
        open_made_up(&w, settings);
        clv_device *devices[2] = {NULL};
        for (uint32_t i = 0; i < clv_context_device_count(w.ctx); i++) {
            clv_device *dev = clv_context_device(w.ctx, i);
            if (!strcmp(clv_device_id(dev), "cpu"))
                devices[0] = dev;
            if (!strcmp(clv_device_id(dev), "ref:1"))
                devices[1] = dev;
        }
        assert_true(devices[0] && devices[1]);
        memset(devices[0]->info.uuid, 1, sizeof devices[0]->info.uuid);
        memset(devices[1]->info.uuid, same ? 1 : 2,
               sizeof devices[1]->info.uuid);
        const clv_profile_params params = {.devices = devices, .n_devices = 2};
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, &params));
        clv_plan *plan = plan_for(&w, devices, 2);
        assert_int_equal(clv_plan_summarise(plan).n_devices, same ? 1 : 2);
        if (same)
            assert_ptr_equal(clv_plan_device(plan, 0), devices[1]);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max_share),
        cmocka_unit_test(test_max_share_alone),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_front),
        cmocka_unit_test(test_same_hardware),
        cmocka_unit_test(test_no_help),
        cmocka_unit_test(test_reach),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
