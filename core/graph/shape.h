/* Dimensions and sizes of dense tensors. */
#pragma once

#include <cleave/cleave.h>

/* Checks that dtype, rank and dims of a dense tensor are sound: known dtype,
 * rank 1..CLV_MAX_RANK, dims of at least 1, rows of whole blocks, a size below
 * 2^63 bytes. size: receives the size in bytes; may be NULL. */
clv_status core_shape_check(uint32_t dtype, uint32_t rank, const int64_t *dims,
                            uint64_t *size);
