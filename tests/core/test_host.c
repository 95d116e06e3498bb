/* The table of host functions, the cache behind it, and clv_log. */
#include "../../core/base/cache.h"
#include "../../core/plugin/host.h"
#include "test.h"

#include "message.h"
#include "tmpdir.h"

#include <stdatomic.h>

typedef struct fixture {
    tmpdir dir;
    clv_config *config;
    clv_context *ctx;
    core_plugin plugin;
    char path[300], cache[300];
    char line[4096]; /* logged last */
    uint32_t level, n_lines;
} fixture;

static void keep_line(void *arg, uint32_t level, const char *line)
{
    fixture *f = arg;
    snprintf(f->line, sizeof f->line, "%s", line);
    f->level = level;
    f->n_lines++;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || !tmpdir_make(&f->dir))
        return -1;
    char dirs[400];
    snprintf(dirs, sizeof dirs, "core.plugin_dirs=%s", f->dir.path);
    static const clv_option options[] = {
        {.header = {sizeof *options, CLV_STRUCT_OPTION, NULL},
         .key = "depth",
         .type = CLV_OPTION_INT,
         .default_value = "3",
         .help = "h"},
        {.header = {sizeof *options, CLV_STRUCT_OPTION, NULL},
         .key = "cores",
         .type = CLV_OPTION_STRING,
         .default_value = "all",
         .help = "h",
         .scope = CLV_SCOPE_DEVICE},
    };
    clv_context_params params = {
        .log = keep_line, .log_ctx = f, .log_level = CLV_LOG_INFO};
    if (clv_config_create(&f->config) ||
        clv_config_set(f->config, dirs, "test") ||
        clv_config_declare(f->config, "mock", options, 2))
        return -1;
    params.config = f->config;
    if (clv_context_create(&params, &f->ctx))
        return -1;
    snprintf(f->path, sizeof f->path, "%s/cleave_mock.so", f->dir.path);
    snprintf(f->cache, sizeof f->cache, "%s/new/cache", f->dir.path);
    f->plugin.ctx = f->ctx;
    f->plugin.api.name = "mock";
    f->plugin.path = f->path;
    f->plugin.dir = f->dir.path;
    f->plugin.cache_dir = f->cache;
    f->plugin.abi_version = 1;
    core_host_init(&f->plugin);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    clv_context_destroy(f->ctx);
    clv_config_destroy(f->config);
    tmpdir_remove(&f->dir);
    free(f);
    return 0;
}

static void test_table(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    assert_int_equal(h->header.struct_size, sizeof *h);
    assert_int_equal(h->header.struct_type, CLV_STRUCT_HOST_API);
    assert_string_equal(h->plugin_path, f->path);
    assert_string_equal(h->plugin_dir, f->dir.path);
    assert_int_equal(h->abi_version, 1);
    assert_true(h->n_workers >= 1);
    const void *const slots[] = {
        (const void *)h->log,          (const void *)h->set_error,
        (const void *)h->alloc,        (const void *)h->free,
        (const void *)h->parallel_for, (const void *)h->now_ns,
        (const void *)h->option,       (const void *)h->cache_get,
        (const void *)h->cache_put,    (const void *)h->trace};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        assert_non_null(slots[i]);
    uint64_t a = h->now_ns(h->host), b = h->now_ns(h->host);
    assert_true(a > 0 && b >= a);
}

static void test_log(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    uint32_t before = f->n_lines;
    h->log(h->host, CLV_LOG_INFO, NULL, 0, "two\nlines");
    assert_string_equal(f->line, "mock: two lines");
    assert_int_equal(f->level, CLV_LOG_INFO);
    h->log(h->host, CLV_LOG_DEBUG, "a.c", 3, "not wanted");
    assert_int_equal(f->n_lines, before + 1);
    char *longer = malloc(10000);
    memset(longer, 'x', 9999);
    longer[9999] = 0;
    clv_log(f->ctx, CLV_LOG_ERROR, "%s", longer);
    assert_int_equal(f->n_lines, before + 2);
    free(longer);
}

static void test_set_error(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    assert_int_equal(h->set_error(h->host, CLV_ERR_LIMIT, 0, "too\n much"),
                     CLV_ERR_LIMIT);
    assert_string_equal(clv_last_error(), "too? much");
    h->set_error(h->host, CLV_ERR_LIMIT, -30, "too much");
    assert_string_equal(clv_last_error(), "too much (driver code -30)");
}

static void test_alloc(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    for (uint64_t align = 1; align <= 4096; align *= 2) {
        void *p = h->alloc(h->host, 1000, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 1, 1000);
        h->free(h->host, p);
    }
    void *p = h->alloc(h->host, 0, 64);
    assert_non_null(p);
    h->free(h->host, p);
    assert_null(h->alloc(h->host, 16, 0));
    assert_null(h->alloc(h->host, 16, 24));
    assert_null(h->alloc(h->host, UINT64_MAX, 64));
    h->free(h->host, NULL);
}

