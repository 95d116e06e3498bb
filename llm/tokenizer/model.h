/*
 * SentencePiece's own files, tokenizer.model, with the tokens that the
 * tokenizer_config.json or added_tokens.json beside them add.
 */
#pragma once

#include "tokenizer.h"

clv_status llm_tokenizer_from_model(const char *path, clv_tokenizer **out);
/* The same from memory, without other files; name is for messages. */
clv_status llm_tokenizer_parse_model(const void *data, uint64_t size,
                                     const char *name, clv_tokenizer **out);
