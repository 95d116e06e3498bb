/*
 * Ctrl-C and SIGTERM: the first one ends the work cleanly, the second one the
 * program at once. The program ends at once too if the work does not end within
 * a few seconds, since a plugin may block for ever. Crashes of plugins are
 * told.
 */
#pragma once

#include <stdbool.h>

typedef struct clv_session clv_session;

void tool_interrupt_install(void);
/* main() ends. Until then exit() is the call of a plugin, and told so. */
void tool_interrupt_leave(void);
bool tool_interrupted(void);
/* The exit code then: 130 for SIGINT, 143 for SIGTERM, as shells have them. */
int tool_interrupt_code(void);
/* Forgets a Ctrl-C that ended a part of the work only; the next one is the
 * first again. False if it was another signal, which is not forgotten. */
bool tool_interrupt_forget(void);
/* Called in the signal's handler; NULL: nothing is. */
void tool_interrupt_hook(void (*hook)(void));
/* The session to cancel; NULL before it is destroyed. (cancel.c) */
void tool_interrupt_target(clv_session *session);
