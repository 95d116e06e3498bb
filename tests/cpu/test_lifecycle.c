/* Loading, opening, closing; options; every allocation failing in turn. */
#include "harness.h"

#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* One small product, through the whole life of a program. */
static clv_status use(plugin *p)
{
    graph g = {0};
    add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 40, 64, 0);
    add_tensor(&g, CLV_DTYPE_Q8_0, CLV_USAGE_WEIGHT, 64, 64, 0);
    add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 40, 64, 0);
    NODE(&g, CLV_OP_MATMUL, 2, 0, 1);
    clv_status status = graph_run(p, &g);
    graph_free(&g);
    return status;
}

static void test_query(void **state)
{
    void *lib;
    (void)state;
    const clv_plugin_api *api = plugin_load(&lib);
    assert_string_equal(api->name, "cpu");
    assert_true(api->flags & CLV_PLUGIN_UNLOADABLE);
    assert_true(api->flags & CLV_PLUGIN_SPAWNS_THREADS);
    assert_true(strlen(api->build_id) >= 8);
    clv_plugin_query_fn query;
    *(void **)&query = dlsym(lib, CLV_PLUGIN_QUERY_SYMBOL);
    clv_query_in in = {.header = {sizeof in, CLV_STRUCT_QUERY_IN, NULL},
                       .abi_min = CLV_ABI_VERSION + 1,
                       .abi_max = CLV_ABI_VERSION + 2};
    clv_query_out out = {.header = {sizeof out, CLV_STRUCT_QUERY_OUT, NULL}};
    assert_int_equal(query(&in, &out), CLV_ERR_VERSION);
    assert_null(out.api);
    assert_int_equal(out.abi_max, CLV_ABI_VERSION);
    in.abi_min = 1; /* a newer host that still speaks ours */
    assert_int_equal(query(&in, &out), CLV_OK);
    assert_int_equal(out.abi_version, CLV_ABI_VERSION);
    dlclose(lib);
}

static void test_hundred_lives(void **state)
{
    (void)state;
    int threads = 0, fds = 0;
    for (int i = 0; i < 100; i++) {
        plugin p;
        plugin_open(&p, i % 2 ? "4" : "1", NULL);
        p.api->destroy(NULL);
        p.api->device_close(NULL);
        p.api->buffer_free(NULL);
        p.api->program_destroy(NULL);
        p.api->timeline_destroy(NULL);
        if (i % 10 == 0)
            assert_int_equal(use(&p), CLV_OK);
        plugin_close(&p);
        if (i == 1) {
            threads = count_entries("/proc/self/task");
            fds = count_entries("/proc/self/fd");
        }
    }
    assert_int_equal(count_entries("/proc/self/task"), threads);
    assert_int_equal(count_entries("/proc/self/fd"), fds);
}

/* Closing in the other order: quiesce joins what is still open. */
static void test_quiesce_open_device(void **state)
{
    plugin p;
    (void)state;
    int threads = count_entries("/proc/self/task");
    plugin_open(&p, "3", NULL);
    assert_int_equal(use(&p), CLV_OK);
    assert_int_equal(p.api->quiesce(p.inst), CLV_OK);
    assert_int_equal(count_entries("/proc/self/task"), threads);
    p.api->destroy(p.inst);
    assert_int_equal(p.host.live, 0);
    dlclose(p.lib);
}

static void test_two_instances(void **state)
{
    plugin a, b;
    (void)state;
    plugin_open(&a, "2", NULL);
    plugin_open(&b, "3", "ref");
    assert_int_equal(use(&a), CLV_OK);
    assert_int_equal(use(&b), CLV_OK);
    plugin_close(&a);
    assert_int_equal(use(&b), CLV_OK);
    plugin_close(&b);
}

static void test_enumerate(void **state)
{
    plugin p;
    clv_device_info info[2];
    uint32_t count = 0;
    (void)state;
    plugin_open(&p, "5", "ref");
    assert_int_equal(p.api->enumerate(p.inst, &count, NULL, 0), CLV_OK);
    assert_int_equal(count, 1);
    memset(info, 0x77, sizeof info);
    info[0].header = (clv_header){sizeof *info, CLV_STRUCT_DEVICE_INFO, NULL};
    count = 2;
    assert_int_equal(p.api->enumerate(p.inst, &count, info, sizeof *info),
                     CLV_OK);
    assert_int_equal(count, 1);
    assert_string_equal(info[0].id, "");
    assert_true(strlen(info[0].name) > 0);
    assert_non_null(strstr(info[0].driver, "ref"));
    assert_int_equal(info[0].kind, CLV_DEVICE_CPU);
    assert_int_equal(info[0].units, 5);
    assert_true(info[0].memory_free <= info[0].memory_size);
    assert_int_equal(info[1].units, 0x77777777);
    clv_plugin_device *dev = NULL;
    assert_int_equal(p.api->device_open(p.inst, 1, &dev), CLV_ERR_NOT_FOUND);
    assert_null(dev);
    plugin_close(&p);
}

static void test_features(void **state)
{
    static const char *const levels[] = {"ref", "avx2", "avx512",
                                         "avx512vnni"};
    void *lib;
    (void)state;
    const clv_plugin_api *api = plugin_load(&lib);
    bool refused = false;
    for (int i = 0; i < 4; i++) {
        host h;
        clv_plugin_instance *inst = NULL;
        host_init(&h);
        h.features = levels[i];
        clv_status status = api->create(&h.api, &inst);
        if (refused) /* nothing above a level that is not there */
            assert_int_not_equal(status, CLV_OK);
        if (status) {
            assert_true(i > 0);
            assert_int_equal(status, CLV_ERR_UNSUPPORTED);
            assert_non_null(strstr(h.error, levels[i]));
            refused = true;
        }
        api->destroy(inst);
        assert_int_equal(h.live, 0);
    }
    host h;
    clv_plugin_instance *inst = NULL;
    host_init(&h);
    h.features = "sse9";
    assert_int_equal(api->create(&h.api, &inst), CLV_ERR_INVALID);
    assert_int_equal(h.live, 0);
    dlclose(lib);
}

