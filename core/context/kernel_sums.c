#include "kernel_sums.h"

#include "../base/error.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

struct core_kernel_sums {
    pthread_mutex_t mutex; /* protects the rest */
    clv_kernel_sum *sums;
    uint32_t n, capacity;
};

clv_status core_kernel_sums_create(struct core_kernel_sums **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return core_no_memory("for sums of times");
    pthread_mutex_init(&(*out)->mutex, NULL);
    return CLV_OK;
}

void core_kernel_sums_destroy(struct core_kernel_sums *sums)
{
    if (!sums)
        return;
    pthread_mutex_destroy(&sums->mutex);
    free(sums->sums);
    free(sums);
}

static bool is_of(const clv_kernel_sum *a, const clv_kernel_sum *b)
{
    return !strcmp(a->kernel, b->kernel) && !strcmp(a->op, b->op) &&
           !strcmp(a->device, b->device);
}

/* With the mutex held; NULL: no memory. */
static clv_kernel_sum *find(struct core_kernel_sums *s,
                            const clv_kernel_sum *one)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (is_of(&s->sums[i], one))
            return &s->sums[i];
    if (!core_grow(&s->sums, &s->capacity, s->n + 1ull, sizeof *s->sums))
        return NULL;
    clv_kernel_sum *sum = &s->sums[s->n++];
    *sum = *one;
    sum->runs = 0;
    sum->ns = sum->bytes = sum->flops = 0;
    return sum;
}

void core_kernel_sums_add(clv_context *ctx, const clv_kernel_sum *one)
{
    struct core_kernel_sums *s = ctx->kernel_sums;
    if (!s)
        return;
    pthread_mutex_lock(&s->mutex);
    clv_kernel_sum *sum = find(s, one);
    if (sum) {
        sum->runs += one->runs;
        sum->ns += one->ns;
        sum->bytes += one->bytes;
        sum->flops += one->flops;
        sum->top_bandwidth = one->top_bandwidth;
        sum->top_flops = one->top_flops;
    }
    pthread_mutex_unlock(&s->mutex);
}

uint32_t clv_trace_kernels(clv_context *ctx, clv_kernel_sum *out, uint32_t max)
{
    struct core_kernel_sums *s = ctx->kernel_sums;
    pthread_mutex_lock(&s->mutex);
    uint32_t n = s->n;
    for (uint32_t i = 0; i < n && i < max; i++)
        out[i] = s->sums[i];
    pthread_mutex_unlock(&s->mutex);
    return n;
}

void clv_trace_forget_kernels(clv_context *ctx)
{
    struct core_kernel_sums *s = ctx->kernel_sums;
    pthread_mutex_lock(&s->mutex);
    s->n = 0;
    pthread_mutex_unlock(&s->mutex);
}
