/*
 * Ctrl-C and SIGTERM: the first one ends the work cleanly, the second one the
 * program at once.
 */
#pragma once

#include <stdbool.h>

typedef struct clv_session clv_session;

void tool_interrupt_install(void);
bool tool_interrupted(void);
/* Called in the signal's handler; NULL: nothing is. */
void tool_interrupt_hook(void (*hook)(void));
/* The session to cancel; NULL before it is destroyed. (cancel.c) */
void tool_interrupt_target(clv_session *session);
