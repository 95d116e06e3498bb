/* Measuring a device: --perf. */
#pragma once

#include "kit.h"

/* One measurement. */
typedef struct kit_perf_row {
    char op[32];    /* "matmul" */
    char dtype[32]; /* of the weight, or of what the op reads */
    char shape[96]; /* "llama3-8b.ffn_down 1x14336x4096" */
    double us;      /* one run, the median */
    double flops;   /* of one run; 0: not counted */
    double bytes;   /* read and written by one run */
    uint32_t runs;
} kit_perf_row;

/* The body of a case: measures the ops of k's device (kit_subject()) and tells
 * each row as it is known. What the device does not take is left out. */
void kit_perf(kit *k, void (*tell)(kit *k, const kit_perf_row *row));
