/*
 * What devices did in traced runs, summed up by device, kernel and op; behind
 * clv_trace_kernels().
 */
#pragma once

#include "context.h"

/* Counts one run of a kernel; does nothing where memory is short. */
void core_kernel_sums_add(clv_context *ctx, const clv_kernel_sum *one);
