/* A set-uid program must not let whoever starts it choose its plugins. */
#include "loading.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define NOBODY 65534

/* A copy of the helper in dir. */
static const char *copy_program(mode_t mode)
{
    char from[1024];
    snprintf(from, sizeof from, "%s/tests/core/elevated",
             getenv("CLEAVE_TEST_BUILD"));
    clv_file_map map;
    assert_ok(clv_file_map_open(from, &map));
    const char *path = tmpdir_write(&dir, "elevated", map.data, map.size);
    clv_file_map_close(&map);
    assert_int_equal(chmod(dir.path, 0755), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void write_ini(void)
{
    const char *folder = tmpdir_file(&dir, "cleave");
    assert_int_equal(mkdir(folder, 0755), 0);
    const char *path =
        tmpdir_text(&dir, "cleave/cleave.ini", "[core]\nlog_level = debug\n");
    assert_int_equal(chmod(path, 0644), 0);
}

static void exec_as_nobody(const char *path, int out)
{
    if (setgid(NOBODY) || setuid(NOBODY) || dup2(out, 1) < 0)
        _exit(2);
    setenv("XDG_CONFIG_HOME", dir.path, 1);
    setenv("XDG_CACHE_HOME", dir.path, 1);
    setenv("HOME", dir.path, 1);
    setenv("CLEAVE_CORE_PLUGIN_DIRS", dir.path, 1);
    execl(path, path, (char *)NULL);
    _exit(3);
}

/* What the helper prints when nobody starts it. */
static const char *run(const char *path, char out[1024])
{
    int ends[2], status;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        exec_as_nobody(path, ends[1]);
    close(ends[1]);
    size_t used = 0;
    ssize_t n;
    while ((n = read(ends[0], out + used, 1023 - used)) > 0)
        used += (size_t)n;
    out[used] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("status %x: %s", status, out);
    return out;
}

static void test_set_uid(void **state)
{
    (void)state;
    char out[1024], wanted[1024];
    struct statvfs fs;
    if (geteuid() != 0 || statvfs(dir.path, &fs) || fs.f_flag & ST_NOSUID ||
        fs.f_flag & ST_NOEXEC)
        skip();
    write_ini();
    const char *path = copy_program(0755);
    snprintf(wanted, sizeof wanted,
             "level debug, key by CLEAVE_CORE_PLUGIN_DIRS, "
             "ini %s/cleave/cleave.ini, cache %s/cleave\n",
             dir.path, dir.path);
    assert_string_equal(run(path, out), wanted);
    assert_int_equal(chmod(path, 04755), 0);
    assert_string_equal(run(path, out), "level warn, key by built-in, "
                                        "ini none, cache none\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_set_uid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
