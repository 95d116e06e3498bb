/* Models in directories of Hugging Face. */
#pragma once

#include "source.h"

clv_status llm_source_open_hf(const char *dir, llm_source **out);
