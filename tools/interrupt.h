/*
 * Ctrl-C and SIGTERM: the first one ends the work cleanly, the second one the
 * program at once.
 */
#pragma once

#include <cleave/llm.h>

void tool_interrupt_install(void);
bool tool_interrupted(void);
/* The session to cancel; NULL before it is destroyed. */
void tool_interrupt_target(clv_session *session);
