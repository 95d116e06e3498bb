/* Measuring a device: --perf. */
#pragma once

#include "../plugin/kit.h"

/* One measurement. */
typedef struct kit_perf_row {
    char op[32];    /* "matmul" */
    char dtype[32]; /* of the weight, or of what the op reads */
    char shape[96]; /* "llama3-8b.ffn_down 1x14336x4096" */
    char clock[16]; /* whose times these are: "device", from trace_read(), or
                       "host", which counts submits and waits too */
    double us;      /* one run, the median */
    double flops;   /* of one run; 0: not counted */
    double bytes;   /* read and written by one run */
    uint32_t runs;
    uint32_t done, all; /* shapes: this is the done-th of all */
} kit_perf_row;

typedef struct kit_perf_options {
    const char *const *ops; /* names; none: all */
    uint32_t n_ops;
    const char *const *models; /* patterns of the shell for the names of shapes,
                                  "llama3-8b.ffn_*"; none: all */
    uint32_t n_models;
    void (*tell)(kit *k, const kit_perf_row *row);
} kit_perf_options;

/* The body of a case; arg: kit_perf_options. Measures the ops of k's device
 * (kit_under_test()) and tells each row as it is known. What the device does
 * not take is told with no runs. */
void kit_perf_run(kit *k, const void *arg);
