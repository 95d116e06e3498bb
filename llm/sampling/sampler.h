/* Parts of a sampler that clv_generate() uses beside llm.h. */
#pragma once

#include <cleave/llm.h>

/* CLV_ERR_INVALID unless the sampler is for n_vocab logits. */
clv_status llm_sampler_check(const clv_sampler *sampler, uint32_t n_vocab);
/* Whether it has a grammar: then an end token ends the text in any case. */
bool llm_sampler_is_bound(const clv_sampler *sampler);
