/* What cases (cases.h) are made of: numbers that seeds give, tensors and nodes.
 */
#pragma once

#include "tune/cases.h"

/* Weights are -7..7 times this, which every format holds exactly. */
#define GPU_CASE_STEP (1.0f / 64)
#define GPU_CASE_DIM 128 /* of a head, at the most */

uint32_t gpu_case_scramble(uint32_t i, uint32_t seed);
/* Element i of the data of a seed: a whole number, -7..7, and that times
 * GPU_CASE_STEP. */
int gpu_case_number(uint32_t i, uint32_t seed);
float gpu_case_element(uint32_t i, uint32_t seed);

/* Adds tensor [rows, columns], with data from the seed; seed 0: the output.
 * False: no memory. */
bool gpu_case_tensor(const clv_host_api *host, gpu_case *c, uint32_t dtype,
                     uint32_t usage, int64_t rows, int64_t columns,
                     uint32_t seed);
clv_node *gpu_case_node(gpu_case *c, uint32_t op, uint32_t out);
void gpu_case_binary(gpu_case *c, uint32_t op, uint32_t a, uint32_t b,
                     uint32_t out);

/* Of an attention: queries are the data of seed 1, keys of 2, values of 3. */
typedef struct gpu_case_heads {
    uint32_t n, shared, dim;  /* shared: so many have a group of the cache */
    const float *key, *value; /* the last row of the cache; NULL: as others */
} gpu_case_heads;

/* Head h of query i, which sees rows 0..last. */
void gpu_case_attend(const gpu_case_heads *a, uint32_t i, uint32_t h,
                     uint32_t last, float *out);
