#include "kernel_sums.h"

#include "../base/grow.h"

#include <string.h>

static bool is_of(const clv_kernel_sum *a, const clv_kernel_sum *b)
{
    return !strcmp(a->kernel, b->kernel) && !strcmp(a->op, b->op) &&
           !strcmp(a->device, b->device);
}

/* With the mutex held; NULL: no memory. */
static clv_kernel_sum *find(core_kernel_sums *s, const clv_kernel_sum *one)
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
    core_kernel_sums *s = &ctx->kernel_sums;
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
    core_kernel_sums *s = &ctx->kernel_sums;
    pthread_mutex_lock(&s->mutex);
    uint32_t n = s->n;
    for (uint32_t i = 0; i < n && i < max; i++)
        out[i] = s->sums[i];
    pthread_mutex_unlock(&s->mutex);
    return n;
}

void clv_trace_forget_kernels(clv_context *ctx)
{
    core_kernel_sums *s = &ctx->kernel_sums;
    pthread_mutex_lock(&s->mutex);
    s->n = 0;
    pthread_mutex_unlock(&s->mutex);
}
