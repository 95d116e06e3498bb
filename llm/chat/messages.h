/*
 * Conversations in JSON as values of a template.
 */
#pragma once

#include "../jinja/value.h"

/* From JSON of any kind; name is for messages. With marks, all texts count as
 * the conversation's, but for plain words as a "role", which templates build
 * special tokens of. */
clv_status llm_messages_read(llm_jinja *j, llm_str json, const char *name,
                             bool marked, llm_value *out);
