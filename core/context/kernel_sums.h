/*
 * What devices did in traced runs, summed up by device, kernel and op; behind
 * clv_trace_kernels().
 */
#pragma once

#include "context.h"

clv_status core_kernel_sums_create(struct core_kernel_sums **out);
void core_kernel_sums_destroy(
    struct core_kernel_sums *sums); /* NULL is legal */

/* Counts one run of a kernel; does nothing where memory is short or ctx has no
 * sums. */
void core_kernel_sums_add(clv_context *ctx, const clv_kernel_sum *one);
