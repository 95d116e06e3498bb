/* Cases (cases.h) of products that are one kernel with others. */
#pragma once

#include "tune/cases.h"

/* A product of so many rows, of `in` channels, with a sum, and one of that.
 * False: no memory. */
bool gpu_case_make_series(const clv_host_api *host, uint32_t dtype,
                          uint32_t rows, uint32_t in, gpu_case *c);
/* Layers of one row, each a kernel or all in one: an attention, a product of
 * that with a sum, and keys and values for a row of the cache, which the next
 * one sees. */
bool gpu_case_make_layers(const clv_host_api *host, uint32_t dtype, uint32_t in,
                          gpu_case *c);
