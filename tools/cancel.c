/* An interrupt cancels the session at work. */
#include "interrupt.h"

#include <cleave/llm.h>

#include <stdatomic.h>

static _Atomic(clv_session *) target;

static void cancel(void)
{
    clv_session *session = atomic_load(&target);
    if (session)
        clv_session_cancel(session);
}

void tool_interrupt_target(clv_session *session)
{
    atomic_store(&target, session);
    tool_interrupt_hook(cancel);
}
