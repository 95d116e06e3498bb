/*
 * Text in and out: files whole, escapes, messages safe for a terminal, and
 * quantities for people.
 */
#pragma once

#include <cleave/cleave.h>

/* Prints "cleave run: text" on stderr, one line whatever text holds. */
void tool_print_error(const char *text);
/* Prints clv_last_error(), or that the work was interrupted; returns the exit
 * code. */
int tool_fail(void);

/* A whole file, or standard input for "-"; NUL-terminated. *text is the
 * caller's, freed with free(). */
clv_status tool_read_file(const char *path, char **text, uint64_t *length);
/* \n \r \t \\ \' \" \xHH and a backslash before the end of a line, in place;
 * returns the new length. Other escapes stay as they are. */
uint64_t tool_unescape(char *text, uint64_t length);
/* A copy that is valid UTF-8 without control characters, freed with free();
 * NULL when out of memory. */
char *tool_clean(const char *text);

#define TOOL_QUANTITY_MAX 32
/* "8.13 MiB" */
const char *tool_bytes(uint64_t bytes, char out[TOOL_QUANTITY_MAX]);
/* "8.13 M" */
const char *tool_count(uint64_t count, char out[TOOL_QUANTITY_MAX]);

/* Words on stdout, where column characters of the line are written already;
 * later lines are indented to that column. Ends the line. */
void tool_print_wrapped(const char *text, int column);
/* Keeps standard output for tool_write(): what plugins and drivers print goes
 * to standard error. */
clv_status tool_own_stdout(void);
bool tool_stdout_is_terminal(void);
/* Writes to stdout and flushes; false, after a message, if it cannot. A closed
 * pipe is no news and gets none. */
bool tool_write(const char *text, uint64_t length);
/* At the end: whether everything reached stdout. */
bool tool_close_stdout(void);
