/* Work on every device of a plugin, each in a process of its own, that tells
 * rows to the parent: what --perf and --support are made of. */
#pragma once

#include "runner.h"

typedef struct kit_each {
    const kit_config *config;
    const kit_selection *selection; /* its devices */
    const kit_case *work;
    void *ctx; /* of the functions, which run in the parent */
    void (*on_device)(void *ctx, const kit_queried_device *device); /* begins */
    /* What the child says is not to be trusted. */
    void (*on_data)(void *ctx, const kit_record *record);
    /* A message about something that did not work. */
    void (*complain)(void *ctx, const char *text);
} kit_each;

/* Exit status of the command: messages are printed. */
int kit_each_device(const kit_each *each);
