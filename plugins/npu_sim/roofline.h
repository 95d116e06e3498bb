/*
 * Time of an op on a processor that is bound by computing or by memory,
 * whichever takes longer.
 */
#pragma once

#include <stdint.h>

typedef struct npu_roofline {
    double rate;      /* operations a second */
    double bandwidth; /* bytes a second */
} npu_roofline;

/* Nanoseconds of computing alone, and of it all with the whole bandwidth. */
double npu_roofline_compute_ns(const npu_roofline *r, double operations);
double npu_roofline_ns(const npu_roofline *r, double operations, double bytes);
