/*
 * GGUF files do not hold how a byte-level tokenizer splits texts, but a name
 * for it.
 */
#pragma once

#include <cleave/llm.h>

/*
 * The name of what DIR/tokenizer.json says, static and ended by a space or NUL.
 * whole_first: the model leaves pieces whole that are tokens.
 * CLV_ERR_UNSUPPORTED if no name stands for it.
 */
clv_status llm_convert_pre(const char *dir, bool whole_first, const char **out);
