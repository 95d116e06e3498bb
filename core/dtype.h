/* What the core asks about element types beyond the public functions. */
#pragma once

#include <cleave/cleave.h>

/* Values that the reference conversions cover: what an activation or a weight
 * may hold. */
bool core_dtype_is_real(uint32_t dtype);
/* One float an element: F32, F16, BF16. */
bool core_dtype_is_float(uint32_t dtype);
/* Bytes that a pointer to elements or blocks is a multiple of. */
uint32_t core_dtype_align(uint32_t dtype);
