/*
 * How a series takes what another device has computed and gives it what it
 * computes itself, if the launch says so (gpu_exchange). By PTX; elsewhere
 * kernels exchange nothing.
 */
#pragma once

#include "ops/gemv_series.h"

/* Whether the last step's results can be sent: one row of F32. */
bool gpu_series_sends(const gpu_step *steps, uint32_t n);
/* Adds the params. dst: of the call, what the last step writes; NULL: it sends
 * nothing. */
void gpu_series_add_exchange(gpu_call *call, const char *dst);
