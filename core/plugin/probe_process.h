/*
 * The process in which plugins are tried: the program cleave-plugin-probe.
 *
 *   cleave-plugin-probe FILE NAME ENV LEFT_OUT [RANK SECTION KEY VALUE]...
 *
 * ENV is "env" if the environment is a source of the configuration, else "-".
 * LEFT_OUT lists devices that are not opened, with blanks between. The values
 * of the configuration follow, with core_config_rank. It writes a line to
 * descriptor CORE_PROBE_FD before each step: the step's name. A step that
 * answered with an error, so that others are left out, is followed by
 * CORE_PROBE_STOPPED; the error is the host's to find again. A plugin at long
 * work shows that it works by what it logs, at any level: for each line of that
 * there is a CORE_PROBE_ALIVE. CORE_PROBE_DEVICE and the id of a device come
 * before it is opened. From CORE_PROBE_USE to CORE_PROBE_CLOSE a device does a
 * little work, and each step is a slot of it: "submit of opencl:0".
 */
#pragma once

#include <cleave/cleave.h>

#define CORE_PROBE_FD 3
#define CORE_PROBE_STEP_SIZE 160
#define CORE_PROBE_STOPPED "stopped"
#define CORE_PROBE_ALIVE "+"
#define CORE_PROBE_DEVICE "device "
#define CORE_PROBE_USE "use"
/* Limits that all may take, however much is heard. */
#define CORE_PROBE_LIMITS 10
/* A device at work is not waited for any longer after so many seconds without a
 * line, in which the process took less than a hundredth of a processor's time:
 * it is blocked. One that compiles, however slowly, is not. */
#define CORE_PROBE_BLOCKED 5
/* The steps from which on a crash does not keep the plugin from being used. */
#define CORE_PROBE_CLOSE "close"
#define CORE_PROBE_QUIESCE "quiesce"
#define CORE_PROBE_DESTROY "destroy"
#define CORE_PROBE_UNLOAD "unload"
#define CORE_PROBE_EXIT "exit"

typedef enum core_probe_how {
    CORE_PROBE_ENDED = 0,   /* code: of the process */
    CORE_PROBE_SIGNAL = 1,  /* code: the signal */
    CORE_PROBE_HUNG = 2,    /* past the limit, and ended by us */
    CORE_PROBE_UNKNOWN = 3, /* somebody else took its end */
} core_probe_how;

typedef struct core_probe_end {
    char step[CORE_PROBE_STEP_SIZE];   /* the latest one; "": none yet */
    char device[CORE_PROBE_STEP_SIZE]; /* the open one, or the one that is being
                                          opened; "": none is */
    uint32_t n_devices;                /* that were opened, or should be */
    bool stopped;
    bool endless; /* hung, but went on reporting */
    bool blocked; /* hung, by the shorter limit */
    uint32_t how; /* core_probe_how */
    int code;
} core_probe_end;

/* Runs the program and waits for its end, limit_ns at most without a line, and
 * CORE_PROBE_LIMITS times that in all. Fails only if it cannot be started. */
clv_status core_probe_process(const char *program, char *const *argv,
                              uint64_t limit_ns, core_probe_end *out);
