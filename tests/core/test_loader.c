#include "../../core/device.h"
#include "test.h"

#include "message.h"
#include "tmpdir.h"

#include <dlfcn.h>
#include <sys/wait.h>

static tmpdir dir, other;

static int setup(void **state)
{
    (void)state;
    return tmpdir_make(&dir) && tmpdir_make(&other) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    tmpdir_remove(&other);
    return 0;
}

/* Copies the test plugin of that variant; the result is its path. */
static const char *install(const tmpdir *to, const char *variant)
{
    char from[1024], name[128];
    snprintf(name, sizeof name, "cleave_%s.so", variant);
    snprintf(from, sizeof from, "%s/tests/plugins/variants/%s",
             getenv("CLEAVE_TEST_BUILD"), name);
    clv_file_map map;
    assert_ok(clv_file_map_open(from, &map));
    const char *path = tmpdir_write(to, name, map.data, map.size);
    clv_file_map_close(&map);
    return path;
}

/* A context over dir, or over dirs; set: further settings, NULL at the end. */
static clv_status open_context(const char *dirs, const char *const *set,
                               clv_config **config, clv_context **ctx)
{
    char text[2048];
    snprintf(text, sizeof text, "core.plugin_dirs=%s", dirs ? dirs : dir.path);
    assert_ok(clv_config_create(config));
    assert_ok(clv_config_set(*config, text, "test"));
    assert_ok(clv_config_set(*config, "core.cache_dir=", "test"));
    for (; set && *set; set++)
        assert_ok(clv_config_set(*config, *set, "--set"));
    clv_context_params params = {.config = *config};
    return clv_context_create(&params, ctx);
}

/* The only candidate stops at stage with status, for the reasons given. */
static void assert_stops(uint32_t stage, clv_status status, const char *parts)
{
    clv_config *config;
    clv_context *ctx;
    assert_ok(open_context(NULL, NULL, &config, &ctx));
    assert_int_equal(clv_context_candidate_count(ctx), 1);
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    clv_error(c->status, "%s", c->reason);
    assert_message(parts);
    assert_int_equal(c->status, status);
    assert_int_equal(c->stage, stage);
    assert_true(c->path[0] == '/');
    assert_int_equal(clv_context_device_count(ctx), 0);
    clv_device *dev;
    assert_int_equal(clv_context_find_device(ctx, "cpu", &dev),
                     CLV_ERR_NOT_FOUND);
    assert_message(parts); /* it explains why there is none */
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

static void assert_variant_stops(const char *variant, uint32_t stage,
                                 clv_status status, const char *parts)
{
    const char *path = install(&dir, variant);
    assert_stops(stage, status, parts);
    unlink(path);
}

static void test_good(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"good.devices=2", NULL};
    assert_ok(open_context(NULL, set, &config, &ctx));
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    assert_int_equal(c->stage, CLV_STAGE_READY);
    assert_int_equal(c->status, CLV_OK);
    assert_string_equal(c->reason, "");
    assert_string_equal(c->plugin, "good");
    assert_string_equal(c->version, "1.2");
    assert_int_equal(c->n_devices, 2);
    assert_string_equal(clv_load_stage_name(c->stage), "ready");
    assert_null(clv_context_candidate(ctx, 1));

    assert_int_equal(clv_context_device_count(ctx), 2);
    clv_device *dev = clv_context_device(ctx, 1);
    assert_string_equal(clv_device_id(dev), "good:1");
    assert_string_equal(clv_device_plugin(dev), "good");
    assert_string_equal(clv_device_info_of(dev)->name, "a ?[31mdevice");
    assert_int_equal(clv_device_mem_type_count(dev), 1);
    assert_int_equal(clv_device_mem_type(dev, 0)->alignment, 1);
    assert_null(clv_device_mem_type(dev, 1));
    assert_null(clv_context_device(ctx, 2));
    clv_device *found;
    assert_ok(clv_context_find_device(ctx, "good:1", &found));
    assert_ptr_equal(found, dev);
    assert_int_equal(clv_context_find_device(ctx, "good:9", &found),
                     CLV_ERR_NOT_FOUND);
    assert_null(found);
    assert_message("good:9|good:0, good:1");
    assert_ptr_equal(clv_context_config(ctx), config);
    clv_context_destroy(ctx);
    assert_null(clv_config_get(config, "good.devices"));
    clv_config_destroy(config);
}

