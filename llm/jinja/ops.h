/*
 * Operators on values, as Python has them.
 */
#pragma once

#include "node.h"

clv_status llm_op_binary(llm_jinja *j, llm_op op, const llm_value *a,
                         const llm_value *b, llm_value *out);
clv_status llm_op_negate(llm_jinja *j, const llm_value *a, llm_value *out);
/* One comparison of a chain. */
clv_status llm_op_compare(llm_jinja *j, llm_op op, const llm_value *a,
                          const llm_value *b, bool *out);
/* The texts of both, joined: a ~ b. */
clv_status llm_op_concat(llm_jinja *j, const llm_value *a, const llm_value *b,
                         llm_value *out);
