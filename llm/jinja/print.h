/*
 * Values as text: as Python prints them, and as JSON.
 */
#pragma once

#include "value.h"

/* Adds str(value) to the text being made. */
clv_status llm_print(llm_jinja *j, const llm_value *v);
/* Adds repr(value). */
clv_status llm_print_repr(llm_jinja *j, const llm_value *v);
/* str(value) as a text of its own; a text is returned as it is. */
clv_status llm_print_text(llm_jinja *j, const llm_value *v, llm_text *out);
/* The shortest digits that are this number, as Python's repr(float). */
#define LLM_REAL_MAX 64
void llm_print_real(double real, char out[LLM_REAL_MAX]);

typedef struct llm_json_style {
    bool indented;
    llm_text indent; /* of one level */
    llm_text comma, colon;
    bool ascii, sorted;
} llm_json_style;

/* Adds a value as Python's json.dumps() writes it. */
clv_status llm_print_json(llm_jinja *j, const llm_value *v,
                          const llm_json_style *style);
