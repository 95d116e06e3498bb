#include "rope.h"

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
        } else if (hp->rope_scaling == LLM_ROPE_LLAMA3) {
            freq = llama3_frequency(hp, freq);
        }
        inv_freq[j] = (float)freq;
    }
    return CLV_OK;
}
