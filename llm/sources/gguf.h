/* Models in GGUF files. */
#pragma once

#include "source.h"

clv_status llm_source_open_gguf(const char *path, llm_source **out);
