/* Plugins that crash, end the process or hang are tried elsewhere first. */
#include "loading.h"

#include "../../core/plugin/probe_process.h"

#include <signal.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

/* A context with plugins good and crashing, which has these settings. */
static opened open_with(const char *const *set)
{
    const char *all[12];
    char cache[512];
    size_t n = 0;
    snprintf(cache, sizeof cache, "core.cache_dir=%s", other.path);
    all[n++] = cache;
    while (*set)
        all[n++] = *set++;
    all[n] = NULL;
    return open_ok(NULL, all);
}

static const clv_candidate *find(const opened *o, const char *plugin)
{
    for (uint32_t i = 0; i < clv_context_candidate_count(o->ctx); i++) {
        const clv_candidate *c = clv_context_candidate(o->ctx, i);
        if (!strcmp(c->plugin, plugin))
            return c;
    }
    fail_msg("no candidate '%s'", plugin);
    return NULL;
}

static void check_refused(const char *setting, const char *parts)
{
    const char *const set[] = {setting, "core.probe_timeout=0.5", NULL};
    /* Each time: a failure is not remembered. */
    for (int i = 0; i < 2; i++) {
        opened o = open_with(set);
        const clv_candidate *c = find(&o, "crashing");
        assert_int_equal(c->status, CLV_ERR_REFUSED);
        assert_int_equal(c->stage, CLV_STAGE_INSPECTED);
        assert_reason(c, parts);
        assert_reason(c, "tried in a process of its own; update or remove it");
        assert_int_equal(find(&o, "good")->stage, CLV_STAGE_READY);
        assert_string_equal(find(&o, "good")->reason, "");
        assert_int_equal(clv_context_device_count(o.ctx), 1);
        close_opened(&o);
    }
    assert_true(clv_exit_safe());
}

static void test_refused(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "crashing");
    check_refused("crashing.crash=abort create",
                  "crashed (signal 6, SIGABRT) in create");
    check_refused("crashing.crash=abort enumerate",
                  "crashed (signal 6, SIGABRT) in enumerate");
    check_refused("crashing.crash=abort open",
                  "crashed (signal 6, SIGABRT) in open");
    check_refused("crashing.crash=exit create",
                  "ended the process (exit code 3) in create");
    check_refused("crashing.crash=segv enumerate", "in enumerate");
    check_refused("crashing.crash=hang create",
                  "did not end within 0.5 s (core.probe_timeout) in create");
}

static void check_left_out(const char *crash, const char *parts)
{
    const char *const set[] = {crash, "crashing.devices=3",
                               "core.probe_timeout=0.5", NULL};
    /* Each time: it is not remembered. */
    for (int i = 0; i < 2; i++) {
        opened o = open_with(set);
        const clv_candidate *c = find(&o, "crashing");
        clv_device *dev;
        assert_int_equal(c->status, CLV_OK);
        assert_int_equal(c->stage, CLV_STAGE_READY);
        assert_reason(c, "crashing:1 is left out: it ");
        assert_reason(c, parts);
        assert_reason(c, "update or remove its driver");
        assert_int_equal(clv_context_device_count(o.ctx), 2);
        assert_ok(clv_context_find_device(o.ctx, "crashing:0", &dev));
        assert_ok(clv_context_find_device(o.ctx, "crashing:2", &dev));
        close_opened(&o);
    }
}

