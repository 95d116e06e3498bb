/* Contexts come and go a hundred times: nothing of them stays. */
#include "../plugins/ref/context.h"

#include "../../core/base/sanitizer.h"

#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <unistd.h>

/* Sanitizers are slow, and do not say what the heap has. */
#define N_CYCLES (core_sanitizers() ? 25 : 100)
#define WARM_UP 8
#define COLUMNS 32
#define LEAST_BLOCK 32 /* bytes that malloc() takes at least */

typedef struct census {
    size_t threads, descriptors, mappings, heap;
} census;

static size_t count_entries(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Stacks and heaps of threads that ended are kept for others, so mappings of
 * files are counted and of others the sum of all threads' memory is not. */
static size_t count_mappings(void)
{
    char line[1024];
    size_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        n += strchr(line, '/') != NULL;
    fclose(maps);
    return n;
}

/* A thread that was joined stays in the list for a moment: the fewest count. */
static size_t count_threads(void)
{
    size_t least = SIZE_MAX;
    for (int i = 0; i < 20; i++) {
        const size_t n = count_entries("/proc/self/task");
        least = n < least ? n : least;
        usleep(1000);
    }
    return least;
}

static census take(void)
{
    return (census){.threads = count_threads(),
                    .descriptors = count_entries("/proc/self/fd"),
                    .mappings = count_mappings(),
                    .heap = mallinfo2().uordblks};
}

static void compute(clv_context *ctx)
{
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    clv_tensor *w;
    const int64_t dims[] = {COLUMNS, COLUMNS}, n = 3;
    assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, 2, dims, &w));
    for (int i = 0; i < COLUMNS; i++)
        ((float *)clv_tensor_data(w))[i * COLUMNS + i] = 2;
    assert_ok(clv_graph_create(&g));
    clv_dim shape[] = {clv_graph_symbol(g, "n", 1, 4), clv_dim_fixed(COLUMNS)};
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, shape);
    clv_value y =
        clv_graph_matmul(g, x, clv_graph_weight(g, "w", w), CLV_NO_TENSOR);
    y = clv_graph_add(g, y, x);
    clv_graph_output(g, y, "y");
    assert_ok(clv_plan_create(ctx, g, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    for (int run = 0; run < 2; run++) {
        float *in = clv_tensor_data(clv_exec_tensor(exec, x));
        for (int i = 0; i < n * COLUMNS; i++)
            in[i] = (float)i;
        assert_ok(clv_exec_run(exec, &n, 1));
        const float *out = clv_tensor_data(clv_exec_tensor(exec, y));
        for (int i = 0; i < n * COLUMNS; i++)
            assert_true(fabsf(out[i] - 3 * (float)i) < 1e-3f);
    }
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    clv_tensor_destroy(w);
}

/* dirs: below the build directory, separated by ':'. */
static void configure(clv_config *config, const char *dirs, const char *plugins,
                      const char *setting)
{
    char text[2048];
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    size_t used = (size_t)snprintf(text, sizeof text, "core.plugin_dirs=");
    while (*dirs) {
        size_t n = strcspn(dirs, ":");
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s/%.*s",
                                 text[used - 1] == '=' ? "" : ":", build,
                                 (int)n, dirs);
        dirs += n + (dirs[n] != 0);
    }
    assert_ok(clv_config_set(config, text, "test"));
    snprintf(text, sizeof text, "core.plugins=%s", plugins);
    assert_ok(clv_config_set(config, text, "test"));
    assert_ok(clv_config_set(config, "core.allow_unsafe_plugins=on", "test"));
    assert_ok(clv_config_set(config, "core.cache_dir=", "test"));
    assert_ok(clv_config_set(config, "core.plan=first", "test"));
    if (setting)
        assert_ok(clv_config_set(config, setting, "test"));
}

static void cycle(clv_config *shared, const char *dirs, const char *plugins,
                  const char *setting, uint32_t devices)
{
    clv_config *config = shared;
    clv_context *ctx;
    if (!shared) {
        assert_ok(clv_config_create(&config));
        configure(config, dirs, plugins, setting);
    }
    clv_context_params params = {.config = config};
    assert_ok(clv_context_create(&params, &ctx));
    assert_int_equal(clv_context_device_count(ctx), devices);
    if (!strstr(plugins, "unloadable"))
        compute(ctx);
    clv_context_destroy(ctx);
    if (!shared)
        clv_config_destroy(config);
}

static void check(bool share, const char *dirs, const char *plugins,
                  const char *setting, uint32_t devices)
{
    clv_config *shared = NULL;
    if (share) {
        assert_ok(clv_config_create(&shared));
        configure(shared, dirs, plugins, setting);
    }
    for (int i = 0; i < WARM_UP; i++)
        cycle(shared, dirs, plugins, setting, devices);
    census before = take();
    for (int i = 0; i < N_CYCLES; i++)
        cycle(shared, dirs, plugins, setting, devices);
    census after = take();
    assert_int_equal(after.threads, before.threads);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_int_equal(after.mappings, before.mappings);
    /* What the allocator keeps for a thread that just ended counts or does not;
     * the least leak of each cycle is more. */
    if (after.heap >= before.heap + (size_t)N_CYCLES * LEAST_BLOCK)
        fail_msg("%zu bytes more after %d cycles with %s",
                 after.heap - before.heap, N_CYCLES, plugins);
    clv_config_destroy(shared);
}

#define REF "tests/plugins/ref"
#define VARIANTS "tests/plugins/variants"

static void test_cpu(void **state)
{
    (void)state;
    check(false, "plugins", "cpu", "cpu.threads=2", 1);
}

static void test_ref(void **state)
{
    (void)state;
    check(false, REF, "ref", NULL, 2);
}

static void test_unloadable(void **state)
{
    (void)state;
    check(false, VARIANTS, "unloadable", NULL, 1);
}

static void test_all(void **state)
{
    (void)state;
    check(false, REF ":plugins:" VARIANTS, "ref,cpu,good", "cpu.threads=2", 4);
}

/* One configuration for all of them. */
static void test_one_config(void **state)
{
    (void)state;
    check(true, REF ":plugins", "ref,cpu", "cpu.threads=2", 4 - 1);
}

/* One that fails on the way, again and again. */
static void test_failing(void **state)
{
    (void)state;
    check(false, VARIANTS ":plugins",
          "fail_create,missing_slot,refuses,unresolved,bad_option,cpu",
          "cpu.threads=2", 1);
}

/* Chunks that a thread keeps at hand count as used, so it is to keep none. */
#define TUNABLES "GLIBC_TUNABLES"
#define NO_CACHE "glibc.malloc.tcache_count=0"

int main(int argc, char **argv)
{
    (void)argc;
    const char *tunables = getenv(TUNABLES);
    if (!tunables || strcmp(tunables, NO_CACHE)) {
        setenv(TUNABLES, NO_CACHE, 1);
        execv("/proc/self/exe", argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),        cmocka_unit_test(test_ref),
        cmocka_unit_test(test_unloadable), cmocka_unit_test(test_all),
        cmocka_unit_test(test_one_config), cmocka_unit_test(test_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
