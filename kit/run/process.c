#include "process.h"

#include "../../tools/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the kit itself may take between two records. */
#define OWN_WORK_NS 600000000000u

typedef struct child {
    const kit_work *work;
    kit_watch *watch; /* shared */
    pid_t pid;
    int records, output;         /* read ends; -1: at their end */
    uint64_t record_ns, seen_ns; /* when a record came; the latest look */
    size_t have;                 /* bytes of the next record */
    kit_record record;
    bool garbage; /* something else than records came */
    bool ended;   /* by on_record */
} child;

/* ------------------------------------------------------------------------ */
/* The child's side                                                         */

static _Noreturn void live(const child *c, int records, int output)
{
    static kit k; /* threads of the plugin may outlive any frame */
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit no_core = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(null);
    close(output);
    setvbuf(stdout, NULL, _IONBF, 0);
    kit_calls_watch(c->watch);
    kit_child_init(&k, c->work->config, records);
    c->work->run(&k, c->work->ctx);
    kit_calls_exit();
    exit(0);
}

/* ------------------------------------------------------------------------ */
/* The parent's side                                                        */

static bool make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC))
        return false;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return true;
}

static bool start(child *c)
{
    int records[2], output[2];
    if (!make_pipe(records))
        return false;
    if (!make_pipe(output)) {
        close(records[0]);
        close(records[1]);
        return false;
    }
    fflush(NULL); /* or the child would print it again */
    c->pid = fork();
    if (!c->pid) {
        setpgid(0, 0);
        close(records[0]);
        close(output[0]);
        live(c, records[1], output[1]);
    }
    int error = errno;
    close(records[1]);
    close(output[1]);
    if (c->pid < 0) {
        close(records[0]);
        close(output[0]);
        errno = error;
        return false;
    }
    setpgid(c->pid, c->pid);
    c->records = records[0];
    c->output = output[0];
    return true;
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        data += n;
        size -= (size_t)n;
    }
}

static void drain_output(child *c)
{
    char data[4096];
    while (c->output >= 0) {
        ssize_t n = read(c->output, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* the other end is closed */
            close(c->output);
            c->output = -1;
            return;
        }
        write_all(STDERR_FILENO, data, (size_t)n);
        c->work->on_output(c->work->ctx, (uint64_t)n);
    }
}

static void begin_limit(child *c)
{
    c->record_ns = c->seen_ns = kit_now();
    atomic_store(&c->watch->spent_ns, 0);
}

/* Since the latest look the child was in the plugin, or at work of the kit's
 * own, which does not count: as it is found now. */
static bool is_hung(child *c)
{
    const uint64_t now = kit_now();
    if (atomic_load(&c->watch->inside))
        atomic_fetch_add(&c->watch->spent_ns, now - c->seen_ns);
    c->seen_ns = now;
    return atomic_load(&c->watch->spent_ns) >= c->work->config->timeout_ns ||
           now - c->record_ns >= c->work->config->timeout_ns + OWN_WORK_NS;
}

/* Output first: it was written before the record that ends its case. false: the
 * other end is closed. */
static bool drain_records(child *c)
{
    for (;;) {
        ssize_t n = read(c->records, (char *)&c->record + c->have,
                         sizeof c->record - c->have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        c->have += (size_t)n;
        if (c->have < sizeof c->record)
            continue;
        c->have = 0;
        if (c->record.magic != KIT_RECORD_MAGIC) {
            c->garbage = true;
            return false;
        }
        c->record.text[sizeof c->record.text - 1] = 0;
        begin_limit(c);
        drain_output(c);
        if (!c->work->on_record(c->work->ctx, &c->record)) {
            c->ended = true;
            return false;
        }
    }
}

static void drain(child *c)
{
    drain_output(c);
    if (c->records >= 0 && !drain_records(c)) {
        close(c->records);
        c->records = -1;
    }
}

static bool has_ended(const child *c)
{
    siginfo_t info = {.si_pid = 0};
    return !waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
           info.si_pid == c->pid;
}

static void wait_a_little(const child *c)
{
    struct pollfd fds[2] = {{.fd = c->records, .events = POLLIN},
                            {.fd = c->output, .events = POLLIN}};
    bool closed = c->records < 0 || c->output < 0;
    poll(fds, 2, closed ? 2 : 20); /* its end is no event then */
}

static void follow(child *c, kit_ending *ending)
{
    begin_limit(c);
    while (!has_ended(c)) {
        wait_a_little(c);
        drain(c);
        ending->interrupted = tool_interrupted();
        ending->hung = is_hung(c);
        if (ending->interrupted || ending->hung || c->garbage || c->ended)
            break;
    }
    kill(-c->pid, SIGKILL); /* and whatever it has started */
    kill(c->pid, SIGKILL);
    siginfo_t info;
    while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT) &&
           errno == EINTR)
        ;
    drain(c);
}

static const char *signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},
        {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"},
        {SIGSYS, "SIGSYS"},   {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"},
        {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGXCPU, "SIGXCPU"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number)
            return names[i].name;
    return "a signal";
}

static void describe(const child *c, kit_ending *ending)
{
    double limit = (double)c->work->config->timeout_ns * 1e-9;
    char where[80];
    kit_calls_where(c->watch, where, sizeof where);
    if (ending->hung)
        snprintf(ending->reason, sizeof ending->reason,
                 "hung%s: killed after %.3g s; --timeout sets the limit", where,
                 limit);
    else if (c->garbage)
        snprintf(ending->reason, sizeof ending->reason,
                 "something wrote to a descriptor that is not its own");
    else if (ending->exited)
        snprintf(ending->reason, sizeof ending->reason,
                 "the process ended by itself%s, with exit status %d", where,
                 ending->code);
    else
        snprintf(ending->reason, sizeof ending->reason, "crashed%s: %s (%s)",
                 where, signal_name(ending->code), strsignal(ending->code));
}

void kit_process_run(const kit_work *work, kit_ending *ending)
{
    child c = {.work = work, .records = -1, .output = -1};
    memset(ending, 0, sizeof *ending);
    c.watch = mmap(NULL, sizeof *c.watch, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ending->started = c.watch != MAP_FAILED && start(&c);
    if (!ending->started) {
        snprintf(ending->reason, sizeof ending->reason, "no process for it: %s",
                 strerror(errno));
        if (c.watch != MAP_FAILED)
            munmap(c.watch, sizeof *c.watch);
        return;
    }
    follow(&c, ending);
    int status = 0;
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (c.output >= 0)
        close(c.output);
    if (c.records >= 0)
        close(c.records);
    ending->exited = WIFEXITED(status);
    ending->code = ending->exited ? WEXITSTATUS(status) : WTERMSIG(status);
    describe(&c, ending);
    munmap(c.watch, sizeof *c.watch);
}
