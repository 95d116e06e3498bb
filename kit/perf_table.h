/* The benchmark's side of the command line: devices in processes of their own,
 * rows in a table. */
#pragma once

#include "runner.h"

typedef struct kit_perf_request {
    const kit_config *config;
    const kit_selection *selection; /* its devices */
    const char *const *ops;         /* names; none: all */
    uint32_t n_ops;
    const char *const *models; /* as kit_perf_options has them */
    uint32_t n_models;
    const char *format; /* md, json, jsonl or csv */
} kit_perf_request;

/* Exit status of the command. */
int kit_perf_main(const kit_perf_request *request);
