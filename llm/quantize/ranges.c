#include "ranges.h"

#include "../base/array.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    char *weight;
    float largest;
} range;

struct clv_ranges {
    range *items;
    uint64_t n, capacity;
};

clv_status llm_ranges_create(clv_ranges **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? CLV_OK : llm_no_memory("ranges");
}

static range *find(const clv_ranges *ranges, llm_str weight)
{
    for (uint64_t i = 0; i < ranges->n; i++)
        if (llm_str_equal(llm_str_of(ranges->items[i].weight), weight))
            return &ranges->items[i];
    return NULL;
}

clv_status llm_ranges_add(clv_ranges *ranges, const char *weight, float largest)
{
    range *old = find(ranges, llm_str_of(weight));
    if (old) {
        old->largest = largest > old->largest ? largest : old->largest;
        return CLV_OK;
    }
    range r = {strdup(weight), largest};
    if (!r.weight)
        return llm_no_memory(weight);
    clv_status status = LLM_ARRAY_ADD(ranges, r);
    if (status)
        free(r.weight);
    return status;
}

float llm_ranges_find(const clv_ranges *ranges, llm_str weight)
{
    const range *r = find(ranges, weight);
    return r ? r->largest : 0;
}

void clv_ranges_destroy(clv_ranges *ranges)
{
    if (!ranges)
        return;
    for (uint64_t i = 0; i < ranges->n; i++)
        free(ranges->items[i].weight);
    free(ranges->items);
    free(ranges);
}
