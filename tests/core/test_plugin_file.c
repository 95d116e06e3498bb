/* Which files may be loaded: owner and mode, places, lists of files. */
#include "../../core/plugin/plugin_file.h"
#include "loading.h"

#include <sys/wait.h>

static void assert_lifted(const char *parts)
{
    const char *const set[] = {"core.allow_unsafe_plugins=on", NULL};
    opened o = open_ok(NULL, set);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_int_equal(c->status, CLV_OK);
    assert_int_equal(clv_context_device_count(o.ctx), 1);
    assert_reason(c, "core.allow_unsafe_plugins lets it pass");
    assert_reason(c, parts);
    close_opened(&o);
}

static void test_writable_by_all(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    chmod(path, 0646);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED,
                 "the file|writable by everyone|core.allow_unsafe_plugins");
    assert_lifted("the file");
    chmod(path, 0644);
    chmod(dir.path, 0757);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "its directory|chmod o-w");
    /* Others could add files there, if not rename them. */
    chmod(dir.path, 01757);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "its directory|chmod o-w");
    assert_lifted("its directory");
    chmod(dir.path, 0700);
}

/* The user's own group and root's may write, others may not. */
static void test_writable_by_group(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    chmod(path, 0664);
    opened o = open_ok(NULL, NULL);
    assert_int_equal(clv_context_device_count(o.ctx), 1);
    close_opened(&o);
    if (geteuid() != 0 || chown(path, (uid_t)-1, 12345))
        skip();
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED,
                 "the file|group 12345|chmod g-w");
    chmod(path, 0644);
    assert_int_equal(chown(dir.path, (uid_t)-1, 12345), 0);
    chmod(dir.path, 0770);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED,
                 "its directory|group 12345|chmod g-w");
}

