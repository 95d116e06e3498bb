#include "arch.h"

#include <math.h>

/* Low frequencies are divided by factor, high ones stay; between the two bounds
 * the result is interpolated linearly. */
static double llama3_frequency(const llm_hparams *hp, double freq)
{
    const double cycles = hp->rope_original_ctx * freq / (2 * M_PI);
    const double low = hp->rope_low_freq_factor;
    const double high = hp->rope_high_freq_factor;
    if (cycles > high)
        return freq;
    if (cycles <= low)
        return freq / hp->rope_factor;
    const double share = (cycles - low) / (high - low);
    return (1 - share) * freq / hp->rope_factor + share * freq;
}

/* The channel that turns so often within the original context. */
static double yarn_channel(const llm_hparams *hp, double turns)
{
    return hp->rope_dim * log(hp->rope_original_ctx / (turns * 2 * M_PI)) /
           (2 * log(hp->rope_base));
}

/* Channels up to low stay, those from high on are divided by factor; between
 * them the result is interpolated linearly. */
static double yarn_frequency(const llm_hparams *hp, uint32_t j, double freq)
{
    double low = yarn_channel(hp, hp->rope_beta_fast);
    double high = yarn_channel(hp, hp->rope_beta_slow);
    if (!hp->rope_unrounded) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, hp->rope_dim - 1.0);
    if (low == high)
        high += 0.001;
    const double share = fmin(fmax((j - low) / (high - low), 0), 1);
    return share * freq / hp->rope_factor + (1 - share) * freq;
}

float llm_rope_yarn_factor(const llm_hparams *hp, float own)
{
    const double factor = hp->rope_factor;
    const double by_factor = factor > 1 ? 0.1 * log(factor) + 1 : 1;
    return (float)(by_factor * (own != 0 ? own : 1));
}

static bool positive(double x)
{
    return isfinite(x) && x > 0;
}

clv_status llm_rope_check(const llm_hparams *hp)
{
    if (hp->rope_dim < 2 || hp->rope_dim % 2 || hp->rope_dim > hp->head_dim)
        return clv_error(CLV_ERR_FORMAT,
                         "rope rotates %u channels of a head of %u; it must be "
                         "an even number up to the head's",
                         hp->rope_dim, hp->head_dim);
    if (!positive(hp->rope_base))
        return clv_error(CLV_ERR_FORMAT, "rope base is %g; it must be above 0",
                         hp->rope_base);
    if (hp->rope_scaling == LLM_ROPE_NONE)
        return CLV_OK;
    if (hp->rope_local_base && !positive(hp->rope_local_base))
        return clv_error(CLV_ERR_FORMAT,
                         "rope base of layers with a window is %g; it must be "
                         "above 0",
                         hp->rope_local_base);
    if (hp->rope_attn_factor && !positive(hp->rope_attn_factor))
        return clv_error(CLV_ERR_FORMAT,
                         "rope attention factor is %g; it must be above 0",
                         hp->rope_attn_factor);
    if ((hp->rope_scaling == LLM_ROPE_LONG ||
         hp->rope_scaling == LLM_ROPE_YARN) &&
        !hp->rope_original_ctx)
        return clv_error(CLV_ERR_FORMAT,
                         "rope scaling names no original context; it must be "
                         "above 0");
    if (hp->rope_scaling == LLM_ROPE_YARN &&
        (!positive(hp->rope_beta_fast) || !positive(hp->rope_beta_slow) ||
         hp->rope_base == 1))
        return clv_error(CLV_ERR_FORMAT,
                         "yarn rope scaling has beta_fast %g and beta_slow %g; "
                         "they must be above 0",
                         hp->rope_beta_fast, hp->rope_beta_slow);
    if (hp->rope_scaling == LLM_ROPE_LONG ||
        hp->rope_scaling == LLM_ROPE_DYNAMIC)
        return CLV_OK;
    if (!positive(hp->rope_factor))
        return clv_error(CLV_ERR_FORMAT,
                         "rope scaling factor is %g; it must be above 0",
                         hp->rope_factor);
    if (hp->rope_scaling != LLM_ROPE_LLAMA3)
        return CLV_OK;
    if (!hp->rope_original_ctx || !positive(hp->rope_low_freq_factor) ||
        !positive(hp->rope_high_freq_factor) ||
        hp->rope_high_freq_factor < hp->rope_low_freq_factor)
        return clv_error(CLV_ERR_FORMAT,
                         "llama3 rope scaling has low factor %g, high factor "
                         "%g, original context %u; they must be above 0, and "
                         "high not below low",
                         hp->rope_low_freq_factor, hp->rope_high_freq_factor,
                         hp->rope_original_ctx);
    return CLV_OK;
}

clv_status llm_rope_frequencies(const llm_hparams *hp, const float *divisors,
                                float *inv_freq)
{
    for (uint32_t j = 0; j < hp->rope_dim / 2; j++) {
        double freq = pow(hp->rope_base, -2.0 * j / hp->rope_dim);
        if (hp->rope_scaling == LLM_ROPE_LINEAR)
            freq /= hp->rope_factor;
        if (divisors) {
            if (!positive(divisors[j]))
                return clv_error(CLV_ERR_FORMAT,
                                 "rope frequency divisor %u is %g; it must be "
                                 "above 0",
                                 j, divisors[j]);
            freq /= divisors[j];
        } else if (hp->rope_scaling == LLM_ROPE_YARN) {
            freq = yarn_frequency(hp, j, freq);
        } else if (hp->rope_scaling == LLM_ROPE_LLAMA3) {
            freq = llama3_frequency(hp, freq);
        }
        inv_freq[j] = (float)freq;
    }
    return CLV_OK;
}

clv_status llm_rope_reach(const llm_hparams *hp, uint32_t n, bool *far)
{
    const bool by_length = hp->rope_scaling == LLM_ROPE_LONG;
    const uint32_t most = by_length ? hp->rope_original_ctx : hp->n_ctx_train;
    *far = by_length && n > most;
    if (n <= most || !(hp->rope_scaling == LLM_ROPE_DYNAMIC ||
                       (by_length && hp->arch->short_rope)))
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "a context of %u tokens: the model's rotary scaling is "
                     "supported up to %u; use fewer",
                     n, most);
}
