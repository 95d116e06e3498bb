#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* Seconds for the clean end. A step on a slow device may take some; a plugin
 * that never returns must not keep the program. */
#define GRACE 5

static volatile sig_atomic_t interrupted; /* by this signal; 0: not yet */
static void (*_Atomic on_interrupt)(void);

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

void tool_interrupt_install(void)
{
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

void tool_interrupt_hook(void (*hook)(void))
{
    atomic_store(&on_interrupt, hook);
}
