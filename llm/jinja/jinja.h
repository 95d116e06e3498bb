/*
 * Templates in the subset of Jinja2 that chat templates use. What Jinja2 would
 * make of a template is made of it, byte for byte, or an error says which part
 * is not known here.
 *
 * The settings are those of the transformers library: trim_blocks,
 * lstrip_blocks, break and continue, raise_exception(), strftime_now(), and
 * tojson without escapes for HTML; values cannot be changed.
 */
#pragma once

#include "value.h"

typedef struct llm_program llm_program;

/* Does not change once made, so threads may share it. */
clv_status llm_jinja_compile(llm_str source, llm_program **out);
void llm_program_destroy(llm_program *program); /* NULL is legal */

/* A rendering to be filled with values, and finished by llm_jinja_finish().
 * now: seconds since 1970. */
clv_status llm_jinja_begin(llm_jinja *j, int64_t now);
/* Variables. A name must outlive the rendering. */
clv_status llm_jinja_define(llm_jinja *j, llm_str name, const llm_value *value);
const llm_value *llm_jinja_find(const llm_jinja *j, llm_str name);
/* The text belongs to the rendering. */
clv_status llm_jinja_run(llm_jinja *j, const llm_program *program,
                         llm_text *out);
