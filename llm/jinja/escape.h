/* Escapes in the texts of templates. */
#pragma once

#include "../base/array.h"

/* One escape of Python's; *at is behind the backslash, then behind the escape.
 * *out moves behind what was written, no more than the escape is long. */
clv_status llm_unescape(uint32_t line, const char **at, const char *end,
                        char **out);
