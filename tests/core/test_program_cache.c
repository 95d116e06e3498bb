/*
 * Compiled programs on disk: loaded at the next start, compiled again where the
 * file is damaged or of something else, and never a reason to fail.
 */
#include "../../core/base/cache.h"
#include "../../core/context/context.h"
#include "test.h"

#include "tmpdir.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define ROWS 32
#define IN 64
#define LAYERS 3

/* Compiling takes 50 ms the first time, of its own clock. */
static const char conf[] = "[npu_sim:npu]\n"
                           "model = systolic\n"
                           "kind = npu\n"
                           "ops = matmul\n"
                           "fp16 = 1\n"
                           "static = on\n"
                           "lengths = 16,32\n"
                           "compile_base_us = 50000\n"
                           "compile_repeat_us = 100\n";

static tmpdir dir;
static int warnings;

static int setup(void **state)
{
    (void)state;
    warnings = 0;
    if (!tmpdir_make(&dir))
        return -1;
    tmpdir_text(&dir, "npu.ini", conf);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

static const char *programs(void)
{
    return tmpdir_file(&dir, "cache/npu_sim/programs");
}

static void note_warning(void *ctx, uint32_t level, const char *line)
{
    (void)ctx;
    warnings += level == CLV_LOG_WARN && strstr(line, "programs are not");
}

/* Layers of equal shapes and different weights: x[i] = w[i] x[i - 1]. */
static void run_layers(clv_context *ctx, int64_t rows)
{
    const int64_t dims[] = {IN, IN};
    clv_tensor *weights[LAYERS];
    clv_graph *graph;
    clv_plan *plan;
    clv_exec *exec;
    assert_ok(clv_graph_create(&graph));
    clv_value x =
        clv_graph_input(graph, "x", CLV_DTYPE_F32, 2,
                        (clv_dim[]){clv_dim_fixed(rows), clv_dim_fixed(IN)});
    const clv_value first = x;
    for (int i = 0; i < LAYERS; i++) {
        assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, 2, dims, &weights[i]));
        float *w = clv_tensor_data(weights[i]);
        for (int j = 0; j < IN; j++)
            w[j * IN + j] = (float)(i + 2);
        x = clv_graph_matmul(graph, x, clv_graph_weight(graph, "w", weights[i]),
                             CLV_NO_TENSOR);
    }
    clv_graph_output(graph, x, "y");
    assert_ok(clv_plan_create(ctx, graph, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    float *in = clv_tensor_data(clv_exec_tensor(exec, first));
    for (int64_t i = 0; i < rows * IN; i++)
        in[i] = (float)(i % 7);
    assert_ok(clv_exec_run(exec, NULL, 0));
    const float *out = clv_tensor_data(clv_exec_tensor(exec, x));
    for (int64_t i = 0; i < rows * IN; i++)
        assert_true(out[i] == (float)(i % 7) * 2 * 3 * 4);
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(graph);
    for (int i = 0; i < LAYERS; i++)
        clv_tensor_destroy(weights[i]);
}

/* A start of the program: what it compiled and loaded. settings: one, or "";
 * build: of the plugin, NULL: its own. */
static clv_program_counts start(const char *setting, int64_t rows,
                                const char *build)
{
    clv_config *config;
    clv_context *ctx;
    char text[1024];
    const char *made = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(made);
    assert_ok(clv_config_create(&config));
    assert_ok(clv_config_load_file(config, tmpdir_file(&dir, "npu.ini")));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins", made);
    assert_ok(clv_config_set(config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s",
             tmpdir_file(&dir, "cache"));
    assert_ok(clv_config_set(config, text, "test"));
    static const char *const always[] = {"core.plugins=npu_sim",
                                         "core.allow_unsafe_plugins=on",
                                         "core.plan=first", "core.probe=off"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        assert_ok(clv_config_set(config, always[i], "test"));
    if (setting[0])
        assert_ok(clv_config_set(config, setting, "test"));
    const clv_context_params params = {
        .config = config, .log = note_warning, .log_level = CLV_LOG_WARN};
    assert_ok(clv_context_create(&params, &ctx));
    assert_int_equal(ctx->n_devices, 1);
    if (build)
        ctx->plugins[0]->api.build_id = build;
    run_layers(ctx, rows);
    const clv_program_counts counts = clv_context_programs(ctx);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    return counts;
}

#define assert_start(compiled_, loaded_, ...)                                  \
    do {                                                                       \
        const clv_program_counts counts_ = start(__VA_ARGS__);                 \
        assert_int_equal(counts_.compiled, (compiled_));                       \
        assert_int_equal(counts_.loaded, (loaded_));                           \
    } while (0)

/* How many programs the layers are. */
static uint32_t n_programs(void)
{
    const clv_program_counts counts = start("core.program_cache=0", ROWS, NULL);
    assert_int_equal(counts.loaded, 0);
    assert_true(counts.virtual_ns >= 50000000);
    assert_int_equal(tmpdir_count(programs()), 0);
    return (uint32_t)counts.compiled;
}

static void test_second_start(void **state)
{
    (void)state;
    const uint32_t n = n_programs();
    start("", ROWS, NULL);
    const int files = tmpdir_count(programs());
    assert_true(files > 0);
    const clv_program_counts second = start("", ROWS, NULL);
    assert_int_equal(second.compiled, 0);
    assert_int_equal(second.loaded, n);
    assert_true(second.virtual_ns < 50000000 / 10);
    assert_int_equal(tmpdir_count(programs()), files);
}

/* Another device description, another length and another build of the plugin
 * have programs of their own. */
static void test_other_keys(void **state)
{
    (void)state;
    const uint32_t n = n_programs();
    start("", ROWS, NULL);
    const int files = tmpdir_count(programs());
    assert_true(start("npu_sim:npu.rows=64", ROWS, NULL).compiled > 0);
    assert_int_equal(tmpdir_count(programs()), 2 * files);
    assert_true(start("", ROWS / 2, NULL).compiled > 0);
    assert_int_equal(tmpdir_count(programs()), 3 * files);
    assert_true(start("", ROWS, "a later build").compiled > 0);
    assert_int_equal(tmpdir_count(programs()), 4 * files);
    assert_start(0, n, "", ROWS, NULL);
    assert_start(0, n, "", ROWS, "a later build");
}

/* Changes a byte of each file, or cuts them. */
static void damage(long at, bool cut)
{
    DIR *d = opendir(programs());
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", programs(), e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r+b");
        if (!f)
            continue;
        assert_int_equal(fseek(f, 0, SEEK_END), 0);
        const long byte = at % ftell(f);
        assert_int_equal(fseek(f, byte, SEEK_SET), 0);
        const int old = fgetc(f);
        assert_int_equal(fseek(f, byte, SEEK_SET), 0);
        fputc(old ^ 0x10, f);
        fclose(f);
        if (cut)
            assert_int_equal(truncate(path, byte), 0);
    }
    closedir(d);
}

static void test_damaged(void **state)
{
    (void)state;
    const uint32_t n = n_programs();
    start("", ROWS, NULL);
    const int files = tmpdir_count(programs());
    static const long places[] = {0, 9, 20, 30, 100, 333, 1000, 4095};
    for (size_t i = 0; i < 2 * sizeof places / sizeof *places; i++) {
        damage(places[i / 2], i % 2);
        assert_true(start("", ROWS, NULL).compiled > 0);
        assert_int_equal(tmpdir_count(programs()), files);
        assert_start(0, n, "", ROWS, NULL);
    }
    assert_int_equal(warnings, 0);
}

/* Files that cannot be written: one warning, and the work is done. */
static void test_full_disk(void **state)
{
    (void)state;
    const uint32_t n = n_programs();
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        const struct rlimit little = {64, 64};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &little))
            _exit(2);
        const clv_program_counts counts = start("", ROWS, NULL);
        _exit(counts.compiled != n || counts.loaded || warnings != 1);
    }
    int code;
    assert_true(child > 0 && waitpid(child, &code, 0) == child);
    assert_int_equal(code, 0);
    assert_int_equal(tmpdir_count(programs()), 0);
    start("", ROWS, NULL);
    assert_start(0, n, "", ROWS, NULL);
}

