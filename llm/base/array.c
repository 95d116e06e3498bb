#include "array.h"

#include <string.h>

void *llm_array_reserve(void *items, uint64_t *capacity, uint64_t need,
                        size_t size)
{
    if (items && need <= *capacity)
        return items;
    uint64_t count = *capacity + *capacity / 2, bytes;
    if (count < need)
        count = need;
    if (count < 16)
        count = 16;
    void *grown = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= SIZE_MAX / 2)
        grown = realloc(items, bytes);
    if (!grown) {
        llm_no_memory("an array");
        return NULL;
    }
    *capacity = count;
    return grown;
}

bool llm_array_grow(void *items, uint64_t *capacity, uint64_t n, size_t size)
{
    void *old, *grown;
    memcpy(&old, items, sizeof old);
    grown = llm_array_reserve(old, capacity, n + 1, size);
    if (grown)
        memcpy(items, &grown, sizeof grown);
    return grown;
}

clv_status llm_bytes_append(llm_bytes *bytes, const char *data, uint64_t n)
{
    char *items =
        llm_array_reserve(bytes->items, &bytes->capacity, bytes->n + n, 1);
    if (!items)
        return CLV_ERR_NO_MEMORY;
    bytes->items = items;
    if (n)
        memcpy(items + bytes->n, data, n);
    bytes->n += n;
    return CLV_OK;
}

clv_status llm_ids_append(llm_ids *ids, int32_t id)
{
    return LLM_ARRAY_ADD(ids, id);
}

clv_status llm_spans_append(llm_spans *spans, uint64_t start, uint64_t end)
{
    const llm_span span = {(uint32_t)start, (uint32_t)(end - start)};
    return LLM_ARRAY_ADD(spans, span);
}
