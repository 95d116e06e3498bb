#include "importance.h"

#include "../models/rope.h"

#include <math.h>

static double log_sum_exp(const float *x, uint32_t n)
{
    double top = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        top = fmax(top, (double)x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* Of the predictions q from p. */
static double divergence(const float *p, const float *q, uint32_t n)
{
    const double p_sum = log_sum_exp(p, n), q_sum = log_sum_exp(q, n);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double a = (double)p[i] - p_sum, b = (double)q[i] - q_sum;
        sum += exp(a) * (a - b);
    }
    return sum;
}

static clv_status run_all(const llm_sample *s, llm_runner *runner, double *out)
{
    const uint32_t vocab = s->model->hp->n_vocab;
    double sum = 0;
    bool far;
    CLV_TRY(llm_rope_reach(s->model->hp, s->window, &far));
    for (uint64_t i = 0; i < s->n; i++) {
        const llm_input input = {
            .ids = s->ids + i * s->window, .n = s->window, .far = far};
        CLV_TRY(llm_runner_run(runner, &input));
        const float *p = s->logits + i * s->window * vocab;
        const float *q = llm_runner_logits(runner);
        for (uint64_t at = 0; at < (uint64_t)s->window * vocab; at += vocab)
            sum += divergence(p + at, q + at, vocab);
    }
    *out = sum / (double)(s->n * s->window);
    return CLV_OK;
}

static clv_status measure(const llm_sample *s, const llm_rounding *rounding,
                          double *out)
{
    const llm_shape shape = {.n_tokens = s->window,
                             .fixed = true,
                             .all_logits = true,
                             .rounding = rounding};
    llm_runner *runner;
    CLV_TRY(llm_runner_create(s->model, s->cache, &shape, &runner));
    clv_status status = llm_runner_plan(runner, &(llm_runner_params){0});
    if (!status)
        status = llm_runner_compile(runner, &(llm_runner_params){0}, s->cache);
    if (!status)
        status = run_all(s, runner, out);
    llm_runner_destroy(runner);
    return status;
}

/* The divisors and their inverses as tensors. */
static clv_status set_divisors(const llm_sample *s, const float *divisors,
                               int64_t n, llm_rounding *r)
{
    CLV_TRY(
        clv_tensor_create(s->model->ctx, CLV_DTYPE_F32, 1, &n, &r->divisors));
    CLV_TRY(
        clv_tensor_create(s->model->ctx, CLV_DTYPE_F32, 1, &n, &r->inverse));
    float *to = clv_tensor_data(r->divisors);
    float *inverse = clv_tensor_data(r->inverse);
    for (int64_t i = 0; i < n; i++) {
        to[i] = divisors[i];
        inverse[i] = 1 / divisors[i];
    }
    return CLV_OK;
}

clv_status llm_importance_of(const llm_sample *sample, const uint64_t *layers,
                             uint64_t layer, float scale, const float *divisors,
                             uint64_t columns, double *out)
{
    llm_rounding r = {.layers = layers, .layer = layer, .scale = scale};
    clv_status status =
        divisors ? set_divisors(sample, divisors, (int64_t)columns, &r)
                 : CLV_OK;
    if (!status)
        status = measure(sample, &r, out);
    clv_tensor_destroy(r.divisors);
    clv_tensor_destroy(r.inverse);
    return status;
}