/* A directory that cannot be made. */
static void test_no_directory(void **state)
{
    (void)state;
    const uint32_t n = n_programs();
    tmpdir_text(&dir, "cache/npu_sim/programs", "a file");
    assert_start(n, 0, "", ROWS, NULL);
    assert_int_equal(warnings, 1);
}

static void test_processes(void **state)
{
    (void)state;
    const uint32_t n = n_programs();
    pid_t children[4];
    fflush(NULL);
    for (int i = 0; i < 4; i++)
        if (!(children[i] = fork())) {
            for (int round = 0; round < 3; round++) {
                const clv_program_counts c = start("", ROWS, NULL);
                if (c.compiled + c.loaded != n || warnings)
                    _exit(1);
                damage(50, false);
            }
            _exit(0);
        }
    for (int i = 0; i < 4; i++) {
        int code;
        assert_true(waitpid(children[i], &code, 0) == children[i]);
        assert_int_equal(code, 0);
    }
    start("", ROWS, NULL);
    assert_start(0, n, "", ROWS, NULL);
}

/* Those used least recently go first. */
static void test_limit(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b", "c", "d"};
    static char data[1000];
    const char *path = tmpdir_file(&dir, "some");
    const struct timespec moment = {.tv_nsec = 20000000};
    void *got;
    uint64_t size;
    for (int i = 0; i < 4; i++) {
        assert_ok(core_cache_put(path, keys[i], data, sizeof data));
        nanosleep(&moment, NULL);
    }
    assert_ok(core_cache_get(path, "a", &got, &size));
    free(got);
    assert_ok(core_cache_trim(path, 4500));
    assert_int_equal(tmpdir_count(path), 4);
    assert_ok(core_cache_trim(path, 2500));
    assert_int_equal(tmpdir_count(path), 2);
    assert_int_equal(core_cache_get(path, "b", &got, &size), CLV_ERR_NOT_FOUND);
    assert_int_equal(core_cache_get(path, "c", &got, &size), CLV_ERR_NOT_FOUND);
    assert_ok(core_cache_get(path, "a", &got, &size));
    free(got);
    assert_ok(core_cache_trim(path, 0));
    assert_int_equal(tmpdir_count(path), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_second_start), TEST(test_other_keys),   TEST(test_damaged),
        TEST(test_full_disk),    TEST(test_no_directory), TEST(test_processes),
        TEST(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
