#include "probe_process.h"
#include "../base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Between two looks at a process that has closed its report. */
#define PAUSE_NS 200000u
#define SLICE_MS 50

typedef struct report {
    int fd;            /* -1: at its end */
    uint64_t heard_ns; /* when the last line came */
    uint64_t busy_ns;  /* processor time that the process had used by then */
    bool in_use;       /* a device is at work */
    pid_t pid;
    char line[CORE_PROBE_STEP_SIZE];
    size_t used;
    core_probe_end *end;
} report;

/* Of the process that is tried, 0: not known. */
static uint64_t processor_ns(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) ? 0 : core_clock_ns(clock);
}

static bool is_blocked(const report *r, uint64_t now)
{
    const uint64_t limit = CORE_PROBE_BLOCKED * (uint64_t)1000000000;
    return r->in_use && now - r->heard_ns >= limit &&
           core_is_idle(processor_ns(r->pid) - r->busy_ns, now - r->heard_ns);
}

static void take_device(core_probe_end *end, const char *id)
{
    memcpy(end->device, id, strlen(id) + 1);
    end->n_devices++;
}

static void take_line(report *r)
{
    static const char device[] = CORE_PROBE_DEVICE;
    const size_t begin = sizeof device - 1;
    r->line[r->used] = 0;
    r->heard_ns = clv_now_ns();
    r->busy_ns = processor_ns(r->pid);
    if (!strcmp(r->line, CORE_PROBE_USE)) {
        r->in_use = true;
    } else if (!strcmp(r->line, CORE_PROBE_CLOSE)) {
        r->in_use = false;
        r->end->device[0] = 0;
    }
    if (!strncmp(r->line, device, begin))
        take_device(r->end, r->line + begin);
    else if (!strcmp(r->line, CORE_PROBE_STOPPED))
        r->end->stopped = true;
    else if (strcmp(r->line, CORE_PROBE_ALIVE) != 0)
        memcpy(r->end->step, r->line, r->used + 1);
    r->used = 0;
}

/* What has come so far; bytes that are no report are skipped. */
static void read_report(report *r)
{
    char bytes[256];
    ssize_t n;
    while (r->fd >= 0 && (n = read(r->fd, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] == '\n')
                take_line(r);
            else if (r->used + 1 < sizeof r->line && bytes[i] >= ' ' &&
                     bytes[i] < 0x7f)
                r->line[r->used++] = bytes[i];
        }
    }
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

/* A descriptor that stands in nobody's way in the new process. */
static int move_up(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, CORE_PROBE_FD + 1);
    close(fd);
    return up;
}

static bool make_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC))
        return false;
    fds[0] = move_up(fds[0]);
    fds[1] = move_up(fds[1]);
    if (fds[0] >= 0 && fds[1] >= 0 && !fcntl(fds[0], F_SETFL, O_NONBLOCK))
        return true;
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
    return false;
}

/* Nothing of ours but the report: no files, no signals, a group of its own. */
static int spawn(const char *program, char *const *argv, int fd, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return error;
    if ((error = posix_spawnattr_init(&attr))) {
        posix_spawn_file_actions_destroy(&files);
        return error;
    }
    for (int i = 0; i < CORE_PROBE_FD && !error; i++)
        error =
            posix_spawn_file_actions_addopen(&files, i, "/dev/null", O_RDWR, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&files, fd, CORE_PROBE_FD);
#if __GLIBC_PREREQ(2, 34)
    if (!error)
        error =
            posix_spawn_file_actions_addclosefrom_np(&files, CORE_PROBE_FD + 1);
#endif
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    if (!error)
        error = posix_spawn(pid, program, &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Whether the process has ended; it is not yet taken away. */
static bool has_ended(pid_t pid, bool *lost)
{
    siginfo_t info = {0};
    int result;
    while ((result =
                waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT)) &&
           errno == EINTR)
        ;
    *lost = result != 0;
    return *lost || info.si_pid == pid;
}

/* Until the process ends or the time is over; false if it must be ended. */
static bool watch(report *r, pid_t pid, uint64_t limit_ns, bool *lost)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    const uint64_t begin = clv_now_ns();
    r->heard_ns = begin;
    while (!has_ended(pid, lost)) {
        uint64_t now = clv_now_ns();
        r->end->endless = now - begin >= CORE_PROBE_LIMITS * limit_ns;
        r->end->blocked = is_blocked(r, now);
        if (r->end->endless || r->end->blocked || now - r->heard_ns >= limit_ns)
            return false;
        struct pollfd wait = {.fd = r->fd, .events = POLLIN};
        if (r->fd < 0)
            nanosleep(&pause, NULL);
        else if (poll(&wait, 1, SLICE_MS) > 0)
            read_report(r);
    }
    return true;
}

static void describe(int status, core_probe_end *out)
{
    if (WIFSIGNALED(status)) {
        out->how = CORE_PROBE_SIGNAL;
        out->code = WTERMSIG(status);
    } else {
        out->how = CORE_PROBE_ENDED;
        out->code = WEXITSTATUS(status);
    }
}

clv_status core_probe_process(const char *program, char *const *argv,
                              uint64_t limit_ns, core_probe_end *out)
{
    *out = (core_probe_end){0};
    int fds[2];
    pid_t pid;
    if (!make_pipe(fds))
        return clv_error(CLV_ERR_IO, "no pipe: %s", strerror(errno));
    int error = spawn(program, argv, fds[1], &pid);
    close(fds[1]);
    if (error) {
        close(fds[0]);
        return clv_error(CLV_ERR_IO, "%s cannot be started: %s", program,
                         strerror(error));
    }
    report r = {.fd = fds[0], .end = out, .pid = pid};
    bool lost, ended = watch(&r, pid, limit_ns, &lost);
    read_report(&r);
    /* With whatever it started itself. */
    kill(-pid, SIGKILL);
    int status = 0;
    while (!lost && waitpid(pid, &status, 0) < 0 && !lost)
        lost = errno != EINTR;
    if (!ended)
        out->how = CORE_PROBE_HUNG;
    else if (lost)
        out->how = CORE_PROBE_UNKNOWN;
    else
        describe(status, out);
    if (r.fd >= 0)
        close(r.fd);
    return CLV_OK;
}
