/* What the core asks about element types beyond the public functions. */
#pragma once

#include <cleave/cleave.h>

/* Values that the reference conversions cover: what an activation or a weight
 * may hold. */
bool core_dtype_is_real(uint32_t dtype);
/* Integers that become real values by scales beside them: I8, I4. */
bool core_dtype_is_scaled(uint32_t dtype);
/* n elements of such a dtype as floats, without their scales; the first one
 * begins a block. */
void core_dtype_decode_integers(uint32_t dtype, const void *src, float *dst,
                                uint64_t n);
/* One float an element: F32, F16, BF16. */
bool core_dtype_is_float(uint32_t dtype);
/* Bytes that a pointer to elements or blocks is a multiple of. */
uint32_t core_dtype_align(uint32_t dtype);
