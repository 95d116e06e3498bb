/* Rotary position embeddings in a Hugging Face model's config.json. */
#pragma once

#include "../base/json.h"
#include "../models/arch.h"

/* What rope_scaling or rope_parameters ask for; other keys are in *h already.
 * The latter may have one object for layers with a window and one for the
 * others. */
clv_status llm_hf_rope_parse(const llm_json *root, const char *name,
                             llm_hparams *h);
/* The short and long divisors of LLM_ROPE_LONG, the caller's, freed with
 * free(); NULL for other models. *h was checked. */
clv_status llm_hf_rope_factors(const llm_json *root, const char *name,
                               const llm_hparams *h, float *out[2]);
