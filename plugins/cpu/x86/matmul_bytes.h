/* Products of weights of all 8 bits: without VNNI those of 16 bits are the
 * fastest. */
#pragma once

#ifdef __AVX512VNNI__
#include "matmul_u8s8.h"
#else
#include "matmul_s16.h"
#endif
