/* Options of llama.cpp that are not ours. */
#pragma once

#include "options.h"

/* For commands that have llama.cpp's names. Ends with one without names. */
extern const tool_foreign tool_llama_flags[];
