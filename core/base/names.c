#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 63

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

size_t core_edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX_NAME || m > MAX_NAME)
        return n + m;
    size_t rows[3][MAX_NAME + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t cost = a[i - 1] != b[j - 1];
            row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[m];
}

bool core_name_ok(const char *name, size_t max)
{
    size_t n = strnlen(name, max + 1);
    if (n < 1 || n > max || name[0] < 'a' || name[0] > 'z')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

bool core_next_item(const char **list, const char *separators,
                    const char **item, size_t *size)
{
    while (**list) {
        const char *begin = *list;
        size_t n = strcspn(begin, separators);
        *list = begin + n + (begin[n] != 0);
        while (n && (*begin == ' ' || *begin == '\t'))
            begin++, n--;
        while (n && (begin[n - 1] == ' ' || begin[n - 1] == '\t'))
            n--;
        if (n) {
            *item = begin;
            *size = n;
            return true;
        }
    }
    return false;
}

bool core_item_is(const char *item, size_t size, const char *name)
{
    return strlen(name) == size && !memcmp(item, name, size);
}

bool core_list_has(const char *list, const char *separators, const char *name)
{
    const char *item;
    size_t n;
    while (core_next_item(&list, separators, &item, &n))
        if (core_item_is(item, n, name))
            return true;
    return false;
}

char *core_format(const char *fmt, ...)
{
    char *text;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return n < 0 ? NULL : text;
}
