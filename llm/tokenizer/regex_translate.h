/* Patterns of Oniguruma and Rust's regex crate in the form of PCRE2. */
#pragma once

#include "../base/array.h"

/* The PCRE2 form of a pattern, appended to *out. CLV_ERR_UNSUPPORTED, with a
 * message, where there is none. */
clv_status llm_regex_translate(llm_str pattern, llm_bytes *out);