static void test_variants(void **state)
{
    (void)state;
    assert_variant_stops("wrong_version", CLV_STAGE_MAPPED, CLV_ERR_VERSION,
                         "7 to 9|1 to 1");
    assert_variant_stops("lying_version", CLV_STAGE_MAPPED, CLV_ERR_VERSION,
                         "2 to 2|1 to 1");
    assert_variant_stops("refuses", CLV_STAGE_MAPPED, CLV_ERR_UNSUPPORTED,
                         "AVX9");
    assert_variant_stops("no_table", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                         "no table");
    assert_variant_stops("no_query", CLV_STAGE_MAPPED, CLV_ERR_NOT_FOUND,
                         "clv_plugin_query");
    assert_variant_stops("short_table", CLV_STAGE_MAPPED, CLV_ERR_VERSION,
                         "shorter");
    assert_variant_stops("missing_slot", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                         "submit()");
    assert_variant_stops("unresolved", CLV_STAGE_ALLOWED, CLV_ERR_FORMAT,
                         "cleave_nobody_defines_this");
    assert_variant_stops("bad_option", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                         "bad_option.devices|0..8");
    assert_variant_stops("fail_create", CLV_STAGE_NEGOTIATED,
                         CLV_ERR_UNSUPPORTED, "driver 1.0 is too old|42");
}

static void test_text_and_truncated(void **state)
{
    (void)state;
    char text[500];
    memset(text, 'x', sizeof text);
    const char *path = tmpdir_write(&dir, "cleave_text.so", text, sizeof text);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "invalid ELF header");
    unlink(path);
    path = install(&dir, "good");
    assert_int_equal(truncate(path, 4096), 0);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_FORMAT, "cut off|install");
    assert_int_equal(truncate(path, 70), 0);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_FORMAT, "cut off|install");
    assert_int_equal(truncate(path, 10), 0);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "rebuild");
    unlink(path);
    path = tmpdir_text(&dir, "cleave_Odd-Name.so", "");
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "Odd-Name|rename");
    unlink(path);
    mkdir(tmpdir_file(&dir, "cleave_folder.so"), 0700);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "no file");
}

/* The file's name is the plugin's. */
static void test_renamed(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    assert_int_equal(rename(path, tmpdir_file(&dir, "cleave_cpu.so")), 0);
    assert_stops(CLV_STAGE_MAPPED, CLV_ERR_INTERNAL, "'good'|'cpu'");
}

static void test_writable_by_all(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    chmod(path, 0646);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED,
                 "the file|writable by everyone|core.allow_unsafe_plugins");
    chmod(path, 0644);
    chmod(dir.path, 0757);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "its directory|chmod o-w");

    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"core.allow_unsafe_plugins=on", NULL};
    assert_ok(open_context(NULL, set, &config, &ctx));
    assert_int_equal(clv_context_device_count(ctx), 1);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    chmod(dir.path, 0700);
}

static void test_other_owner(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    if (geteuid() != 0 || chown(path, 12345, 12345))
        skip();
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "user 12345|owner");
}

/* A link is as safe as what it leads to. */
static void test_link(void **state)
{
    (void)state;
    const char *path = install(&other, "good");
    assert_int_equal(symlink(path, tmpdir_file(&dir, "cleave_good.so")), 0);
    chmod(other.path, 0757);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "its directory");
    chmod(other.path, 0700);
    assert_int_equal(unlink(path), 0);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_NOT_FOUND, "No such file");
}