static void count(void *ctx, uint32_t i)
{
    atomic_fetch_add((_Atomic uint64_t *)ctx, i);
}

static void test_parallel_for(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    _Atomic uint64_t sum = 0;
    h->parallel_for(h->host, 0, count, &sum);
    assert_int_equal(sum, 0);
    h->parallel_for(h->host, 1000, count, &sum);
    assert_int_equal(sum, 499500);
}

static void test_option(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    const char *before = h->option(h->host, "depth");
    assert_string_equal(before, "3");
    assert_ok(clv_config_set(f->config, "mock.depth=4", "--set"));
    assert_string_equal(h->option(h->host, "depth"), "4");
    assert_string_equal(before, "3"); /* still valid */
    assert_null(h->option(h->host, "width"));
    assert_null(h->option(h->host, "log_level"));

    assert_null(h->device_section(h->host, 0));
    assert_ok(clv_config_set(f->config, "mock:big.cores=2-3", "--set"));
    assert_ok(clv_config_set(f->config, "mock:2.cores=", "--set"));
    assert_string_equal(h->device_section(h->host, 0), "big");
    assert_string_equal(h->device_section(h->host, 1), "2");
    assert_null(h->device_section(h->host, 2));
    assert_string_equal(h->option(h->host, "big.cores"), "2-3");
    assert_string_equal(h->option(h->host, "2.cores"), "");
    assert_null(h->option(h->host, "small.cores"));
}

static void test_trace(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    const char *path = tmpdir_file(&f->dir, "trace.json");
    clv_trace_enable(f->ctx, true);
    h->trace(h->host, "loading weights", 1000, 2000);
    assert_ok(clv_trace_write(f->ctx, path));
    clv_file_map map;
    assert_ok(clv_file_map_open(path, &map));
    assert_non_null(memmem(map.data, map.size, "loading weights", 15));
    clv_file_map_close(&map);
}

/* The one file in the cache's directory. */
static void entry_path(const char *dir, char out[1024])
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    out[0] = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            snprintf(out, 1024, "%s/%s", dir, e->d_name);
    closedir(d);
    assert_true(out[0]);
}

static void test_cache(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    void *data;
    uint64_t size;
    const char *key = "../../etc/odd key \n";
    assert_int_equal(h->cache_get(h->host, key, &data, &size),
                     CLV_ERR_NOT_FOUND);
    assert_ok(h->cache_put(h->host, key, "old", 3));
    assert_ok(h->cache_put(h->host, key, "newer", 5));
    assert_ok(h->cache_get(h->host, key, &data, &size));
    assert_int_equal(size, 5);
    assert_memory_equal(data, "newer", 5);
    h->free(h->host, data);
    assert_int_equal(h->cache_get(h->host, "another", &data, &size),
                     CLV_ERR_NOT_FOUND);
    assert_int_equal(tmpdir_count(f->cache), 1);
    assert_ok(h->cache_put(h->host, "empty", NULL, 0));
    assert_ok(h->cache_get(h->host, "empty", &data, &size));
    assert_int_equal(size, 0);
    h->free(h->host, data);
}

/* Any damaged byte, and any truncation, makes the entry absent. */
static void test_cache_damage(void **state)
{
    fixture *f = *state;
    void *data;
    uint64_t size;
    char path[1024];
    assert_ok(core_cache_put(f->cache, "key", "some data", 9));
    entry_path(f->cache, path);
    clv_file_map map;
    assert_ok(clv_file_map_open(path, &map));
    size_t n = map.size;
    uint8_t *good = malloc(n), *bad = malloc(n);
    memcpy(good, map.data, n);
    clv_file_map_close(&map);
    for (size_t i = 0; i <= n; i++) {
        memcpy(bad, good, n);
        if (i < n)
            bad[i] ^= 0x40;
        FILE *file = fopen(path, "wb");
        fwrite(bad, 1, n, file);
        fclose(file);
        assert_int_equal(core_cache_get(f->cache, "key", &data, &size),
                         i < n ? CLV_ERR_NOT_FOUND : CLV_OK);
    }
    free(data);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(truncate(path, (off_t)(n - 1 - i)), 0);
        assert_int_equal(core_cache_get(f->cache, "key", &data, &size),
                         CLV_ERR_NOT_FOUND);
    }
    free(good);
    free(bad);
}

static void test_no_cache(void **state)
{
    fixture *f = *state;
    const clv_host_api *h = &f->plugin.host;
    void *data;
    uint64_t size;
    f->plugin.host.cache_dir = "";
    assert_int_equal(h->cache_get(h->host, "k", &data, &size),
                     CLV_ERR_NOT_FOUND);
    assert_int_equal(h->cache_put(h->host, "k", "d", 1), CLV_ERR_NOT_FOUND);
    assert_message("core.cache_dir");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log, setup, teardown),
        cmocka_unit_test_setup_teardown(test_set_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alloc, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parallel_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_option, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_cache, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
