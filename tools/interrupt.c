#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>

static volatile sig_atomic_t interrupted;
static _Atomic(clv_session *) target;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
    clv_session *session = atomic_load(&target);
    if (session)
        clv_session_cancel(session);
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

void tool_interrupt_target(clv_session *session)
{
    atomic_store(&target, session);
}
