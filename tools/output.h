/* What the commands that write a model file share. */
#pragma once

#include "options.h"
#include "progress.h"

typedef struct tool_output {
    tool_progress progress;
    bool quiet, replaces;
} tool_output;

void tool_output_begin(tool_output *output, const tool_common *common);
/* Refuses an output that is the input, a directory, or no regular file. */
clv_status tool_output_check(tool_output *output, const char *in,
                             const char *out);
/* Says what was written, or why it was not; returns the exit code. */
int tool_output_end(tool_output *output, const char *in, const char *out,
                    clv_status status);
