/*
 * What lies beside a tokenizer.json and says which tokens are special:
 * tokenizer_config.json by their text, config.json and generation_config.json
 * by id.
 */
#pragma once

#include "internal.h"

/* Files that are absent are skipped. path: of the tokenizer.json. */
clv_status llm_tokenizer_read_config(clv_tokenizer *tok, const char *path);