static void test_memory(void **state)
{
    plugin p;
    clv_plugin_buffer *buf = NULL;
    clv_mem_type type = {.header = {sizeof type, CLV_STRUCT_MEM_TYPE, NULL}};
    uint32_t count = 1;
    (void)state;
    plugin_open(&p, "1", NULL);
    assert_int_equal(p.api->mem_types(p.dev, &count, &type, sizeof type),
                     CLV_OK);
    assert_int_equal(count, 1);
    assert_int_equal(type.import_align, 1);
    assert_int_equal(p.api->buffer_alloc(p.dev, 1, 64, &buf), CLV_ERR_INVALID);
    assert_int_equal(p.api->buffer_alloc(p.dev, 0, 0, &buf), CLV_ERR_INVALID);
    assert_int_equal(p.api->buffer_alloc(p.dev, 0, UINT64_MAX - 7, &buf),
                     CLV_ERR_NO_MEMORY);
    assert_null(buf);
    for (uint64_t size = 1; size < 1 << 20; size = size * 7 + 1) {
        void *data = NULL;
        assert_int_equal(p.api->buffer_alloc(p.dev, 0, size, &buf), CLV_OK);
        assert_int_equal(p.api->buffer_map(buf, CLV_ACCESS_WRITE, &data),
                         CLV_OK);
        assert_int_equal((uintptr_t)data % type.alignment, 0);
        memset(data, 1, size);
        p.api->buffer_unmap(buf);
        p.api->buffer_free(buf);
    }
    plugin_close(&p);
}

static void count_release(void *ctx)
{
    ++*(int *)ctx;
}

static void test_import(void **state)
{
    plugin p;
    char memory[64];
    int released = 0;
    (void)state;
    plugin_open(&p, "1", NULL);
    clv_plugin_buffer *buf = NULL;
    clv_import in = {.header = {sizeof in, CLV_STRUCT_IMPORT, NULL},
                     .handle_type = CLV_HANDLE_HOST_POINTER,
                     .access = CLV_ACCESS_READ,
                     .pointer = memory,
                     .offset = 3,
                     .size = 10,
                     .release = count_release,
                     .release_ctx = &released};
    void *data = NULL;
    assert_int_equal(p.api->buffer_import(p.dev, 0, &in, &buf), CLV_OK);
    assert_int_equal(p.api->buffer_map(buf, CLV_ACCESS_READ, &data), CLV_OK);
    assert_ptr_equal(data, memory + 3);
    assert_int_equal(p.api->buffer_map(buf, CLV_ACCESS_WRITE, &data),
                     CLV_ERR_INVALID);
    assert_int_equal(released, 0);
    p.api->buffer_free(buf);
    assert_int_equal(released, 1);
    clv_import bad = in;
    bad.pointer = NULL;
    assert_int_equal(p.api->buffer_import(p.dev, 0, &bad, &buf),
                     CLV_ERR_INVALID);
    bad = in;
    bad.size = UINT64_MAX;
    assert_int_equal(p.api->buffer_import(p.dev, 0, &bad, &buf),
                     CLV_ERR_INVALID);
    bad = in;
    bad.handle_type = CLV_HANDLE_DMABUF;
    assert_int_equal(p.api->buffer_import(p.dev, 0, &bad, &buf),
                     CLV_ERR_UNSUPPORTED);
    assert_int_equal(released, 1);
    plugin_close(&p);
}

/* The k-th allocation fails, for every k a life has: an error, and no leak. */
static clv_status life(host *h, const clv_plugin_api *api, void *lib)
{
    plugin p = {.lib = lib, .api = api};
    p.host = *h;
    p.host.api.host = (clv_host *)&p.host;
    clv_plugin_buffer *buf = NULL;
    clv_status status = api->create(&p.host.api, &p.inst);
    if (!status)
        status = api->device_open(p.inst, 0, &p.dev);
    if (!status)
        status = api->buffer_alloc(p.dev, 0, 100, &buf);
    if (!status)
        status = use(&p);
    if (p.inst) {
        api->buffer_free(buf);
        api->device_close(p.dev);
        api->quiesce(p.inst);
        api->destroy(p.inst);
    }
    assert_int_equal(p.host.live, 0);
    h->calls = p.host.calls;
    memcpy(h->error, p.host.error, sizeof h->error);
    return status;
}

static void test_allocations_fail(void **state)
{
    void *lib;
    host h;
    (void)state;
    const clv_plugin_api *api = plugin_load(&lib);
    host_init(&h);
    h.threads = "2";
    assert_int_equal(life(&h, api, lib), CLV_OK);
    int64_t calls = h.calls;
    assert_true(calls > 10);
    for (int64_t k = 1; k <= calls; k++) {
        host_init(&h);
        h.threads = "2";
        h.fail_at = k;
        assert_int_equal(life(&h, api, lib), CLV_ERR_NO_MEMORY);
    }
    dlclose(lib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_hundred_lives),
        cmocka_unit_test(test_quiesce_open_device),
        cmocka_unit_test(test_two_instances),
        cmocka_unit_test(test_enumerate),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_import),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests_name("cpu lifecycle", tests, NULL, NULL);
}