/* Root reads everything, so the check runs as somebody else. */
static void test_unreadable(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    chmod(path, 0);
    chmod(dir.path, 0755);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && seteuid(65534))
            _exit(2);
        clv_config *config;
        clv_context *ctx;
        if (clv_config_create(&config) ||
            clv_config_set(config, "core.cache_dir=", "test"))
            _exit(3);
        char text[512];
        snprintf(text, sizeof text, "core.plugin_dirs=%s", dir.path);
        clv_context_params params = {.config = config};
        if (clv_config_set(config, text, "test") ||
            clv_context_create(&params, &ctx))
            _exit(4);
        const clv_candidate *c = clv_context_candidate(ctx, 0);
        int right = c && c->stage == CLV_STAGE_FOUND &&
                    c->status == CLV_ERR_REFUSED &&
                    strstr(c->reason, "cannot be read") != NULL;
        clv_context_destroy(ctx);
        clv_config_destroy(config);
        _exit(right ? 0 : 5);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_directories(void **state)
{
    (void)state;
    rmdir(dir.path);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_NOT_FOUND,
                 "directory cannot be read|core.plugin_dirs");
    mkdir(dir.path, 0700);
    clv_config *config;
    clv_context *ctx;
    assert_ok(open_context("relative/dir", NULL, &config, &ctx));
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    assert_string_equal(c->path, "relative/dir");
    assert_int_equal(c->status, CLV_ERR_REFUSED);
    clv_context_destroy(ctx);
    clv_config_destroy(config);

    assert_ok(open_context("", NULL, &config, &ctx));
    assert_int_equal(clv_context_candidate_count(ctx), 0);
    clv_device *dev;
    assert_int_equal(clv_context_find_device(ctx, "cpu", &dev),
                     CLV_ERR_NOT_FOUND);
    assert_message("no plugin|core.plugin_dirs");
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* Never the working directory, whatever the file names are. */
static void test_not_cwd(void **state)
{
    (void)state;
    char cwd[1024];
    install(&other, "good");
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(other.path), 0);
    setenv("LTDL_LIBRARY_PATH", other.path, 1);
    clv_config *config;
    clv_context *ctx;
    assert_ok(open_context(NULL, NULL, &config, &ctx));
    assert_int_equal(clv_context_candidate_count(ctx), 0);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    unsetenv("LTDL_LIBRARY_PATH");
    assert_int_equal(chdir(cwd), 0);
}

