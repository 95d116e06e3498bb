/*
 * Attributes, items and slices of values.
 */
#pragma once

#include "value.h"

/* v.name: an attribute or method, else a key. Undefined if there is neither. */
clv_status llm_op_attribute(llm_jinja *j, const llm_value *v, llm_str name,
                            llm_value *out);
/* v[key]: a key or index, else an attribute. */
clv_status llm_op_item(llm_jinja *j, const llm_value *v, const llm_value *key,
                       llm_value *out);
/* v[begin:end:step]; none: not given. */
clv_status llm_op_slice(llm_jinja *j, const llm_value *v,
                        const llm_value bounds[3], llm_value *out);
/* v.a.b.0, as filters name attributes. fallback NULL: none. */
clv_status llm_op_path(llm_jinja *j, const llm_value *v, const llm_value *path,
                       const llm_value *fallback, llm_value *out);
