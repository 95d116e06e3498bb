/*
 * The process in which plugins are tried: the program cleave-plugin-probe.
 *
 *   cleave-plugin-probe FILE NAME ENV [RANK SECTION KEY VALUE]...
 *
 * ENV is "env" if the environment is a source of the configuration, else "-".
 * The configuration's values follow, with core_config_rank.
 *
 * The program writes lines to descriptor CORE_PROBE_FD: the name of each step
 * before it begins; CORE_PROBE_STOPPED after a step that failed, so that others
 * are left out (the host finds the error itself); CORE_PROBE_ALIVE for each
 * line that the plugin logs, at any level, which shows that it makes progress.
 */
#pragma once

#include <cleave/cleave.h>

#define CORE_PROBE_FD 3
#define CORE_PROBE_STOPPED "stopped"
#define CORE_PROBE_ALIVE "+"
/* The most time in all, as a multiple of the limit. */
#define CORE_PROBE_LIMITS 10
/* Steps that close: a plugin that crashes in them is used all the same. */
#define CORE_PROBE_CLOSE "close"
#define CORE_PROBE_QUIESCE "quiesce"
#define CORE_PROBE_DESTROY "destroy"
#define CORE_PROBE_UNLOAD "unload"
#define CORE_PROBE_EXIT "exit"

typedef enum core_probe_how {
    CORE_PROBE_ENDED = 0,   /* code: of the process */
    CORE_PROBE_SIGNAL = 1,  /* code: the signal */
    CORE_PROBE_HUNG = 2,    /* past the limit, and killed */
    CORE_PROBE_UNKNOWN = 3, /* its status went to another wait() */
} core_probe_how;

typedef struct core_probe_end {
    char step[32]; /* the last one begun, "" before the first */
    bool stopped;
    bool endless; /* hung, but still wrote lines */
    uint32_t how; /* core_probe_how */
    int code;
} core_probe_end;

/* Runs the program and waits for its end: at most limit_ns without a line, and
 * CORE_PROBE_LIMITS times that in all. Fails only if it cannot be started. */
clv_status core_probe_process(const char *program, char *const *argv,
                              uint64_t limit_ns, core_probe_end *out);
