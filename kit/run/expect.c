#include "expect.h"

#include "../../tools/text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kit_expectations_add(kit_expectations *list, uint32_t kind,
                          const char *pattern, const char *reason,
                          const char *where)
{
    kit_expectation *items =
        realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return false;
    list->items = items;
    kit_expectation *e = &items[list->n++];
    *e = (kit_expectation){.kind = kind,
                           .pattern = strdup(pattern),
                           .reason = strdup(reason),
                           .where = strdup(where)};
    return e->pattern && e->reason && e->where;
}

/* Cuts the first word off; the rest begins at its next one. */
static char *next_word(char **line)
{
    char *word = *line + strspn(*line, " \t\r");
    char *end = word + strcspn(word, " \t\r");
    *line = end + strspn(end, " \t\r");
    *end = 0;
    return word;
}

static bool read_line(kit_expectations *list, const char *path, uint32_t number,
                      char *line, char error[KIT_TEXT_SIZE])
{
    char where[KIT_TEXT_SIZE];
    char *kind = next_word(&line), *pattern = next_word(&line);
    size_t n = strlen(line);
    while (n && strchr(" \t\r", line[n - 1]))
        line[--n] = 0;
    bool exclude = !strcmp(kind, "exclude");
    if (!exclude && strcmp(kind, "xfail")) {
        snprintf(error, KIT_TEXT_SIZE,
                 "%s:%u: '%.40s' is neither exclude nor xfail", path, number,
                 kind);
        return false;
    }
    if (!*pattern || !*line) {
        snprintf(error, KIT_TEXT_SIZE,
                 "%s:%u: no %s; a line is '%s PATTERN reason'", path, number,
                 *pattern ? "reason" : "pattern", kind);
        return false;
    }
    snprintf(where, sizeof where, "%s:%u", path, number);
    if (kit_expectations_add(list, exclude ? KIT_EXCLUDE : KIT_XFAIL, pattern,
                             line, where))
        return true;
    snprintf(error, KIT_TEXT_SIZE, "%s: out of memory", path);
    return false;
}

bool kit_expectations_read(kit_expectations *list, const char *path,
                           char error[KIT_TEXT_SIZE])
{
    char *text;
    uint64_t length;
    if (tool_read_file(path, &text, &length)) {
        snprintf(error, KIT_TEXT_SIZE, "%s", clv_last_error());
        return false;
    }
    bool good = strlen(text) == length;
    if (!good)
        snprintf(error, KIT_TEXT_SIZE, "%s: not a text file", path);
    uint32_t number = 0;
    for (char *line = text; good && *line;) {
        char *end = line + strcspn(line, "\n");
        char *next = *end ? end + 1 : end;
        *end = 0;
        number++;
        if (line[strspn(line, " \t\r")] && line[strspn(line, " \t")] != '#')
            good = read_line(list, path, number, line, error);
        line = next;
    }
    free(text);
    return good;
}

void kit_expectations_free(kit_expectations *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        free(list->items[i].pattern);
        free(list->items[i].reason);
        free(list->items[i].where);
    }
    free(list->items);
    *list = (kit_expectations){0};
}

const kit_expectation *kit_expectations_find(kit_expectations *list,
                                             const char *name)
{
    const kit_expectation *found = NULL;
    for (uint32_t i = 0; i < list->n; i++) {
        kit_expectation *e = &list->items[i];
        if (fnmatch(e->pattern, name, 0))
            continue;
        e->matched = true;
        if (!found || (found->kind == KIT_XFAIL && e->kind == KIT_EXCLUDE))
            found = e;
    }
    return found;
}