/* Whoever can rename a directory above can put another file there. */
static void test_directories_above(void **state)
{
    (void)state;
    const char *below = tmpdir_file(&dir, "below");
    tmpdir in;
    assert_int_equal(mkdir(below, 0700), 0);
    snprintf(in.path, sizeof in.path, "%.200s", below);
    install(&in, "good");
    chmod(dir.path, 0777);
    opened o = open_ok(in.path, NULL);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_int_equal(c->status, CLV_ERR_REFUSED);
    assert_reason(c, "directory |writable by everyone");
    assert_non_null(strstr(c->reason, dir.path));
    assert_null(strstr(c->reason, in.path));
    close_opened(&o);
    chmod(dir.path, 01777); /* with the sticky bit nobody else can rename */
    o = open_ok(in.path, NULL);
    assert_int_equal(clv_context_device_count(o.ctx), 1);
    close_opened(&o);
    if (geteuid() == 0 && !chown(dir.path, 12345, 0)) {
        o = open_ok(in.path, NULL);
        assert_reason(clv_context_candidate(o.ctx, 0), "directory |user 12345");
        close_opened(&o);
    }
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

/* Root reads everything, so the check runs as somebody else, who may not enter
 * the build directory: the configuration, which asks where the library is, is
 * made before. */
static void test_unreadable(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    chmod(path, 0);
    chmod(dir.path, 0755);
    clv_config *config;
    char text[512];
    snprintf(text, sizeof text, "core.plugin_dirs=%s", dir.path);
    assert_ok(clv_config_create(&config));
    assert_ok(clv_config_set(config, "core.cache_dir=", "test"));
    assert_ok(clv_config_set(config, text, "test"));
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        clv_context *ctx;
        clv_context_params params = {.config = config};
        if (geteuid() == 0 && seteuid(65534))
            _exit(2);
        if (clv_context_create(&params, &ctx))
            _exit(4);
        const clv_candidate *c = clv_context_candidate(ctx, 0);
        int right = c && c->stage == CLV_STAGE_FOUND &&
                    c->status == CLV_ERR_REFUSED &&
                    strstr(c->reason, "cannot be read") != NULL;
        clv_context_destroy(ctx);
        _exit(right ? 0 : 5);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    clv_config_destroy(config);
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

/* Never the working directory nor what the environment names. */
static void test_not_cwd(void **state)
{
    (void)state;
    static const char *const variables[] = {"LTDL_LIBRARY_PATH",
                                            "LD_LIBRARY_PATH"};
    char cwd[1024];
    install(&other, "good");
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(other.path), 0);
    for (int i = 0; i < 2; i++)
        setenv(variables[i], other.path, 1);
    opened o = open_ok(NULL, NULL);
    assert_int_equal(clv_context_candidate_count(o.ctx), 0);
    close_opened(&o);
    /* A file that is listed without its directory is not looked for. */
    const char *const set[] = {"core.plugin_files=cleave_good.so", NULL};
    o = open_ok(NULL, set);
    assert_int_equal(clv_context_candidate_count(o.ctx), 1);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_int_equal(c->status, CLV_ERR_REFUSED);
    assert_int_equal(c->stage, CLV_STAGE_FOUND);
    assert_reason(c, "absolute path|core.plugin_files");
    close_opened(&o);
    for (int i = 0; i < 2; i++)
        unsetenv(variables[i]);
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

/* ------------------------------------------------------------------------ */
/* core.plugin_files                                                        */

/* Tried before the directories, whatever the file is called. */
static void test_listed(void **state)
{
    (void)state;
    char set_files[1024];
    const char *listed = install_as(&other, "good", "my backend.bin");
    snprintf(set_files, sizeof set_files, "core.plugin_files=%s", listed);
    install(&dir, "good");
    install(&dir, "unloadable");
    const char *const set[] = {set_files, "good.devices=2", NULL};
    opened o = open_ok(NULL, set);
    assert_int_equal(clv_context_candidate_count(o.ctx), 3);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_string_equal(c->path, listed);
    assert_string_equal(c->plugin, "good");
    assert_int_equal(c->stage, CLV_STAGE_READY);
    assert_int_equal(c->n_devices, 2);
    c = clv_context_candidate(o.ctx, 1); /* the one in the directory */
    assert_int_equal(c->status, CLV_ERR_REFUSED);
    assert_reason(c, "loaded already");
    assert_non_null(strstr(c->reason, listed));
    assert_int_equal(clv_context_device_count(o.ctx), 3);
    close_opened(&o);
}

static void assert_listed_stops(const char *set_files, uint32_t stage,
                                clv_status status, const char *parts)
{
    const char *const set[] = {set_files, NULL};
    opened o = open_ok(NULL, set);
    assert_int_equal(clv_context_candidate_count(o.ctx), 1);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_int_equal(c->stage, stage);
    assert_int_equal(c->status, status);
    assert_reason(c, parts);
    close_opened(&o);
}

/* The rules are those of the directories. */
static void test_listed_rules(void **state)
{
    (void)state;
    char set_files[1024];
    const char *path = tmpdir_file(&other, "x.so");
    snprintf(set_files, sizeof set_files, "core.plugin_files=%s", path);
    assert_listed_stops(set_files, CLV_STAGE_FOUND, CLV_ERR_NOT_FOUND,
                        "No such file");
    install_as(&other, "good", "x.so");
    chmod(path, 0666);
    assert_listed_stops(set_files, CLV_STAGE_FOUND, CLV_ERR_REFUSED,
                        "writable by everyone");
    unlink(path);
    install_as(&other, "no_manifest", "x.so");
    assert_listed_stops(set_files, CLV_STAGE_ALLOWED, CLV_ERR_REFUSED,
                        "no manifest");
    install_as(&other, "good", "x.so");
    const char *const denied[] = {set_files, "core.plugins=-good", NULL};
    opened o = open_ok(NULL, denied);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_int_equal(c->stage, CLV_STAGE_INSPECTED);
    assert_reason(c, "core.plugins");
    close_opened(&o);
    assert_listed_stops("core.plugin_files=/", CLV_STAGE_FOUND, CLV_ERR_REFUSED,
                        "no file");
}

/* ------------------------------------------------------------------------ */
/* One file from the check to the mapping                                   */

static void test_replaced_before_mapping(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    core_plugin_file file;
    assert_ok(core_plugin_file_open(path, &file));
    assert_string_equal(file.problem, "");
    assert_ok(core_plugin_file_recheck(&file));
    const char *newer = install(&other, "good");
    assert_int_equal(rename(newer, path), 0);
    assert_int_equal(core_plugin_file_recheck(&file), CLV_ERR_REFUSED);
    assert_message("replaced|start again");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(core_plugin_file_recheck(&file), CLV_ERR_NOT_FOUND);
    core_plugin_file_close(&file);
}

/* An object that stays mapped is found by its path, so a newer file there would
 * be inspected and the older one be run. */
static void test_replaced_while_resident(void **state)
{
    (void)state;
    const char *path = install(&dir, "good");
    opened o = open_ok(NULL, NULL);
    assert_int_equal(clv_context_device_count(o.ctx), 1);
    close_opened(&o);
    const char *newer = install(&other, "good");
    assert_int_equal(rename(newer, path), 0);
    assert_stops(CLV_STAGE_PROBED, CLV_ERR_REFUSED,
                 "replaced|start the program again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_writable_by_all),
        TEST(test_writable_by_group),
        TEST(test_directories_above),
        TEST(test_other_owner),
        TEST(test_link),
        TEST(test_unreadable),
        TEST(test_directories),
        TEST(test_not_cwd),
        TEST(test_duplicate),
        TEST(test_listed),
        TEST(test_listed_rules),
        TEST(test_replaced_before_mapping),
        TEST(test_replaced_while_resident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
