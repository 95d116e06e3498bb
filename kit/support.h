/* What a device takes: --support. */
#pragma once

#include "runner.h"

typedef struct kit_support_request {
    const kit_config *config;
    const kit_selection *selection; /* its devices */
    const char *format;             /* md or json */
} kit_support_request;

/* Prints the table; exit status of the command. */
int kit_support_main(const kit_support_request *request);
