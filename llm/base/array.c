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
    int32_t *items = llm_array_reserve(ids->items, &ids->capacity, ids->n + 1,
                                       sizeof *items);
    if (!items)
        return CLV_ERR_NO_MEMORY;
    ids->items = items;
    items[ids->n++] = id;
    return CLV_OK;
}

clv_status llm_spans_append(llm_spans *spans, uint64_t start, uint64_t end)
{
    llm_span *items = llm_array_reserve(spans->items, &spans->capacity,
                                        spans->n + 1, sizeof *items);
    if (!items)
        return CLV_ERR_NO_MEMORY;
    spans->items = items;
    items[spans->n++] = (llm_span){(uint32_t)start, (uint32_t)(end - start)};
    return CLV_OK;
}
