/* The tokenizer of a Hugging Face directory. */
#pragma once

#include <cleave/llm.h>

/* From tokenizer.json, and what tokenizer_config.json, config.json and
 * generation_config.json say about special tokens. CLV_ERR_NOT_FOUND if there
 * is no tokenizer.json. */
clv_status llm_tokenizer_from_dir(const char *dir, clv_tokenizer **out);
/* The same from the path of the tokenizer.json. */
clv_status llm_tokenizer_from_file(const char *path, clv_tokenizer **out);
/* From the text of a tokenizer.json alone; name is for messages. */
clv_status llm_tokenizer_from_json(const char *text, uint64_t size,
                                   const char *name, clv_tokenizer **out);
