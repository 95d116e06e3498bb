/* Small questions about names and lists. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Longest name of a plugin. */
#define CORE_PLUGIN_NAME_MAX 32

/* Edits (insert, delete, replace, swap of neighbours) between two names; names
 * over 63 characters count as far apart. */
size_t core_edit_distance(const char *a, const char *b);
/* [a-z][a-z0-9_]*, at most max characters. */
bool core_name_ok(const char *name, size_t max);
/* Takes the next item of a list separated by any of separators, without the
 * blanks around it; skips empty ones. False at the end. */
bool core_next_item(const char **list, const char *separators,
                    const char **item, size_t *size);
/* Whether the name is among the items of a list. */
bool core_list_has(const char *list, const char *separators, const char *name);
/* Whether an item of a list, which does not end with NUL, is that name. */
bool core_item_is(const char *item, size_t size, const char *name);
/* printf into new memory; NULL when there is none. */
char *core_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
