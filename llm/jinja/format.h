/* The % operator of Python's texts. */
#pragma once

#include "value.h"

/* format % args: a tuple, or one value. */
clv_status llm_format(llm_jinja *j, llm_text format, const llm_value *args,
                      llm_value *out);
