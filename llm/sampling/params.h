/* Parameters of samplers: defaults and limits. */
#pragma once

#include <cleave/llm.h>

clv_status llm_sampler_params_check(const clv_sampler_params *p,
                                    uint32_t n_vocab);
