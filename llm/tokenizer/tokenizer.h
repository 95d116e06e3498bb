/*
 * Tokenizers as the rest of this library sees them; what they do is in
 * cleave/llm.h.
 */
#pragma once

#include "../files/gguf.h"

#include <cleave/llm.h>

/* From an open GGUF file, which is not needed afterwards. CLV_ERR_NOT_FOUND if
 * it holds no tokenizer. */
clv_status llm_tokenizer_from_gguf(const llm_gguf *gguf, clv_tokenizer **out);
/* From a Hugging Face directory: tokenizer.json, and what
 * tokenizer_config.json, config.json and generation_config.json say of special
 * tokens. CLV_ERR_NOT_FOUND if it holds no tokenizer.json. */
clv_status llm_tokenizer_from_dir(const char *dir, clv_tokenizer **out);
/* The same from the path of the tokenizer.json. */
clv_status llm_tokenizer_from_file(const char *path, clv_tokenizer **out);
/* From the text of a tokenizer.json alone; name is for messages. */
clv_status llm_tokenizer_from_json(const char *text, uint64_t size,
                                   const char *name, clv_tokenizer **out);