/* Of several devices, the others are used. */
static void test_left_out(void **state)
{
    (void)state;
    install(&dir, "crashing");
    check_left_out("crashing.crash=abort open 1",
                   "crashed (signal 6, SIGABRT) in open");
    check_left_out("crashing.crash=exit open 1",
                   "ended the process (exit code 3) in open");
    /* Who asks for it is told why it is not there. */
    char cache[512];
    snprintf(cache, sizeof cache, "core.cache_dir=%s", other.path);
    const char *const named[] = {cache, "crashing.crash=abort open 1",
                                 "crashing.devices=3",
                                 "core.devices=crashing:1", NULL};
    opened o;
    assert_int_equal(open_context(NULL, named, &o.config, &o.ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("there is no device 'crashing:1'|is left out: it crashed|"
                   "present: crashing:0, crashing:2");
    clv_config_destroy(o.config);
    /* All of them crash. */
    const char *const set[] = {"crashing.crash=abort open",
                               "crashing.devices=2", NULL};
    o = open_with(set);
    const clv_candidate *c = find(&o, "crashing");
    assert_int_equal(c->status, CLV_ERR_REFUSED);
    assert_reason(c, "crashed (signal 6, SIGABRT) in open");
    assert_int_equal(clv_context_device_count(o.ctx), 0);
    close_opened(&o);
}

/* Long work is no crash, as long as something is heard of it: but not for ever.
 */
static void test_messages(void **state)
{
    const char *const set[] = {"crashing.crash=work open",
                               "core.probe_timeout=1", "core.probe=always",
                               NULL};
    const char *const endless[] = {"crashing.crash=babble open",
                                   "core.probe_timeout=0.4", NULL};
    (void)state;
    install(&dir, "crashing");
    opened o = open_with(set);
    assert_string_equal(find(&o, "crashing")->reason, "");
    assert_int_equal(find(&o, "crashing")->status, CLV_OK);
    close_opened(&o);
    o = open_with(endless);
    assert_int_equal(find(&o, "crashing")->status, CLV_ERR_REFUSED);
    assert_reason(find(&o, "crashing"), "did not end within 4 s (10 times "
                                        "core.probe_timeout) in open");
    close_opened(&o);
}

typedef struct reports {
    uint32_t begun, ended;
    bool cancels;
} reports;

static int on_progress(void *ctx, const char *what, double fraction)
{
    reports *r = ctx;
    assert_string_equal(what, "trying the crashing plugin");
    r->begun += fraction == 0;
    r->ended += fraction == 1;
    return r->cancels;
}

/* Drivers may take their time when they are first loaded. */
static void test_progress(void **state)
{
    (void)state;
    char dirs[512], cache[512];
    install(&dir, "crashing");
    snprintf(dirs, sizeof dirs, "core.plugin_dirs=%s", dir.path);
    snprintf(cache, sizeof cache, "core.cache_dir=%s", other.path);
    for (int i = 0; i < 3; i++) {
        reports r = {.cancels = i == 0};
        clv_config *config;
        clv_context *ctx = NULL;
        assert_ok(clv_config_create(&config));
        assert_ok(clv_config_set(config, dirs, "test"));
        assert_ok(clv_config_set(config, cache, "test"));
        const clv_status status = clv_context_create(
            &(clv_context_params){
                .config = config, .progress = on_progress, .progress_ctx = &r},
            &ctx);
        assert_int_equal(status, r.cancels ? CLV_ERR_CANCELLED : CLV_OK);
        assert_int_equal(r.begun, i < 2); /* and then it is known */
        assert_int_equal(r.ended, i == 1);
        if (ctx)
            clv_context_destroy(ctx);
        clv_config_destroy(config);
    }
}

static void test_query(void **state)
{
    (void)state;
    assert_variant_stops("crash_query", CLV_STAGE_INSPECTED, CLV_ERR_REFUSED,
                         "crashed (signal 6, SIGABRT) in query");
}

/* Settings from the environment reach the trial, too. */
static void test_environment(void **state)
{
    (void)state;
    char text[512];
    opened o;
    install(&dir, "crashing");
    setenv("CLEAVE_CRASHING_CRASH", "abort create", 1);
    assert_ok(clv_config_create(&o.config));
    snprintf(text, sizeof text, "core.plugin_dirs=%s", dir.path);
    assert_ok(clv_config_set(o.config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s", other.path);
    assert_ok(clv_config_set(o.config, text, "test"));
    assert_ok(clv_config_load_env(o.config));
    clv_context_params params = {.config = o.config};
    assert_ok(clv_context_create(&params, &o.ctx));
    assert_int_equal(find(&o, "crashing")->status, CLV_ERR_REFUSED);
    close_opened(&o);
    unsetenv("CLEAVE_CRASHING_CRASH");
}

/* ------------------------------------------------------------------------ */
/* On the way out                                                           */

static bool mapped(const char *file)
{
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, file) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* In a process of its own, since the plugin stays in it. */
static void check_used(const char *setting, const char *parts)
{
    const char *const set[] = {setting, "core.probe_timeout=0.5", NULL};
    pid_t pid = fork();
    if (!pid) {
        for (int i = 0; i < 2; i++) {
            opened o = open_with(set);
            const clv_candidate *c = find(&o, "crashing");
            assert_int_equal(c->status, CLV_OK);
            assert_int_equal(c->stage, CLV_STAGE_READY);
            assert_reason(c, parts);
            assert_reason(c, "it is used, and never unloaded");
            assert_int_equal(clv_context_device_count(o.ctx), 1);
            close_opened(&o);
        }
        _exit(mapped("cleave_crashing.so") && !clv_exit_safe() ? 42 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
}

static void test_used(void **state)
{
    (void)state;
    install(&dir, "crashing");
    check_used("crashing.crash=abort close",
               "crashed (signal 6, SIGABRT) in close");
    check_used("crashing.crash=abort quiesce",
               "crashed (signal 6, SIGABRT) in quiesce");
    check_used("crashing.crash=abort destroy",
               "crashed (signal 6, SIGABRT) in destroy");
    check_used("crashing.crash=segv unload", "in unload");
    check_used("crashing.crash=hang destroy", "did not end within 0.5 s");
}

/* ------------------------------------------------------------------------ */
/* How often                                                                */

static size_t count(void)
{
    clv_file_map map;
    if (clv_file_map_open(tmpdir_file(&other, "count"), &map))
        return 0;
    size_t size = map.size;
    clv_file_map_close(&map);
    return size;
}

/* Instances made by opening a context: the trial's, and ours. */
static size_t instances(const char *setting)
{
    char text[512];
    snprintf(text, sizeof text, "crashing.count=%s",
             tmpdir_file(&other, "count"));
    const char *const set[] = {text, setting, NULL};
    size_t before = count();
    opened o = open_with(set);
    assert_int_equal(find(&o, "crashing")->stage, CLV_STAGE_READY);
    close_opened(&o);
    return count() - before;
}

static void test_once(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s", install(&dir, "crashing"));
    /* What another process found out counts. */
    pid_t pid = fork();
    if (!pid)
        _exit((int)instances("core.probe=auto"));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_int_equal(instances("core.probe=auto"), 1);
    assert_int_equal(instances("core.probe=always"), 2);
    assert_int_equal(instances("core.probe=off"), 1);
    /* Other settings, another file. */
    assert_int_equal(instances("crashing.devices=2"), 2);
    assert_int_equal(instances("crashing.devices=2"), 1);
    const struct timespec times[2] = {{1000, 5}, {1000, 5}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(instances("core.probe=auto"), 2);
    assert_int_equal(instances("core.probe=auto"), 1);
    /* Without a cache it is remembered while the process runs. */
    const struct timespec later[2] = {{1000, 6}, {1000, 6}};
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    assert_int_equal(instances("core.cache_dir="), 2);
    assert_int_equal(instances("core.cache_dir="), 1);
    /* A trial that was cut short is not. */
    assert_int_equal(instances("crashing.devices=4"), 2);
    assert_int_equal(instances("crashing.devices=4"), 2);
}

/* ------------------------------------------------------------------------ */
/* The process                                                              */

static void test_process(void **state)
{
    (void)state;
    core_probe_end end;
    char *none[] = {(char *)"x", NULL};
    assert_int_equal(core_probe_process("/nowhere/cleave-plugin-probe", none,
                                        1000000000, &end),
                     CLV_ERR_IO);
    assert_message("/nowhere/cleave-plugin-probe|No such file");

    char *say[] = {(char *)"sh", (char *)"-c",
                   (char *)"echo map >&3; printf 'no\\001ise\\n' >&3; "
                           "echo this line is longer than any that it could "
                           "mean >&3; echo create >&3; kill -SEGV $$",
                   NULL};
    assert_ok(core_probe_process("/bin/sh", say, 5000000000u, &end));
    assert_int_equal(end.how, CORE_PROBE_SIGNAL);
    assert_int_equal(end.code, SIGSEGV);
    assert_string_equal(end.step, "create");
    assert_false(end.stopped);

    /* What it leaves running keeps nobody waiting, and is ended. */
    char *leave[] = {(char *)"sh", (char *)"-c",
                     (char *)"sleep 100 & echo stopped >&3; echo exit >&3; "
                             "exit 7",
                     NULL};
    uint64_t begin = clv_now_ns();
    assert_ok(core_probe_process("/bin/sh", leave, 20000000000u, &end));
    assert_true(clv_now_ns() - begin < 10000000000u);
    assert_int_equal(end.how, CORE_PROBE_ENDED);
    assert_int_equal(end.code, 7);
    assert_true(end.stopped);

    /* Nothing of ours goes along. */
    char *files[] = {(char *)"sh", (char *)"-c",
                     (char *)"test -z \"$(cat)\" && test ! -e /proc/$$/fd/9 && "
                             "echo exit >&3",
                     NULL};
    assert_int_equal(dup2(1, 9), 9);
    assert_ok(core_probe_process("/bin/sh", files, 5000000000u, &end));
    close(9);
    assert_string_equal(end.step, "exit");

    signal(SIGCHLD, SIG_IGN);
    assert_ok(core_probe_process("/bin/sh", say, 5000000000u, &end));
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(end.how, CORE_PROBE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_process),  TEST(test_refused),  TEST(test_query),
        TEST(test_messages), TEST(test_used),     TEST(test_environment),
        TEST(test_once),     TEST(test_progress), TEST(test_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
