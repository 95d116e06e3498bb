#include "interrupt.h"

#include <cleave/cleave.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds for the clean end. A step on a slow device may take some; a plugin
 * that never returns must not keep the program. */
#define GRACE 5

static volatile sig_atomic_t interrupted; /* by this signal; 0: not yet */
static void (*_Atomic on_interrupt)(void);
static bool leaving;

static void on_signal(int number)
{
    if (interrupted)
        _exit(tool_interrupt_code());
    if (number == SIGALRM)
        return;
    interrupted = number;
    alarm(GRACE);
    void (*hook)(void) = atomic_load(&on_interrupt);
    if (hook)
        hook();
}

static void tell(const char *what)
{
    static const char name[] = "cleave: error: a plugin is to blame: ";
    if (write(STDERR_FILENO, name, sizeof name - 1) < 0 ||
        write(STDERR_FILENO, what, strlen(what)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        return; /* nobody listens */
}

/* The signal then ends the process, as it would have. */
static void on_crash(int number)
{
    const char *what = clv_crash_note(number);
    if (what)
        tell(what);
    raise(number);
}

/* Not by main(). */
static void on_exit_call(int code, void *arg)
{
    (void)arg;
    const char *what = leaving ? NULL : clv_crash_note(0);
    if (!what)
        return;
    tell(what);
    if (!code)
        _exit(1);
}

void tool_interrupt_leave(void)
{
    leaving = true;
}

/* Sanitizers have handlers of their own. */
static void install_crash_handlers(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old,
            action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
    on_exit(on_exit_call, NULL);
}

void tool_interrupt_install(void)
{
    install_crash_handlers();
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    /* A closed pipe and a full file are errors of write(), told as others. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

bool tool_interrupted(void)
{
    return interrupted;
}

int tool_interrupt_code(void)
{
    return 128 + interrupted;
}

bool tool_interrupt_forget(void)
{
    if (interrupted && interrupted != SIGINT)
        return false;
    alarm(0);
    interrupted = 0;
    return true;
}

void tool_interrupt_hook(void (*hook)(void))
{
    atomic_store(&on_interrupt, hook);
}
