/*
 * Ini text, read with inih and without its surprises: lines may be long and
 * indented, '#' begins a comment as ';' does (at the start of a line or after a
 * blank), keys outside a section and NUL bytes are errors, and every value
 * comes with its line.
 */
#pragma once

#include <cleave/cleave.h>

/* The strings are valid during the call. Anything but CLV_OK ends the parse
 * with it. */
typedef clv_status (*core_ini_fn)(void *ctx, const char *section,
                                  const char *key, const char *value,
                                  uint32_t line);

/* name: of the file, for messages. */
clv_status core_ini_parse(const char *name, const void *text, uint64_t size,
                          core_ini_fn fn, void *ctx);
