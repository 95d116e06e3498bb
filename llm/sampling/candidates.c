#include "candidates.h"

#include <math.h>

/* Better: the higher key, the lower id of equals. */
static bool better(const llm_candidate *a, const llm_candidate *b)
{
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

/* Moves heap[i] down until its children stand in order. best_first: the best
 * is on top, else the worst. */
static void sift_down(llm_candidate *heap, uint32_t n, uint32_t i,
                      bool best_first)
{
    const llm_candidate moved = heap[i];
    for (;;) {
        uint64_t child = 2 * (uint64_t)i + 1;
        if (child >= n)
            break;
        if (child + 1 < n &&
            better(&heap[child + 1], &heap[child]) == best_first)
            child++;
        if (better(&heap[child], &moved) != best_first)
            break;
        heap[i] = heap[child];
        i = (uint32_t)child;
    }
    heap[i] = moved;
}

static void make_heap(llm_candidate *heap, uint32_t n, bool best_first)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i, best_first);
}

float llm_candidates_max(const llm_candidates *c)
{
    float max = c->items[0].logit;
    for (uint32_t i = 1; i < c->n; i++)
        max = fmaxf(max, c->items[i].logit);
    return max;
}

llm_candidate llm_candidates_best(const llm_candidates *c)
{
    llm_candidate best = c->items[0];
    for (uint32_t i = 1; i < c->n; i++)
        if (c->items[i].logit > best.logit ||
            (c->items[i].logit == best.logit && c->items[i].id < best.id))
            best = c->items[i];
    return best;
}

void llm_candidates_keep(llm_candidates *c, uint32_t k)
{
    llm_candidate *heap = c->items;
    if (k >= c->n)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        heap[i].key = heap[i].logit;
    make_heap(heap, k, false);
    for (uint32_t i = k; i < c->n; i++)
        if (better(&heap[i], &heap[0])) {
            heap[0] = heap[i];
            sift_down(heap, k, 0, false);
        }
    c->n = k;
}

double llm_candidates_total(const llm_candidates *c, float max)
{
    double total = 0;
    for (uint32_t i = 0; i < c->n; i++)
        total += exp((double)c->items[i].logit - max);
    return total;
}

double llm_candidates_entropy(const llm_candidates *c)
{
    const float max = llm_candidates_max(c);
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const double x = (double)c->items[i].logit - max, e = exp(x);
        total += e;
        if (e > 0)
            sum += e * x;
    }
    return log(total) - sum / total;
}

/* Takes the best of a heap, and puts it behind it. */
static llm_candidate take_best(llm_candidate *heap, uint32_t *n)
{
    const llm_candidate best = heap[0];
    heap[0] = heap[--*n];
    heap[*n] = best;
    sift_down(heap, *n, 0, true);
    return best;
}

void llm_candidates_order(llm_candidates *c, uint32_t n)
{
    uint32_t left = c->n;
    make_heap(c->items, left, true);
    while (n-- && left)
        take_best(c->items, &left);
}

/* They are taken from a heap one by one and gather at the end of the array,
 * from where they move to the front. */
void llm_candidates_reach(llm_candidates *c, double p)
{
    llm_candidate *heap = c->items;
    const float max = llm_candidates_max(c);
    const double wanted = p * llm_candidates_total(c, max);
    double sum = 0;
    uint32_t left = c->n;
    make_heap(heap, left, true);
    do {
        sum += exp((double)take_best(heap, &left).logit - max);
    } while (left && sum < wanted);

    for (uint32_t i = left; i < c->n; i++)
        heap[i - left] = heap[i];
    c->n -= left;
}
