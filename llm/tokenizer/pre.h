/* How byte-level tokenizers split a text, by the names that GGUF files use. */
#pragma once

#include "../base/str.h"

/* The steps of a name in GGUF files. */
typedef struct llm_pre {
    const char *names;       /* separated by spaces */
    const char *patterns[6]; /* applied one after the other; NULL: end */
    bool whole_first;        /* as in llm_merge_model */
    bool add_bos;            /* if the file does not tell */
} llm_pre;
/* CLV_ERR_UNSUPPORTED, with a list of the known names, for another one. */
clv_status llm_pre_find(llm_str name, const llm_pre **out);
/* The name, ended by a space or NUL, of n patterns; NULL if none is known. */
const char *llm_pre_name(const char *const *patterns, uint64_t n,
                         bool whole_first);
/* The pattern of GPT-2, which ByteLevel means in tokenizer.json. */
extern const char llm_pattern_gpt2[];
