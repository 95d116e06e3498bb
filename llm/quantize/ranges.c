#include "ranges.h"

#include "../base/array.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    char *weight;
    float largest;
    float *divisors; /* [n], or NULL */
    uint64_t n;
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

clv_status llm_ranges_add(clv_ranges *ranges, llm_str weight, float largest,
                          const float *divisors, uint64_t n)
{
    range *old = find(ranges, weight);
    if (old) {
        old->largest = largest > old->largest ? largest : old->largest;
        return CLV_OK;
    }
    range r = {.weight = strndup(weight.data, weight.size),
               .largest = largest,
               .divisors = divisors ? calloc(n, sizeof *divisors) : NULL,
               .n = n};
    clv_status status = !r.weight || (divisors && !r.divisors)
                            ? llm_no_memory("ranges")
                            : LLM_ARRAY_ADD(ranges, r);
    if (status) {
        free(r.weight);
        free(r.divisors);
    } else if (divisors) {
        memcpy(r.divisors, divisors, n * sizeof *divisors);
    }
    return status;
}

const float *llm_ranges_divisors(const clv_ranges *ranges, llm_str weight,
                                 uint64_t n)
{
    const range *r = find(ranges, weight);
    return r && r->n == n ? r->divisors : NULL;
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
    for (uint64_t i = 0; i < ranges->n; i++) {
        free(ranges->items[i].weight);
        free(ranges->items[i].divisors);
    }
    free(ranges->items);
    free(ranges);
}
