/* What the core asks about element types beyond the public functions. */
#pragma once

#include <cleave/cleave.h>
#include <cleave/plugin_format.h>

/* Values that become f32 by themselves: what an activation or a weight may
 * hold. */
static inline bool core_dtype_is_real(uint32_t dtype)
{
    return clv_format_is(dtype, CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK);
}

/* Integers that become real values by scales beside them: I8, I4. */
static inline bool core_dtype_is_scaled(uint32_t dtype)
{
    return clv_format_is(dtype, CLV_FORMAT_INTEGER);
}

/* One float an element: F32, F16, BF16. */
static inline bool core_dtype_is_float(uint32_t dtype)
{
    return clv_format_is(dtype, CLV_FORMAT_FLOAT);
}
