#include "kernel.h"

#define MAX_PARTS 256

typedef struct loop {
    npu_part_fn fn;
    void *ctx;
    int64_t n, step;
    _Atomic bool failed;
} loop;

static void run_part(void *ctx, uint32_t i)
{
    loop *l = ctx;
    int64_t begin = (int64_t)i * l->step;
    int64_t end = begin + l->step < l->n ? begin + l->step : l->n;
    if (!l->fn(l->ctx, begin, end))
        atomic_store(&l->failed, true);
}

clv_status npu_parts(const clv_host_api *host, int64_t n, int64_t grain,
                     npu_part_fn fn, void *ctx)
{
    loop l = {.fn = fn, .ctx = ctx, .n = n, .step = grain > 0 ? grain : 1};
    if (n <= 0)
        return CLV_OK;
    if (n / l.step >= MAX_PARTS)
        l.step = (n + MAX_PARTS - 1) / MAX_PARTS;
    uint32_t parts = (uint32_t)((n + l.step - 1) / l.step);
    if (parts == 1)
        run_part(&l, 0);
    else
        host->parallel_for(host->host, parts, run_part, &l);
    return atomic_load(&l.failed) ? CLV_ERR_NO_MEMORY : CLV_OK;
}

#define LANES 16

float npu_dot(const float *a, const float *b, int64_t n)
{
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += a[i + j] * b[i + j];
    for (int j = 0; i < n; i++, j++)
        lanes[j] += a[i] * b[i];
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++)
            lanes[j] += lanes[j + width];
    return lanes[0];
}
