/*
 * A node of every op, and of MATMUL one for each float and block format: what a
 * device is asked to find out how much of any model it could run, and the work
 * that a trial of its plugin does.
 */
#pragma once

#include "../device/device.h"

/* How many of them the device takes; *all is set if those are all of them. */
clv_status core_sample_taken(clv_device *dev, uint32_t *taken, bool *all);
/* Compiles the first node that the device takes and runs it once, if there is
 * one. report: called with the name of each slot before it is used, and with
 * that of the run. */
clv_status core_sample_run(clv_device *dev,
                           void (*report)(void *ctx, const char *slot),
                           void *ctx);
