#include "device_use.h"
#include "trace.h"

#include "../base/grow.h"

#include <stdio.h>
#include <stdlib.h>

/* What overlaps the latest span, as the nodes of a program do, is made one with
 * it. */
static void add(core_device_use *use, core_spans *spans, uint64_t begin,
                uint64_t end)
{
    core_ns_span *last = spans->n ? &spans->list[spans->n - 1] : NULL;
    if (last && begin <= last->end && end >= last->begin) {
        last->begin = begin < last->begin ? begin : last->begin;
        last->end = end > last->end ? end : last->end;
    } else if (spans->n >= CORE_TRACE_MAX_SPANS ||
               !core_grow(&spans->list, &spans->capacity, spans->n + 1ull,
                          sizeof *spans->list)) {
        use->incomplete = true;
    } else {
        spans->list[spans->n++] = (core_ns_span){begin, end};
    }
}

/* With the mutex held; NULL: no memory. */
static core_used_device *find(core_device_use *use, const clv_device *dev)
{
    for (uint32_t i = 0; i < use->n; i++)
        if (use->devices[i].dev == dev)
            return &use->devices[i];
    if (!core_grow(&use->devices, &use->capacity, use->n + 1ull,
                   sizeof *use->devices))
        return NULL;
    use->devices[use->n] = (core_used_device){.dev = dev};
    return &use->devices[use->n++];
}

void core_device_use_add(clv_context *ctx, const clv_device *dev,
                         uint64_t begin_ns, uint64_t end_ns)
{
    core_device_use *use = &ctx->device_use;
    pthread_mutex_lock(&use->mutex);
    core_used_device *used = find(use, dev);
    if (used)
        add(use, &used->work, begin_ns, end_ns);
    else
        use->incomplete = true;
    pthread_mutex_unlock(&use->mutex);
}

void core_device_use_add_run(clv_context *ctx, uint32_t clock,
                             uint64_t begin_ns, uint64_t end_ns)
{
    core_device_use *use = &ctx->device_use;
    pthread_mutex_lock(&use->mutex);
    add(use, &use->runs[clock == CLV_CLOCK_VIRTUAL], begin_ns, end_ns);
    pthread_mutex_unlock(&use->mutex);
}

static int by_begin(const void *a, const void *b)
{
    const core_ns_span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Sorts them, and leaves none that overlap. */
static void unite(core_spans *spans)
{
    uint32_t n = 0;
    if (spans->n)
        qsort(spans->list, spans->n, sizeof *spans->list, by_begin);
    for (uint32_t i = 0; i < spans->n; i++) {
        const core_ns_span s = spans->list[i];
        if (!n || s.begin > spans->list[n - 1].end)
            spans->list[n++] = s;
        else if (s.end > spans->list[n - 1].end)
            spans->list[n - 1].end = s.end;
    }
    spans->n = n;
}

/* Of united spans, what lies in both. */
static double common_ns(const core_spans *a, const core_spans *b)
{
    double sum = 0;
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) {
        const core_ns_span *x = &a->list[i], *y = &b->list[j];
        const uint64_t begin = x->begin > y->begin ? x->begin : y->begin;
        const uint64_t end = x->end < y->end ? x->end : y->end;
        sum += end > begin ? (double)(end - begin) : 0;
        if (x->end < y->end)
            i++;
        else
            j++;
    }
    return sum;
}

static clv_device_use use_of(core_device_use *use, core_used_device *used)
{
    const bool is_virtual =
        clv_device_info_of(used->dev)->clock == CLV_CLOCK_VIRTUAL;
    const core_spans *runs = &use->runs[is_virtual];
    unite(&used->work);
    clv_device_use out = {.busy_ns = common_ns(&used->work, runs),
                          .run_ns = common_ns(runs, runs),
                          .is_virtual = is_virtual};
    snprintf(out.device, sizeof out.device, "%s", clv_device_id(used->dev));
    return out;
}

uint32_t clv_trace_devices(clv_context *ctx, clv_device_use *out, uint32_t room)
{
    core_device_use *use = &ctx->device_use;
    pthread_mutex_lock(&use->mutex);
    const uint32_t n = use->incomplete ? 0 : use->n;
    for (int i = 0; i < 2; i++)
        unite(&use->runs[i]);
    for (uint32_t i = 0; i < n && i < room; i++)
        out[i] = use_of(use, &use->devices[i]);
    pthread_mutex_unlock(&use->mutex);
    return n;
}

void core_device_use_finish(core_device_use *use)
{
    for (uint32_t i = 0; i < use->n; i++)
        free(use->devices[i].work.list);
    for (int i = 0; i < 2; i++)
        free(use->runs[i].list);
    free(use->devices);
}

void clv_trace_forget_devices(clv_context *ctx)
{
    core_device_use *use = &ctx->device_use;
    pthread_mutex_lock(&use->mutex);
    for (uint32_t i = 0; i < use->n; i++)
        use->devices[i].work.n = 0;
    use->runs[0].n = use->runs[1].n = 0;
    use->incomplete = false;
    pthread_mutex_unlock(&use->mutex);
}
