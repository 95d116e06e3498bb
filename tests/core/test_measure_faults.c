/* Measuring while memory runs out and devices fail. */
#include "fail_alloc.h"
#include "message.h"

#include "../../planner/profile/measure.h"

#include <stdio.h>

static const planner_meter_params params = {
    .max_seconds = 0.01, .repetitions = 1, .max_pool = 16 << 20};

typedef struct rig {
    clv_config *config;
    clv_context *ctx;
    planner_meter *meter;
    clv_device *devs[2];
} rig;

static rig rig_make(const char *settings)
{
    rig r = {0};
    char text[2048], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    assert_ok(clv_config_create(&r.config));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins core.cache_dir= "
             "core.allow_unsafe_plugins=on %s",
             build, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(r.config, word, "test"));
    clv_context_params context = {.config = r.config};
    assert_ok(clv_context_create(&context, &r.ctx));
    assert_ok(planner_meter_create(r.ctx, &params, &r.meter));
    assert_int_equal(clv_context_device_count(r.ctx), 2);
    for (uint32_t i = 0; i < 2; i++)
        r.devs[i] = clv_context_device(r.ctx, i);
    return r;
}

static rig chip(void)
{
    return rig_make("core.plugins=npu_sim npu_sim.compute=off "
                    "npu_sim:a.model=roofline npu_sim:b.model=roofline "
                    "npu_sim.memory_bandwidth=50");
}

#define PROCESSORS "core.plugins=cpu cpu:a.threads=1 cpu:b.threads=1"

static void finish(rig *r)
{
    planner_meter_destroy(r->meter);
    clv_context_destroy(r->ctx);
    clv_config_destroy(r->config);
}

static const planner_workload product = {
    .kind = {.op = CLV_OP_MATMUL,
             .dtype = CLV_DTYPE_F32,
             .weight_dtype = CLV_DTYPE_I4,
             .quant = CLV_QUANT_PER_CHANNEL},
    .n = 32,
    .in = 256,
    .out = 512};
static const planner_workload attention = {
    .kind = {.op = CLV_OP_ATTENTION,
             .dtype = CLV_DTYPE_F32,
             .variant = 32,
             .weight_dtype = CLV_DTYPE_F16},
    .n = 8,
    .in = 64,
    .out = 128,
    .depth = 20};

static clv_status measure_work(const rig *r, planner_meter *meter)
{
    planner_sample s;
    clv_status status =
        planner_measure_workload(meter, r->devs[0], &product, &s);
    return status ? status
                  : planner_measure_workload(meter, r->devs[0], &attention, &s);
}

static clv_status measure_overheads(const rig *r, planner_meter *meter)
{
    planner_overheads o;
    return planner_measure_overheads(meter, r->devs[0], &o);
}

static clv_status measure_contention(const rig *r, planner_meter *meter)
{
    double alone[2], slowdown[2];
    planner_contention c = {.alone = alone, .slowdown = slowdown};
    return planner_measure_contention(meter, r->devs, 2, &c);
}

typedef clv_status (*measure_fn)(const rig *r, planner_meter *meter);
static const measure_fn measurements[] = {measure_work, measure_overheads,
                                          measure_contention};

/* ------------------------------------------------------------------------ */

typedef struct attempt {
    const rig *r;
    measure_fn fn;
} attempt;

/* With a meter of its own, so that nothing is there already. */
static clv_status from_nothing(void *arg)
{
    const planner_meter_params more = {.max_pool = 64 << 20};
    const attempt *a = arg;
    planner_meter *meter;
    clv_status status = planner_meter_create(a->r->ctx, &more, &meter);
    if (status)
        return status;
    status = a->fn(a->r, meter);
    planner_meter_destroy(meter);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    rig r = chip();
    for (int i = 0; i < 3; i++) {
        attempt a = {&r, measurements[i]};
        test_allocations(from_nothing, &a);
        assert_false(clv_device_lost(r.devs[0]));
    }
    finish(&r);
}

static void test_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        rig r = rig_make(PROCESSORS);
        assert_ok(
            r.devs[0]->api->fault_inject(r.devs[0]->handle, CLV_FAULT_LOST));
        assert_int_equal(measurements[i](&r, r.meter), CLV_ERR_DEVICE_LOST);
        assert_message("cpu:a|lost");
        assert_true(clv_device_lost(r.devs[0]));
        /* The other one goes on. */
        r.devs[0] = r.devs[1];
        assert_ok(measure_work(&r, r.meter));
        finish(&r);
    }
}

static void test_hang(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        rig r = rig_make(PROCESSORS " core.wait_timeout=0.2");
        assert_ok(
            r.devs[0]->api->fault_inject(r.devs[0]->handle, CLV_FAULT_HANG));
        assert_int_equal(measurements[i](&r, r.meter), CLV_ERR_TIMEOUT);
        assert_message("cpu:a|nothing after");
        assert_true(clv_device_lost(r.devs[0]));
        finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
