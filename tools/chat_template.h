/* The chat template of a command line. */
#pragma once

#include <cleave/llm.h>

/* Options at an offset of a command's struct. */
#define TOOL_OPTION_CHAT_TEMPLATE_AT(at)                                       \
    TOOL_OPT_STRING(0, "chat-template|chat-template-file", "NAME|FILE", at,    \
                    "the chat template: a known name, or a file with one in "  \
                    "Jinja (default: the model's)")
#define TOOL_OPTION_CHAT_VARIABLES_AT(at)                                      \
    TOOL_OPT_STRING(0, "chat-template-kwargs", "JSON", at,                     \
                    "variables for the template, as "                          \
                    "'{\"enable_thinking\":false}'")

/* given: what --chat-template says, NULL: nothing. tok may be NULL. */
clv_status tool_chat_template(const char *given, const clv_tokenizer *tok,
                              clv_chat_template **out);
/* The time that templates print: SOURCE_DATE_EPOCH of the environment, seconds
 * since 1970, or 0 for the present. */
clv_status tool_chat_time(int64_t *out);
