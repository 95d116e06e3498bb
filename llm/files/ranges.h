/* Where the tensors of a file lie. */
#pragma once

#include <cleave/llm.h>

typedef struct llm_range {
    uint64_t begin, end; /* bytes */
    uint64_t index;      /* of the tensor */
} llm_range;

/* Sorts n ranges by where they begin. Returns the first that begins before the
 * one before it ends, or NULL. */
const llm_range *llm_ranges_sort(llm_range *ranges, uint64_t n);
