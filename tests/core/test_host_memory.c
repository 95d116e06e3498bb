/* What is free, by made-up files of the system. */
#include "test.h"
#include "tmpdir.h"

#include "../../core/base/host_memory.h"

#define MIB (UINT64_C(1) << 20)

static tmpdir dir;

static int setup(void **state)
{
    (void)state;
    return tmpdir_make(&dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

/* A file in directories that are made where they are missing. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s", name);
    for (char *at = path; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(tmpdir_file(&dir, path), 0700);
    }
    tmpdir_write(&dir, name, text, strlen(text));
}

static void put_meminfo(void)
{
    put("proc/meminfo", "MemTotal:        4194304 kB\n"
                        "MemFree:          524288 kB\n"
                        "MemAvailable:    1048576 kB\n");
}

static void assert_free(uint64_t mib)
{
    assert_int_equal(core_host_memory_free(dir.path), mib * MIB);
}

static void test_available(void **state)
{
    (void)state;
    assert_int_equal(core_host_memory_free(dir.path), UINT64_MAX);
    put_meminfo();
    assert_free(1024);
}

/* Each group that holds the process's limits it; what files have in memory
 * counts as free. */
static void test_version_2(void **state)
{
    (void)state;
    put_meminfo();
    put("proc/self/cgroup", "0::/outer/inner\n");
    assert_free(1024); /* groups that are not shown */
    put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    put("sys/fs/cgroup/outer/inner/memory.current", "104857600\n");
    assert_free(1024);
    put("sys/fs/cgroup/outer/memory.max", "524288000\n");
    put("sys/fs/cgroup/outer/memory.current", "209715200\n");
    assert_free(300);
    put("sys/fs/cgroup/outer/memory.stat", "anon 1\nfile 99999999\n"
                                           "inactive_file 52428800\n"
                                           "active_file 104857600\n");
    assert_free(450);
    put("sys/fs/cgroup/outer/inner/memory.max", "104857600\n");
    assert_free(0);
}

static void test_version_1(void **state)
{
    (void)state;
    put_meminfo();
    put("proc/self/cgroup", "12:cpuset:/else\n4:cpu,memory:/a\n0::/\n");
    put("sys/fs/cgroup/memory/else/memory.limit_in_bytes", "1\n");
    put("sys/fs/cgroup/memory/else/memory.usage_in_bytes", "1\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "209715200\n");
    put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "157286400\n");
    put("sys/fs/cgroup/memory/a/memory.stat",
        "cache 1\ninactive_file 7\ntotal_inactive_file 104857600\n"
        "total_active_file 0\n");
    assert_free(150);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "157286400\n");
    assert_free(150);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "167772160\n");
    assert_free(10);
}

/* A container sees its own group as the top of the mount. */
static void test_container(void **state)
{
    (void)state;
    put_meminfo();
    put("proc/self/cgroup", "4:memory:/docker/0123\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "209715200\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    assert_free(100);
}

/* Use beyond the limit leaves nothing; nonsense counts as not said. */
static void test_odd(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable: many\nMemAvailableX: 5 kB\n");
    put("proc/self/cgroup", "nonsense\n\n0::/\n");
    assert_int_equal(core_host_memory_free(dir.path), UINT64_MAX);
    put("sys/fs/cgroup/memory.max", "100\n");
    put("sys/fs/cgroup/memory.current", "300\n");
    put("sys/fs/cgroup/memory.stat", "inactive_file 100\n");
    assert_free(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_available, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_2, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_container, setup, teardown),
        cmocka_unit_test_setup_teardown(test_odd, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
