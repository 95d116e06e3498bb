/* The products of a format of integers that pay in this instruction set. */
#pragma once

#if defined CPU_TILES
#include "matmul_tiles.h"
#elif defined __AVX512VNNI__ || TOP < 128
#include "matmul_u8s8.h"
#else
#include "matmul_s16.h"
#endif
