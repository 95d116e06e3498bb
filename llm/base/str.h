/*
 * Byte strings that lie in mapped files, and sorted tables to look names up.
 */
#pragma once

#include <cleave/llm.h>

/* Any bytes, not NUL-terminated; owned by whatever it points into. */
typedef struct llm_str {
    const char *data;
    uint64_t size;
} llm_str;

llm_str llm_str_of(const char *text); /* without the NUL */
bool llm_str_equal(llm_str a, llm_str b);

/* CLV_ERR_NO_MEMORY: "no memory for <what>", be it a thing or a file. */
clv_status llm_no_memory(const char *what);

/* "DIR/NAME", freed with free(); NULL with a message if memory runs out. */
char *llm_path_join(const char *dir, const char *name);

/* For messages: printable ASCII, others replaced, cut to fit. */
typedef struct llm_shown {
    char text[96];
} llm_shown;
llm_shown llm_str_show(llm_str s);

/*
 * Names and the index each stands for, sorted, so that lookups and the search
 * for duplicates are O(log n) and O(n log n) whatever the names are.
 */
typedef struct llm_name {
    llm_str name;
    uint64_t index;
} llm_name;

/* Sorts n names; the index of one that occurs twice in *twice, and false. */
bool llm_names_sort(llm_name *names, uint64_t n, uint64_t *twice);
/* NULL if there is none. */
const llm_name *llm_names_find(const llm_name *names, uint64_t n, llm_str name);
