/*
 * The files beside a tokenizer.json that name special tokens:
 * tokenizer_config.json by their text, config.json and generation_config.json
 * by their id.
 */
#pragma once

#include "tokenizer.h"

/* path: of the tokenizer.json. Absent files are skipped. */
clv_status llm_tokenizer_read_config(clv_tokenizer *tok, const char *path);
