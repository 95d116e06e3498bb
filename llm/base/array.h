/*
 * Growable arrays. All start as zeros; items are freed with free().
 */
#pragma once

#include "str.h"

#include <cleave/llm.h>

#include <stdlib.h>

typedef struct llm_bytes {
    char *items;
    uint64_t n, capacity;
} llm_bytes;

typedef struct llm_ids {
    int32_t *items;
    uint64_t n, capacity;
} llm_ids;

/* Part of a text. */
typedef struct llm_span {
    uint32_t start, size;
} llm_span;

typedef struct llm_spans {
    llm_span *items;
    uint64_t n, capacity;
} llm_spans;

/* items, reallocated if need be, with space for need of size bytes. NULL, with
 * a message and items unchanged, if there is no memory. */
void *llm_array_reserve(void *items, uint64_t *capacity, uint64_t need,
                        size_t size);
/* The same for one more item than n; items: the address of the pointer. */
bool llm_array_grow(void *items, uint64_t *capacity, uint64_t n, size_t size);
/* Adds a value to an array with the fields items, n and capacity. A clv_status.
 */
#define LLM_ARRAY_ADD(array, value)                                            \
    (llm_array_grow(&(array)->items, &(array)->capacity, (array)->n,           \
                    sizeof *(array)->items)                                    \
         ? ((array)->items[(array)->n++] = (value), CLV_OK)                    \
         : CLV_ERR_NO_MEMORY)

clv_status llm_bytes_append(llm_bytes *bytes, const char *data, uint64_t n);
clv_status llm_ids_append(llm_ids *ids, int32_t id);
clv_status llm_spans_append(llm_spans *spans, uint64_t start, uint64_t end);
