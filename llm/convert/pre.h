/*
 * GGUF files do not describe how a byte-level tokenizer splits texts; they name
 * it.
 */
#pragma once

#include <cleave/llm.h>

/*
 * The name of the splitting in DIR/tokenizer.json, static and ended by a space
 * or NUL. whole_first: a piece that is a token is not merged from parts.
 * CLV_ERR_UNSUPPORTED if there is no name for it.
 */
clv_status llm_convert_pre(const char *dir, bool whole_first, const char **out);
