/* The process's handlers of signals. Some drivers of OpenCL install theirs when
 * they are first asked for platforms and devices; what the application has is
 * put back. */
#pragma once

#include <signal.h>
#include <stdbool.h>

typedef struct gpu_handlers {
    struct sigaction of[NSIG];
    bool known[NSIG];
} gpu_handlers;

void gpu_handlers_keep(gpu_handlers *handlers);
void gpu_handlers_restore(const gpu_handlers *handlers);
