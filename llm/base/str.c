#include "str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

llm_str llm_str_of(const char *text)
{
    return (llm_str){text, strlen(text)};
}

static int compare(llm_str a, llm_str b)
{
    uint64_t n = a.size < b.size ? a.size : b.size;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    if (order)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool llm_str_equal(llm_str a, llm_str b)
{
    return a.size == b.size && compare(a, b) == 0;
}

bool llm_text_is(const char *text, const char *other)
{
    return text && strcmp(text, other) == 0;
}

clv_status llm_no_memory(const char *what)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory for %s", what);
}

char *llm_path_join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + 1 + strlen(name) + 1;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", dir, name);
    else
        llm_no_memory("a path");
    return path;
}

llm_shown llm_str_show(llm_str s)
{
    llm_shown shown;
    uint64_t n = s.size;
    bool cut = n > sizeof shown.text - 1;
    if (cut)
        n = sizeof shown.text - 4;
    for (uint64_t i = 0; i < n; i++)
        shown.text[i] = s.data[i] >= ' ' && s.data[i] <= '~' ? s.data[i] : '?';
    memcpy(shown.text + n, cut ? "..." : "", cut ? 4 : 1);
    return shown;
}

llm_shown llm_shape_show(const int64_t *dims, uint32_t rank)
{
    llm_shown shown = {"["};
    for (uint32_t i = 0; i < rank; i++) {
        const size_t at = strlen(shown.text);
        snprintf(shown.text + at, sizeof shown.text - at, "%s%lld",
                 i ? ", " : "", (long long)dims[i]);
    }
    const size_t at = strlen(shown.text);
    snprintf(shown.text + at, sizeof shown.text - at, "]");
    return shown;
}

void llm_list_add(char *list, size_t size, const char *name)
{
    const size_t n = strlen(list);
    snprintf(list + n, size - n, "%s%s", n ? ", " : "", name);
}

static int compare_names(const void *a, const void *b)
{
    const llm_name *x = a, *y = b;
    return compare(x->name, y->name);
}

bool llm_names_sort(llm_name *names, uint64_t n, uint64_t *twice)
{
    if (n)
        qsort(names, n, sizeof *names, compare_names);
    for (uint64_t i = 1; i < n; i++) {
        if (compare_names(&names[i - 1], &names[i]) == 0) {
            *twice = names[i].index;
            return false;
        }
    }
    return true;
}

const llm_name *llm_names_find(const llm_name *names, uint64_t n, llm_str name)
{
    llm_name key = {name, 0};
    return n ? bsearch(&key, names, n, sizeof key, compare_names) : NULL;
}
