#include "memplan.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    uint64_t size, offset;
    uint32_t first, last, index;
} item;

typedef struct shared_object {
    uint64_t size, offset;
    uint32_t head; /* last tensor placed in it, 1 + item, 0: none */
} shared_object;

/* Size descending; then order of the tensors, so that plans are repeatable. */
static int by_size(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static uint32_t length(const item *x)
{
    return x->last - x->first;
}

/* What lives longest comes first, and the short ones around it. */
static int by_length(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (length(x) != length(y))
        return length(x) < length(y) ? 1 : -1;
    return by_size(a, b);
}

static int by_area(const void *a, const void *b)
{
    const item *x = a, *y = b;
    double p = (double)x->size * (length(x) + 1.0);
    double q = (double)y->size * (length(y) + 1.0);
    return p < q ? 1 : p > q ? -1 : by_size(a, b);
}

typedef struct rule {
    planner_may_share_fn may_share; /* NULL: always */
    const void *ctx;
} rule;

/* The tensors need memory of their own each. */
static bool conflict(const rule *r, const item *a, const item *b)
{
    return (a->first <= b->last && b->first <= a->last) ||
           (r->may_share && !r->may_share(r->ctx, a->index, b->index));
}

/* ------------------------------------------------------------------------ */
/* Offsets                                                                   */

/* Puts order[n], where order[0..n) is sorted by offset, into the smallest gap
 * between tensors that conflict with it, else behind them. Returns its end. */
static uint64_t place_in_gap(const rule *r, item *const *order, uint32_t n,
                             item *x)
{
    uint64_t end = 0, best = UINT64_MAX;
    bool found = false;
    for (uint32_t i = 0; i < n; i++) {
        const item *other = order[i];
        if (!conflict(r, other, x))
            continue;
        if (other->offset > end && other->offset - end >= x->size &&
            other->offset - end < best) {
            best = other->offset - end;
            x->offset = end;
            found = true;
        }
        if (other->offset + other->size > end)
            end = other->offset + other->size;
    }
    if (!found)
        x->offset = end;
    return x->offset + x->size;
}

static uint64_t place_in_order(const rule *r, item *items, uint32_t n,
                               item **order)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = place_in_gap(r, order, i, &items[i]);
        total = end > total ? end : total;
        uint32_t at = i;
        for (; at && order[at - 1]->offset > items[i].offset; at--)
            order[at] = order[at - 1];
        order[at] = &items[i];
    }
    return total;
}

/* By size, as in the paper; where that takes more than is live at some node, in
 * other orders too. offsets[index]: of the best. */
static uint64_t plan_offsets(const rule *r, item *items, uint32_t n,
                             uint64_t least, item **order, uint64_t *offsets)
{
    static int (*const orders[])(const void *,
                                 const void *) = {by_size, by_length, by_area};
    uint64_t best = UINT64_MAX;
    for (uint32_t o = 0; o < 3 && best > least; o++) {
        qsort(items, n, sizeof *items, orders[o]);
        uint64_t total = place_in_order(r, items, n, order);
        for (uint32_t i = 0; i < n && total < best; i++)
            offsets[items[i].index] = items[i].offset;
        best = total < best ? total : best;
    }
    return best;
}

/* ------------------------------------------------------------------------ */
/* Shared objects                                                            */

static bool object_free(const rule *r, const item *items, const uint32_t *next,
                        const shared_object *object, const item *x)
{
    for (uint32_t i = object->head; i; i = next[i - 1])
        if (conflict(r, &items[i - 1], x))
            return false;
    return true;
}

/* Items come by falling size, so every object is large enough; the smallest
 * that is free wastes least. next: chains of the items in an object. */
static uint64_t plan_objects(const rule *r, const item *items, uint32_t n,
                             uint64_t *offsets, shared_object *objects,
                             uint32_t *next)
{
    uint64_t total = 0;
    uint32_t n_objects = 0;
    for (uint32_t i = 0; i < n; i++) {
        shared_object *best = NULL;
        for (uint32_t j = n_objects; j-- && !best;)
            if (object_free(r, items, next, &objects[j], &items[i]))
                best = &objects[j];
        if (!best) {
            best = &objects[n_objects++];
            *best = (shared_object){items[i].size, total, 0};
            total += items[i].size;
        }
        offsets[i] = best->offset;
        next[i] = best->head;
        best->head = i + 1;
    }
    return total;
}

/* ------------------------------------------------------------------------ */

/* Most bytes live at once: at some tensor's first node. */
static uint64_t live_bytes(const item *items, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t live = 0;
        for (uint32_t j = 0; j < n; j++)
            if (items[j].first <= items[i].first &&
                items[i].first <= items[j].last)
                live += items[j].size;
        most = live > most ? live : most;
    }
    return most;
}

/* Tensors with rounded sizes; *naive becomes their sum. */
static clv_status make_items(const planner_lifetime *tensors, uint32_t n,
                             uint64_t align, item *items, uint64_t *naive)
{
    *naive = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t size;
        if (__builtin_add_overflow(tensors[i].size, align - 1, &size) ||
            __builtin_add_overflow(*naive, size & ~(align - 1), naive))
            return clv_error(CLV_ERR_LIMIT,
                             "the graph's intermediate values "
                             "need more than 2^64 bytes; use smaller batches");
        items[i] = (item){.size = size & ~(align - 1),
                          .first = tensors[i].first,
                          .last = tensors[i].last,
                          .index = i};
    }
    return CLV_OK;
}

clv_status planner_memplan_make(const planner_lifetime *tensors, uint32_t n,
                                uint64_t align, planner_may_share_fn may_share,
                                const void *ctx, uint64_t *place,
                                core_memplan *out)
{
    const rule r = {may_share, ctx};
    item *items = calloc((size_t)n + 1, sizeof *items);
    item **order = calloc((size_t)n + 1, sizeof *order);
    uint64_t *object_offsets = calloc((size_t)n + 1, sizeof *object_offsets);
    shared_object *objects = calloc((size_t)n + 1, sizeof *objects);
    uint32_t *next = calloc((size_t)n + 1, sizeof *next);
    core_memplan plan;
    clv_status status;
    if (!items || !order || !object_offsets || !objects || !next) {
        status = clv_error(CLV_ERR_NO_MEMORY,
                           "no memory to plan %u intermediate values", n);
        goto done;
    }
    status = make_items(tensors, n, align, items, &plan.naive);
    if (status)
        goto done;
    plan.live = live_bytes(items, n);
    plan.offsets = plan_offsets(&r, items, n, plan.live, order, place);
    qsort(items, n, sizeof *items, by_size);
    plan.objects = plan_objects(&r, items, n, object_offsets, objects, next);
    plan.size = plan.offsets < plan.objects ? plan.offsets : plan.objects;
    for (uint32_t i = 0; i < n && plan.size != plan.offsets; i++)
        place[items[i].index] = object_offsets[i];
    *out = plan;
done:
    free(next);
    free(objects);
    free(object_offsets);
    free(order);
    free(items);
    return status;
}
