/* The tokenizer of a GGUF file. */
#pragma once

#include "../files/gguf.h"

/* From an open file, which is not needed afterwards. CLV_ERR_NOT_FOUND if it
 * holds no tokenizer. */
clv_status llm_tokenizer_from_gguf(const llm_gguf *gguf, clv_tokenizer **out);
