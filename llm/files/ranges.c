#include "ranges.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const llm_range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

const llm_range *llm_ranges_sort(llm_range *ranges, uint64_t n)
{
    if (n)
        qsort(ranges, n, sizeof *ranges, compare);
    for (uint64_t i = 1; i < n; i++)
        if (ranges[i].begin < ranges[i - 1].end)
            return &ranges[i];
    return NULL;
}
