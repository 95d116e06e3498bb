/*
 * A Hugging Face model's config.json.
 */
#pragma once

#include "source.h"

typedef struct llm_hf_config {
    llm_hparams hparams; /* checked; name is empty */
    bool tied;           /* the output matrix is the embedding's */
    float *factors[2];   /* of LLM_ROPE_LONG: short and long divisors
                            [rope_dim / 2], the caller's, or NULL */
} llm_hf_config;

/* size bytes of JSON; name is for messages. On success *out is freed with
 * llm_hf_config_finish(). An architecture, rotary scaling or
 * activation that is not supported is CLV_ERR_UNSUPPORTED, with the ones that
 * are. */
clv_status llm_hf_config_parse(const void *json, uint64_t size,
                               const char *name, llm_hf_config *out);
/* DIR/config.json; where it names no BOS and EOS, those of
 * DIR/generation_config.json. */
clv_status llm_hf_config_load(const char *dir, llm_hf_config *out);
void llm_hf_config_finish(llm_hf_config *config);
