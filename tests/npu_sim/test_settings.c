/* The configuration: what is checked, and what is said. */
#include "rig.h"

static void refused(const char *settings, const char *section, const char *key,
                    const char *need)
{
    rig r;
    assert_int_equal(rig_create(&r, settings), CLV_ERR_INVALID);
    assert_null(r.inst);
    assert_says(&r, section);
    assert_says(&r, key);
    assert_says(&r, need);
    assert_null(strchr(r.error, '\n'));
    rig_close(&r);
}

static void test_no_devices(void **state)
{
    (void)state;
    rig r;
    rig_open(&r, "");
    assert_int_equal(r.n_devices, 0);
    rig_close(&r);
}

static void test_refused(void **state)
{
    (void)state;
    refused("clock=sundial", "[npu_sim]", "clock", "one of virtual|real");
    refused("choices=some", "[npu_sim]", "choices", "one of expected|seen");
    refused("compute=maybe", "[npu_sim]", "compute", "on or off");
    refused("npu.copy_queues=1\n", "[npu_sim:npu]", "copy_queues",
            "0, as memory = 0");
    refused("memory_bandwidth=-1", "[npu_sim]", "memory_bandwidth",
            "from 0 to");
    refused("jitter=1", "[npu_sim]", "jitter", "from 0 to 0.9");
    refused("drift=-0.1", "[npu_sim]", "drift", "from 0 to 0.9");
    refused("seed=0.5", "[npu_sim]", "seed", "whole number");
    refused("a.link=0", "[npu_sim:a]", "link", "from 0.001");
    refused("a.kind=npu\nb.kind=vpu", "[npu_sim:b]", "kind",
            "one of npu|gpu|cpu");
    refused("a.rows=0", "[npu_sim:a]", "rows", "whole number from 1 to 4096");
    refused("a.rows=1.5", "[npu_sim:a]", "rows", "whole number");
    refused("a.bandwidth=fast", "[npu_sim:a]", "bandwidth", "number");
    refused("a.bandwidth=nan", "[npu_sim:a]", "bandwidth", "number");
    refused("a.load=1", "[npu_sim:a]", "load", "0.95");
    refused("a.static=on\na.lengths=", "[npu_sim:a]", "lengths",
            "at least one");
    refused("a.lengths=32,32", "[npu_sim:a]", "lengths", "ascending");
    refused("a.lengths=32;64", "[npu_sim:a]", "lengths", "commas");
    refused("a.fp16=0\na.int8=0", "[npu_sim:a]", "int8", "above 0");
    refused("a.int8=0\na.fp16=1\na.int8_rows=1", "[npu_sim:a]", "int8_rows",
            "int8 = 0");
    refused("a.rows=4096\na.columns=4096\na.sram=1", "[npu_sim:a]", "sram",
            "at least");
}

static void test_described(void **state)
{
    (void)state;
    rig r;
    rig_open(&r, "memory_size=64\nnpu.static=on\nnpu.max_programs=3\n"
                 "gpu.kind=gpu\ngpu.model=roofline\ngpu.title=Big One");
    clv_device_info infos[2];
    for (int i = 0; i < 2; i++)
        infos[i] =
            (clv_device_info)CLV_INIT(clv_device_info, CLV_STRUCT_DEVICE_INFO);
    uint32_t n = 2;
    assert_int_equal(r.api->enumerate(r.inst, &n, infos, sizeof *infos),
                     CLV_OK);
    assert_int_equal(n, 2);
    assert_int_equal(infos[0].kind, CLV_DEVICE_NPU);
    assert_int_equal(infos[0].clock, CLV_CLOCK_VIRTUAL);
    assert_int_equal(infos[0].max_programs, 3);
    assert_true(infos[0].flags & CLV_DEVICE_STATIC_SHAPES);
    assert_int_equal(infos[1].kind, CLV_DEVICE_GPU);
    assert_non_null(strstr(infos[1].name, "Big One"));
    assert_false(infos[1].flags & CLV_DEVICE_STATIC_SHAPES);
    assert_int_equal(infos[1].memory_size, 64 << 20);
    /* The memory is one for both. */
    clv_plugin_buffer *half, *more = NULL;
    assert_int_equal(r.api->buffer_alloc(r.devices[0], 0, 40 << 20, &half),
                     CLV_OK);
    assert_int_equal(r.api->buffer_alloc(r.devices[1], 0, 40 << 20, &more),
                     CLV_ERR_NO_MEMORY);
    assert_says(&r, "memory_size");
    r.api->buffer_free(half);
    assert_int_equal(r.api->buffer_alloc(r.devices[1], 0, 40 << 20, &more),
                     CLV_OK);
    r.api->buffer_free(more);
    rig_close(&r);
}

/* The driver, part of the keys of caches, changes with every value. */
static void test_driver_tells(void **state)
{
    (void)state;
    static const char *const variants[] = {"a.rows=32", "a.rows=64",
                                           "a.swap_cycles=1", "a.lengths=32"};
    char drivers[4][64];
    for (int v = 0; v < 4; v++) {
        rig r;
        clv_device_info info =
            CLV_INIT(clv_device_info, CLV_STRUCT_DEVICE_INFO);
        uint32_t n = 1;
        rig_open(&r, variants[v]);
        assert_int_equal(r.api->enumerate(r.inst, &n, &info, sizeof info),
                         CLV_OK);
        memcpy(drivers[v], info.driver, sizeof info.driver);
        for (int w = 0; w < v; w++)
            assert_string_not_equal(drivers[v], drivers[w]);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_devices),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_described),
        cmocka_unit_test(test_driver_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
