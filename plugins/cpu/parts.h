/*
 * Division of a range over threads that claim its parts one after the other:
 * the first parts are large, so that much is read in one go, and the last ones
 * small, so that all threads end at about the same time though some are slower.
 */
#pragma once

#include "op.h"

typedef struct cpu_parts {
    int64_t n;    /* the range */
    int64_t step; /* parts begin at multiples of it, and are no smaller */
    int64_t most; /* a part at most, a multiple of step */
    uint32_t threads;
} cpu_parts;

/* Of each of the next `threads` parts, when `left` is left: together half. */
static inline int64_t cpu_parts_size(const cpu_parts *p, int64_t left)
{
    const int64_t each = cpu_ceil_div(left, 2 * (int64_t)p->threads);
    const int64_t size = cpu_ceil_div(each, p->step) * p->step;
    return size < p->most ? size : p->most;
}

static inline uint32_t cpu_parts_count(const cpu_parts *p)
{
    uint32_t count = 0;
    for (int64_t left = p->n; left > 0; count += p->threads) {
        const int64_t size = cpu_parts_size(p, left);
        if (left <= size * p->threads)
            return count + (uint32_t)cpu_ceil_div(left, size);
        left -= size * p->threads;
    }
    return count;
}

static inline cpu_range cpu_parts_at(const cpu_parts *p, uint32_t index)
{
    int64_t begin = 0, size;
    for (;; index -= p->threads, begin += size * p->threads) {
        size = cpu_parts_size(p, p->n - begin);
        if (index < p->threads)
            break;
    }
    begin += index * size;
    return (cpu_range){begin, p->n - begin < size ? p->n : begin + size};
}
