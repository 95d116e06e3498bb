/* Frequencies of rotary position embeddings. */
#pragma once

#include "hparams.h"

/* Lists of frequencies that layers may use. */
typedef enum llm_rope_list {
    LLM_ROPE_MAIN,  /* of all layers, or of those without a window */
    LLM_ROPE_LOCAL, /* of layers with a window, where they differ */
    LLM_ROPE_FAR,   /* in place of MAIN in contexts past the original one */
    LLM_ROPE_LISTS,
} llm_rope_list;

/* The factor of q and k that comes with yarn, times own (0: 1), which files may
 * name beside it. */
float llm_rope_yarn_factor(const llm_hparams *hp, float own);
/* Sets *far to whether a context of n tokens uses LLM_ROPE_FAR.
 * CLV_ERR_UNSUPPORTED if it is too long for the settings. */
clv_status llm_rope_reach(const llm_hparams *hp, uint32_t n, bool *far);
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
