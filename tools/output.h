/* What the commands that write a model file share. */
#pragma once

#include "options.h"
#include "progress.h"

typedef struct tool_output_file tool_output_file;

typedef struct tool_output {
    tool_progress progress;
    bool quiet;
    const char *in;
    tool_output_file *files; /* that are written */
    uint32_t n_files;
} tool_output;

void tool_output_begin(tool_output *output, const tool_common *common,
                       const char *in);
/* Before a file is written: refuses one that is the input, a directory, or no
 * regular file. output: a tool_output. */
clv_status tool_output_add(void *output, const char *path);
/* Says what was written, or why it was not; returns the exit code. */
int tool_output_end(tool_output *output, clv_status status);
