/*
 * Lines that a person types, with editing and a history where both standard
 * input and output are a terminal; or lines of standard input.
 */
#pragma once

#include <cleave/cleave.h>

typedef struct tool_input tool_input;

/* plain: without editing. */
clv_status tool_input_open(bool plain, tool_input **out);
void tool_input_close(tool_input *input); /* NULL is legal */

typedef enum tool_input_end {
    TOOL_INPUT_LINE,
    TOOL_INPUT_END,    /* of the input: Ctrl-D */
    TOOL_INPUT_CANCEL, /* Ctrl-C: what was typed is dropped */
    TOOL_INPUT_FAILED, /* with an error */
} tool_input_end;

/* One text, without the line end behind it: lines that end with a backslash go
 * on in the next one, and a paste may have several. *text is freed with free().
 */
tool_input_end tool_input_read(tool_input *input, char **text);
