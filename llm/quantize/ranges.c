#include "ranges.h"

#include "../base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One channel in so many may be hot. */
enum { HOT = 32 };

typedef struct entry {
    char *weight, *maker;
    llm_input_range range;
    float *divisors;
    uint32_t *over;
} entry;

struct clv_ranges {
    entry *items;
    uint64_t n, capacity;
};

clv_status llm_ranges_create(clv_ranges **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? CLV_OK : llm_no_memory("ranges");
}

static void finish(entry *e)
{
    free(e->weight);
    free(e->maker);
    free(e->divisors);
    free(e->over);
}

static void *copy_of(const void *from, uint64_t size)
{
    void *to = malloc(size ? size : 1);
    return to ? memcpy(to, from, size) : NULL;
}

static entry *find(const clv_ranges *ranges, llm_str weight)
{
    for (uint64_t i = 0; i < ranges->n; i++)
        if (llm_str_equal(llm_str_of(ranges->items[i].weight), weight))
            return &ranges->items[i];
    return NULL;
}

clv_status llm_ranges_add(clv_ranges *ranges, llm_str weight,
                          const llm_input_range *range)
{
    entry *old = find(ranges, weight);
    if (old) {
        if (range->clamp.alone > old->range.clamp.alone)
            old->range.clamp = range->clamp;
        if (range->bound > old->range.bound)
            old->range.bound = range->bound;
        return CLV_OK;
    }
    const uint64_t n = range->columns;
    entry e = {.weight = strndup(weight.data, weight.size), .range = *range};
    e.maker = strndup(range->maker.data, range->maker.size);
    e.range.maker = llm_str_of(e.maker ? e.maker : "");
    e.over = copy_of(range->over, n * sizeof *e.over);
    if (range->divisors)
        e.divisors = copy_of(range->divisors, n * sizeof *e.divisors);
    e.range.over = e.over;
    e.range.divisors = e.divisors;
    const clv_status status =
        !e.weight || !e.maker || !e.over || (range->divisors && !e.divisors)
            ? llm_no_memory("ranges")
            : LLM_ARRAY_ADD(ranges, e);
    if (status)
        finish(&e);
    return status;
}

const llm_input_range *llm_ranges_find(const clv_ranges *ranges, llm_str weight)
{
    const entry *e = find(ranges, weight);
    return e ? &e->range : NULL;
}

const float *llm_ranges_made_by(const clv_ranges *ranges, llm_str maker,
                                uint64_t n)
{
    for (uint64_t i = 0; i < ranges->n; i++) {
        const llm_input_range *r = &ranges->items[i].range;
        const uint64_t stem = r->maker.size;
        if (r->divisors && r->columns == n && maker.size > stem &&
            !memcmp(maker.data, r->maker.data, stem) &&
            (llm_str_equal((llm_str){maker.data + stem, maker.size - stem},
                           llm_str_of(".weight")) ||
             llm_str_equal((llm_str){maker.data + stem, maker.size - stem},
                           llm_str_of(".bias"))))
            return r->divisors;
    }
    return NULL;
}

bool llm_ranges_keep(const clv_ranges *ranges, const llm_input_range *range,
                     float prune)
{
    uint64_t layers = 0, before = 0; /* before: to which they matter more */
    for (uint64_t i = 0; i < ranges->n; i++) {
        const llm_input_range *r = &ranges->items[i].range;
        bool first = true;
        for (uint64_t j = 0; j < i; j++)
            first &= ranges->items[j].range.layer != r->layer;
        const double more = r->clamp.importance - range->clamp.importance;
        layers += first;
        before += first && (more > 0 || (more == 0 && r->layer < range->layer));
    }
    const double pruned = floor((double)prune * (double)layers + 1e-6);
    return range->bound && (double)before < (double)layers - pruned;
}

/* The channel that most often is an outlier, of those less often than `than`,
 * or as often and behind channel `behind`. The number of columns: none. */
static uint64_t next_hot(const llm_input_range *r, uint32_t than,
                         uint64_t behind)
{
    uint64_t best = r->columns;
    for (uint64_t i = 0; i < r->columns; i++)
        if ((r->over[i] < than || (r->over[i] == than && i > behind)) &&
            r->over[i] > (best < r->columns ? r->over[best] : 0))
            best = i;
    return best;
}

uint64_t llm_input_hot(const llm_input_range *range, int32_t *channels)
{
    const uint64_t most = range->columns / HOT + 1;
    uint64_t at = range->columns, n = 0;
    uint32_t count = UINT32_MAX;
    while (n < most && (at = next_hot(range, count, at)) < range->columns) {
        channels[n++] = (int32_t)at;
        count = range->over[at];
    }
    return n;
}

void clv_ranges_destroy(clv_ranges *ranges)
{
    if (!ranges)
        return;
    for (uint64_t i = 0; i < ranges->n; i++)
        finish(&ranges->items[i]);
    free(ranges->items);
    free(ranges);
}
