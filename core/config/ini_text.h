/*
 * Ini text: [section] and "key = value" or "key: value". Lines may be indented;
 * '#' and ';' begin a comment at the start of a line or after a blank. Keys
 * outside a section and NUL bytes are errors.
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
