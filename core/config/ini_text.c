#include "ini_text.h"

#include "config.h"

#include <string.h>

#define MAX_NAME CORE_CONFIG_MAX_NAME
#define MAX_LINE 8192
#define BLANKS " \t\r\v\f"

static bool is_blank(char c)
{
    return c && strchr(BLANKS, c);
}

/* Cuts the comment and the blanks around line[0..n); returns what is left. */
static size_t trim(const char **line, size_t n)
{
    const char *s = *line;
    while (n && is_blank(*s))
        s++, n--;
    for (size_t i = 0; i < n; i++)
        if ((s[i] == ';' || s[i] == '#') && (i == 0 || is_blank(s[i - 1])))
            n = i;
    while (n && is_blank(s[n - 1]))
        n--;
    *line = s;
    return n;
}

/* Takes a line's section, or its key and value; else *key is NULL. Returns what
 * is wrong, or NULL. */
static const char *parse_line(char *line, char section[MAX_NAME + 1],
                              const char **key, const char **value)
{
    const bool is_section = line[0] == '[';
    char *name = line + is_section;
    char *end = is_section ? strchr(name, ']') : strpbrk(name, "=:");
    *key = NULL;
    if (!end)
        return "neither [section], key = value nor a comment";
    *value = end + 1 + strspn(end + 1, BLANKS);
    while (!is_section && end > name && is_blank(end[-1]))
        end--;
    *end = 0;
    if (end - name > MAX_NAME)
        return "a name longer than 48 characters; no such section or key "
               "exists";
    if (is_section)
        strcpy(section, name);
    else if (!section[0])
        return "a key before the first [section]; put it into one";
    else if (!name[0])
        return "a value without a key";
    else
        *key = name;
    return NULL;
}

clv_status core_ini_parse(const char *name, const void *text, uint64_t size,
                          core_ini_fn fn, void *ctx)
{
    const char *next = text, *end = next + size, *key = NULL, *value = NULL;
    char line[MAX_LINE + 1], section[MAX_NAME + 1] = "";
    if (size >= 3 && !memcmp(next, "\xef\xbb\xbf", 3))
        next += 3;
    for (uint32_t number = 1; next < end; number++) {
        const char *begin = next, *wrong = NULL;
        const char *newline = memchr(begin, '\n', (size_t)(end - begin));
        size_t n = (size_t)((newline ? newline : end) - begin);
        next = newline ? newline + 1 : end;
        if (memchr(begin, 0, n))
            wrong = "a NUL byte; this is no ini file";
        else if ((n = trim(&begin, n)) > MAX_LINE)
            wrong = "the line is longer than 8192 bytes; shorten it";
        else if (n) {
            memcpy(line, begin, n);
            line[n] = 0;
            wrong = parse_line(line, section, &key, &value);
        }
        if (wrong)
            return clv_error(CLV_ERR_FORMAT, "%s:%u: %s", name, number, wrong);
        if (n && key)
            CLV_TRY(fn(ctx, section, key, value, number));
    }
    return CLV_OK;
}
