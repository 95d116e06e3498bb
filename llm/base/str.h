/*
 * Byte strings in mapped files, sorted tables of names, and errors.
 */
#pragma once

#include <cleave/llm.h>

/* Any bytes, not NUL-terminated. They belong to the file or text around them.
 */
typedef struct llm_str {
    const char *data;
    uint64_t size;
} llm_str;

llm_str llm_str_of(const char *text); /* without the NUL */
bool llm_str_equal(llm_str a, llm_str b);
/* Whether text, which may be NULL, is other. */
bool llm_text_is(const char *text, const char *other);

/* CLV_ERR_NO_MEMORY: "no memory for <what>", a thing or a file. */
clv_status llm_no_memory(const char *what);

/* "DIR/NAME", freed with free(); NULL with a message if memory runs out. */
char *llm_path_join(const char *dir, const char *name);

/* For messages: printable ASCII, others replaced, cut to fit. */
typedef struct llm_shown {
    char text[96];
} llm_shown;
llm_shown llm_str_show(llm_str s);
/* "[4096, 128]" */
llm_shown llm_shape_show(const int64_t *dims, uint32_t rank);
/* Adds a name to a list of names, "a, b", as far as it fits. */
void llm_list_add(char *list, size_t size, const char *name);

/*
 * Names and an index for each, sorted: a lookup takes O(log n) and the search
 * for duplicates O(n log n) for any names.
 */
typedef struct llm_name {
    llm_str name;
    uint64_t index;
} llm_name;

/* Sorts n names. If one occurs twice, sets *twice to its index and returns
 * false. */
bool llm_names_sort(llm_name *names, uint64_t n, uint64_t *twice);
/* NULL if there is none. */
const llm_name *llm_names_find(const llm_name *names, uint64_t n, llm_str name);
