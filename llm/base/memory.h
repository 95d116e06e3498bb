/* The host's memory, and model files in it. */
#pragma once

#include <cleave/llm.h>

/* Bytes that are free without swapping; UINT64_MAX: unknown. */
uint64_t llm_memory_available(void);

/* What is done with a mapped file of a model: clv_file_map_check(),
 * clv_file_map_lock(), or llm_map_copy(). */
typedef clv_status (*llm_map_fn)(const clv_file_map *map, const char *path);

/* clv_file_map_copy(); CLV_ERR_LIMIT if more than the free memory. */
clv_status llm_map_copy(const clv_file_map *map, const char *path);
