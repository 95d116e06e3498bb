/* Frequencies of rotary position embeddings. */
#pragma once

#include "hparams.h"

/* CLV_ERR_FORMAT if the settings make no sense. */
clv_status llm_rope_check(const llm_hparams *hp);

/*
 * Fills inv_freq[rope_dim / 2]: the angle of pair j at position p is
 * p * inv_freq[j], with all scaling that the settings ask for. divisors:
 * [rope_dim / 2] from the file (GGUF's rope_freqs.weight), or NULL; they
 * replace the llama3 scaling. The settings were checked.
 */
clv_status llm_rope_frequencies(const llm_hparams *hp, const float *divisors,
                                float *inv_freq);
