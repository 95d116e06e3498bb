/* Files that another process cuts short while a host program uses them. */
#include "rig.h"
#include "temp.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static temp tmp;

static int make_temp(void **state)
{
    (void)state;
    temp_init(&tmp);
    return 0;
}

static int remove_temp(void **state)
{
    (void)state;
    temp_finish(&tmp);
    return 0;
}

static const char *copy_model(void)
{
    clv_file_map map;
    assert_ok(clv_file_map_open(rig_shared("models/nano-f16.gguf"), &map));
    const char *path = temp_write(&tmp, "model.gguf", map.data, map.size);
    clv_file_map_close(&map);
    return path;
}

/* A session that has run once, whose file is then cut to size. */
static void check_model(off_t size)
{
    static const int32_t ids[] = {1, 2, 3};
    const float *logits;
    clv_model *model;
    const char *path = copy_model();
    assert_ok(clv_model_load(rig_context(), path, NULL, &model));
    clv_session *session = rig_session(model, 64, 16, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(session, ids, 3, CLV_LOGITS_LAST, &logits));
    assert_int_equal(truncate(path, size), 0);
    for (int i = 0; i < 2; i++)
        assert_fails(
            clv_session_eval(session, ids, 1, CLV_LOGITS_LAST, &logits),
            CLV_ERR_IO, "shrank");
    assert_non_null(strstr(clv_last_error(), path));
    clv_session_destroy(session);
    clv_model_destroy(model);
    /* A whole file is as good as ever. */
    assert_ok(clv_model_load(rig_context(), copy_model(), NULL, &model));
    session = rig_session(model, 64, 16, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(session, ids, 3, CLV_LOGITS_LAST, &logits));
    clv_session_destroy(session);
    clv_model_destroy(model);
}

static void model(void **state)
{
    (void)state;
    check_model(0);
    check_model(1 << 20);
}

/* The same of a copy, which goes on. */
static void copied(void **state)
{
    static const int32_t ids[] = {1, 2, 3};
    const float *logits;
    clv_model *model;
    float before;
    (void)state;
    const char *path = copy_model();
    assert_ok(clv_model_load(rig_context(), path,
                             &(clv_model_params){.copy = true}, &model));
    clv_session *session = rig_session(model, 64, 16, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(session, ids, 3, CLV_LOGITS_LAST, &logits));
    before = logits[0];
    assert_int_equal(truncate(path, 0), 0);
    assert_ok(clv_session_truncate(session, 0));
    assert_ok(clv_session_eval(session, ids, 3, CLV_LOGITS_LAST, &logits));
    assert_true(logits[0] == before);
    clv_model *synth;
    assert_fails(clv_model_load(rig_context(), "synth:llama-1b:q4_0:zero",
                                &(clv_model_params){.lock = true}, &synth),
                 CLV_ERR_UNSUPPORTED, "made-up");
    clv_session_destroy(session);
    clv_model_destroy(model);
}

static volatile sig_atomic_t n_faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    n_faults++;
    if (!clv_file_fault(info->si_addr))
        _exit(3);
}

/* A program that owns the signal. */
static void own_handler(void **state)
{
    (void)state;
    struct sigaction old,
        action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    clv_file_guard(false);
    sigaction(SIGBUS, &action, &old);
    n_faults = 0;
    check_model(0);
    assert_true(n_faults > 0);
    sigaction(SIGBUS, &old, NULL);
    clv_file_guard(true);
}

static void leave(int number)
{
    _exit(number == SIGBUS ? 42 : 43);
}

/* Reads a page that is gone, of a mapping that is not the library's; how the
 * process ends. */
static int fault_elsewhere(void (*handler)(int))
{
    clv_file_map map;
    int status;
    const char *path = temp_write(&tmp, "other", "text", 4);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        signal(SIGBUS, handler);
        if (clv_file_map_open(path, &map))
            _exit(1);
        const int fd = open(path, O_RDWR);
        volatile const char *data =
            mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        if (ftruncate(fd, 0))
            _exit(2);
        if (map.data[0]) /* repaired */
            _exit(4);
        _exit(data[0]);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Signals of others go where they went before. */
static void passed_on(void **state)
{
    (void)state;
    int status = fault_elsewhere(leave);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    status = fault_elsewhere(SIG_DFL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

/* With the last file the handler goes. */
static void left_clean(void **state)
{
    (void)state;
    struct sigaction before, with, after;
    clv_file_map map;
    sigaction(SIGBUS, NULL, &before);
    assert_ok(clv_file_map_open(temp_write(&tmp, "a", "text", 4), &map));
    sigaction(SIGBUS, NULL, &with);
    clv_file_map_close(&map);
    sigaction(SIGBUS, NULL, &after);
    assert_true(with.sa_sigaction != before.sa_sigaction);
    assert_true(after.sa_sigaction == before.sa_sigaction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(left_clean, make_temp, remove_temp),
        cmocka_unit_test_setup_teardown(passed_on, make_temp, remove_temp),
        cmocka_unit_test_setup_teardown(model, make_temp, remove_temp),
        cmocka_unit_test_setup_teardown(copied, make_temp, remove_temp),
        cmocka_unit_test_setup_teardown(own_handler, make_temp, remove_temp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
