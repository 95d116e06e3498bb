#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>

static volatile sig_atomic_t interrupted;
static void (*_Atomic on_interrupt)(void);

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
    void (*hook)(void) = atomic_load(&on_interrupt);
    if (hook)
        hook();
}

void tool_interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A closed pipe and a full file are errors of write(), told as others. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

bool tool_interrupted(void)
{
    return interrupted;
}

void tool_interrupt_hook(void (*hook)(void))
{
    atomic_store(&on_interrupt, hook);
}
