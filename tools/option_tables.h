/* Between the parser of command lines and the printer of their help. */
#pragma once

#include "options.h"

/* The option tables of a command: its own first, then the common ones. */
typedef struct tool_option_tables {
    const tool_option *tables[3];
    uint32_t n;
} tool_option_tables;

/* On stdout; args: the command's struct, for the defaults. */
void tool_print_help(const tool_command *command, const tool_option_tables *all,
                     const void *args);
