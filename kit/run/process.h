/*
 * Work in a process of its own, followed from outside: whatever the plugin does
 * there, the parent goes on.
 */
#pragma once

#include "../plugin/calls.h"
#include "../plugin/child.h"

typedef struct kit_work {
    const kit_config *config;
    void *ctx; /* of the three functions */
    /* In the child. exit(0) follows. */
    void (*run)(kit *k, void *ctx);
    /* In the parent. The time limit is of what the plugin takes, and each
     * record starts it again; false ends the process. */
    bool (*on_record)(void *ctx, const kit_record *record);
    /* The child printed so many bytes; they went to stderr. */
    void (*on_output)(void *ctx, uint64_t bytes);
} kit_work;

typedef struct kit_ending {
    bool started;     /* else: reason */
    bool hung;        /* killed for the time limit */
    bool interrupted; /* killed because the user asked */
    bool exited;      /* code is the exit status, else the signal */
    int code;
    char reason[KIT_TEXT_SIZE]; /* in words */
} kit_ending;

void kit_process_run(const kit_work *work, kit_ending *ending);