static void test_duplicate(void **state)
{
    (void)state;
    char dirs[600];
    install(&dir, "good");
    install(&other, "good");
    snprintf(dirs, sizeof dirs, "%s:%s", dir.path, other.path);
    clv_config *config;
    clv_context *ctx;
    assert_ok(open_context(dirs, NULL, &config, &ctx));
    assert_int_equal(clv_context_candidate_count(ctx), 2);
    assert_int_equal(clv_context_candidate(ctx, 0)->status, CLV_OK);
    const clv_candidate *c = clv_context_candidate(ctx, 1);
    assert_int_equal(c->status, CLV_ERR_REFUSED);
    assert_non_null(strstr(c->reason, dir.path));
    assert_int_equal(clv_context_device_count(ctx), 1);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

static void test_allow_list(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "unloadable");
    const struct {
        const char *set;
        bool good, unloadable;
    } cases[] = {
        {"core.plugins=", true, true},
        {"core.plugins=good", true, false},
        {"core.plugins=-good", false, true},
        {"core.plugins=unloadable, good", true, true},
        {"core.plugins=-none", true, true},
        {"core.plugins=good,-good,unloadable", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clv_config *config;
        clv_context *ctx;
        const char *const set[] = {cases[i].set, NULL};
        assert_ok(open_context(NULL, set, &config, &ctx));
        clv_device *dev;
        assert_int_equal(clv_context_find_device(ctx, "good", &dev) == CLV_OK,
                         cases[i].good);
        assert_int_equal(
            clv_context_find_device(ctx, "unloadable", &dev) == CLV_OK,
            cases[i].unloadable);
        assert_int_equal(clv_context_candidate_count(ctx), 2);
        clv_context_destroy(ctx);
        clv_config_destroy(config);
    }
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"core.plugins=goood", NULL};
    assert_int_equal(open_context(NULL, set, &config, &ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|core.plugins|goood");
    assert_null(ctx);
    clv_config_destroy(config);
}

static void test_device_order(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "unloadable");
    const struct {
        const char *set, *ids;
    } cases[] = {
        {"core.devices=", "good:0 good:1 unloadable "},
        {"core.devices=unloadable", "unloadable "},
        {"core.devices=unloadable,good", "unloadable good:0 good:1 "},
        {"core.devices=good:1, unloadable,good:0",
         "good:1 unloadable good:0 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clv_config *config;
        clv_context *ctx;
        const char *const set[] = {cases[i].set, "good.devices=2", NULL};
        assert_ok(open_context(NULL, set, &config, &ctx));
        char ids[256] = "";
        for (uint32_t d = 0; d < clv_context_device_count(ctx); d++) {
            strcat(ids, clv_device_id(clv_context_device(ctx, d)));
            strcat(ids, " ");
        }
        assert_string_equal(ids, cases[i].ids);
        clv_context_destroy(ctx);
        clv_config_destroy(config);
    }
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"core.devices=good,opencl:0", NULL};
    assert_int_equal(open_context(NULL, set, &config, &ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|core.devices|'opencl:0'|present: good, unloadable");
    clv_config_destroy(config);
}

/* A device that cannot be opened leaves the others. */
static void test_device_failure(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"good.devices=5", NULL};
    assert_ok(open_context(NULL, set, &config, &ctx));
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    assert_int_equal(c->n_devices, 4);
    assert_int_equal(c->stage, CLV_STAGE_READY);
    assert_int_equal(c->status, CLV_ERR_DEVICE_LOST);
    assert_non_null(strstr(c->reason, "good:3"));
    assert_non_null(strstr(c->reason, "fell off"));
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* What the user set wrongly for a plugin is the user's error, not a plugin
 * that is silently left out. */
static void test_wrong_settings(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    const char *const bad_value[] = {"good.devices=99", NULL};
    assert_int_equal(open_context(NULL, bad_value, &config, &ctx),
                     CLV_ERR_FORMAT);
    assert_message("--set|good.devices|99|0..8");
    assert_null(ctx);
    clv_config_destroy(config);
    const char *const bad_key[] = {"good.device=2", NULL};
    assert_int_equal(open_context(NULL, bad_key, &config, &ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|good.device|good.devices");
    clv_config_destroy(config);
    const char *const bad_section[] = {"goof.devices=2", NULL};
    assert_int_equal(open_context(NULL, bad_section, &config, &ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|[goof]|[good]");
    clv_config_destroy(config);

    install(&dir, "fail_create");
    const char *const absent[] = {"fail_create.devices=2", NULL};
    assert_ok(open_context(NULL, absent, &config, &ctx));
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

static bool is_mapped(const char *path)
{
    void *dl = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (dl)
        dlclose(dl);
    return dl != NULL;
}

static void test_unloading(void **state)
{
    (void)state;
    const char *stays = install(&dir, "good");
    const char *goes = install(&dir, "unloadable");
    for (int i = 0; i < 3; i++) {
        clv_config *config;
        clv_context *ctx;
        assert_ok(open_context(NULL, NULL, &config, &ctx));
        assert_int_equal(clv_context_device_count(ctx), 2);
        assert_true(is_mapped(goes));
        clv_context_destroy(ctx);
        clv_config_destroy(config);
        assert_true(is_mapped(stays));
        assert_false(is_mapped(goes));
    }
}

/* Two contexts over one configuration, gone in either order. */
static void test_two_contexts(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *a, *b;
    assert_ok(open_context(NULL, NULL, &config, &a));
    clv_context_params params = {.config = config};
    assert_ok(clv_context_create(&params, &b));
    clv_context_destroy(a);
    assert_int_equal(clv_context_device_count(b), 1);
    assert_string_equal(clv_config_get(config, "good.devices"), "1");
    clv_context_destroy(b);
    clv_context_destroy(NULL);
    clv_config_destroy(config);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_good),
        TEST(test_variants),
        TEST(test_text_and_truncated),
        TEST(test_renamed),
        TEST(test_writable_by_all),
        TEST(test_other_owner),
        TEST(test_link),
        TEST(test_unreadable),
        TEST(test_directories),
        TEST(test_not_cwd),
        TEST(test_duplicate),
        TEST(test_allow_list),
        TEST(test_device_order),
        TEST(test_device_failure),
        TEST(test_wrong_settings),
        TEST(test_unloading),
        TEST(test_two_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
