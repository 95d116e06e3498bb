/* Elements of the dtypes: their sizes, and conversion to and from double. */
#pragma once

#include "graph.h"

#include <cleave/plugin_format.h>

/* Bytes of a block and the elements in it; 1 where there are no blocks. */
int64_t kit_block_size(uint32_t dtype);
int64_t kit_block_length(uint32_t dtype);
/* Bytes of c elements of a row. */
int64_t kit_row_bytes(uint32_t dtype, int64_t c);
/* Dtype i of those of real numbers that need no scales beside them: floats and
 * blocks. CLV_DTYPE_NONE past the last. */
uint32_t kit_real(uint32_t i);
uint32_t kit_n_reals(void);
const char *kit_dtype_name(uint32_t dtype); /* "q8_0" */

/* Element i of the row at data; integers as they are, without scales. */
double kit_decode(uint32_t dtype, const uint8_t *data, int64_t i);
/* f32, f16, bf16 and i32; false for others. Rounds to nearest even. */
bool kit_encode(uint32_t dtype, uint8_t *data, int64_t i, double value);
/* A block of random content: -1..1, or scales that keep rows in that order. */
void kit_random_block(kit *k, uint32_t dtype, uint8_t *data);
