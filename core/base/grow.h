#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for n elements in an array, at least doubling it if it grows.
 * array: address of the pointer to it. False when out of memory; the array is
 * as before then. */
bool core_grow(void *array, uint32_t *capacity, uint64_t n, size_t element);
