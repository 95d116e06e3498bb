/*
 * The components of a tokenizer.json. What a file asks for and is not supported
 * is CLV_ERR_UNSUPPORTED, with the component's name; what breaks the rules of
 * the format is CLV_ERR_FORMAT.
 */
#pragma once

#include "../base/json.h"
#include "tokenizer.h"

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

/* The member of root that is called part: "normalizer", "pre_tokenizer",
 * "decoder" or "post_processor". An absent one is no error. */
clv_status llm_json_part(llm_json_loading *load, const llm_json *root,
                         const char *part);
