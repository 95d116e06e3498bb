/* Completes the types of cooperative matrices. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * OpTypeCooperativeMatrixKHR, as GLSL that gives it by its number has it, holds
 * the bits of a component and four numbers; SPIR-V wants their ids there. Those
 * types and constants are put before all other types. Code without such
 * matrices stays as it is. words: by malloc(), replaced; -1: no memory, or code
 * that is malformed.
 */
int vk_matrix_types(uint32_t **words, size_t *n);
