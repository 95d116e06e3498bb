#include "params.h"

#include <math.h>

#define MAX_LAST (1u << 20)

clv_sampler_params clv_sampler_defaults(void)
{
    static const char *const breakers[] = {"\n", ":", "\"", "*"};
    return (clv_sampler_params){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .repeat_penalty = 1.0f,
        .repeat_last = 64,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_last = 4096,
        .dry_breakers = breakers,
        .n_dry_breakers = sizeof breakers / sizeof *breakers,
        .typical_p = 1,
        .xtc_threshold = 0.1f,
        .dynatemp_exponent = 1,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1f,
    };
}

/* A number that must be in low..high. */
typedef struct limit {
    const char *name;
    float value, low, high;
} limit;

static clv_status check_limits(const limit *limits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const limit *l = &limits[i];
        if (isfinite(l->high) && !(l->value >= l->low && l->value <= l->high))
            return clv_error(CLV_ERR_INVALID, "%s is %g; it must be in %g..%g",
                             l->name, l->value, l->low, l->high);
        if (!isfinite(l->value) || l->value < l->low)
            return clv_error(CLV_ERR_INVALID,
                             "%s is %g; it must be a finite number%s", l->name,
                             l->value, l->low == 0 ? " of 0 or more" : "");
    }
    return CLV_OK;
}

static clv_status check_bias(const clv_sampler_params *p, uint32_t n_vocab)
{
    if (p->n_bias && !p->bias)
        return clv_error(CLV_ERR_INVALID,
                         "logit biases: bias and n_bias disagree");
    for (uint32_t i = 0; i < p->n_bias; i++) {
        const clv_logit_bias *b = &p->bias[i];
        if (b->id < 0 || (uint32_t)b->id >= n_vocab)
            return clv_error(CLV_ERR_INVALID,
                             "logit bias of token %d; the vocabulary has 0..%u",
                             b->id, n_vocab - 1);
        if (!isfinite(b->bias) && b->bias != -INFINITY)
            return clv_error(CLV_ERR_INVALID,
                             "logit bias of token %d is %g; it must be a "
                             "finite number or -infinity",
                             b->id, b->bias);
    }
    return CLV_OK;
}

static clv_status check_windows(const clv_sampler_params *p)
{
    if (p->repeat_last > MAX_LAST || p->dry_last > MAX_LAST)
        return clv_error(
            CLV_ERR_LIMIT, "%s over the last %u tokens; at most %u",
            p->repeat_last > MAX_LAST ? "repetition penalty" : "DRY penalty",
            p->repeat_last > MAX_LAST ? p->repeat_last : p->dry_last, MAX_LAST);
    if (p->dry_multiplier > 0 && !p->dry_allowed_length)
        return clv_error(CLV_ERR_INVALID,
                         "DRY allows repetitions of 0 tokens; it must be 1 or "
                         "more (dry_allowed_length)");
    return CLV_OK;
}

clv_status llm_sampler_params_check(const clv_sampler_params *p,
                                    uint32_t n_vocab)
{
    if (!n_vocab || n_vocab > INT32_MAX)
        return clv_error(CLV_ERR_INVALID,
                         "sampler for a vocabulary of %u; it must be 1..%d",
                         n_vocab, INT32_MAX);
    if (!isfinite(p->repeat_penalty) || p->repeat_penalty <= 0)
        return clv_error(CLV_ERR_INVALID,
                         "repetition penalty is %g; it must be above 0, 1 for "
                         "none",
                         p->repeat_penalty);
    if (p->mirostat > 2)
        return clv_error(CLV_ERR_INVALID,
                         "mirostat is %u; it must be 0 (off), 1 or 2",
                         p->mirostat);
    const limit limits[] = {
        {"temperature", p->temperature, -INFINITY, INFINITY},
        {"top-p", p->top_p, 0, 1},
        {"min-p", p->min_p, 0, 1},
        {"frequency penalty", p->frequency_penalty, -INFINITY, INFINITY},
        {"presence penalty", p->presence_penalty, -INFINITY, INFINITY},
        {"DRY multiplier", p->dry_multiplier, 0, INFINITY},
        {"DRY base", p->dry_base, 0, INFINITY},
        {"top-n-sigma", p->top_n_sigma, -INFINITY, INFINITY},
        {"typical-p", p->typical_p, 0, 1},
        {"XTC probability", p->xtc_probability, 0, 1},
        {"XTC threshold", p->xtc_threshold, 0, 1},
        {"dynamic temperature range", p->dynatemp_range, 0, INFINITY},
        {"dynamic temperature exponent", p->dynatemp_exponent, 0, INFINITY},
        {"mirostat entropy", p->mirostat_tau, 0, INFINITY},
        {"mirostat learning rate", p->mirostat_eta, 0, INFINITY},
    };
    CLV_TRY(check_limits(limits, sizeof limits / sizeof *limits));
    CLV_TRY(check_bias(p, n_vocab));
    return check_windows(p);
}
