/*
 * Reading tokenizer.json. What a file asks for and cannot be had is
 * CLV_ERR_UNSUPPORTED, with the component's name; what is not as the format
 * says is CLV_ERR_FORMAT.
 */
#pragma once

#include "internal.h"

#include <cjson/cJSON.h>

typedef struct llm_json_loading {
    const char *name; /* of the file, for messages */
    clv_tokenizer *tok;
    bool byte_level;
    bool byte_fallback;
    llm_str space; /* what spells a space; size 0: nothing yet */
} llm_json_loading;

clv_status llm_json_unsupported(const llm_json_loading *load, const char *part,
                                const char *what);
clv_status llm_json_malformed(const llm_json_loading *load, const char *part,
                              const char *what);
/* The "type" of a component; NULL if it has none. */
const char *llm_json_type(const cJSON *component);
/* A member that is absent or null is false or fallback. */
bool llm_json_flag(const cJSON *object, const char *key, bool fallback);
/* NULL unless it is a string. */
const char *llm_json_string(const cJSON *object, const char *key);
/* An id below LLM_MAX_VOCAB; -1: it is none. */
int32_t llm_json_id(const cJSON *number);

/* Each takes the component, NULL where absent. */
clv_status llm_json_normalizer(llm_json_loading *load, const cJSON *normalizer);
clv_status llm_json_pre_tokenizer(llm_json_loading *load,
                                  const cJSON *component);
clv_status llm_json_decoder(llm_json_loading *load, const cJSON *decoder);
clv_status llm_json_post_processor(llm_json_loading *load,
                                   const cJSON *processor);
