/* Mapped files: errors, and which file bytes are of. */
#pragma once

#include <cleave/cleave.h>

/* From errno. */
clv_status core_open_error(const char *path);
/* Where a byte lies in a mapped file: its offset, and how many bytes from it on
 * are mapped. Returns the descriptor of the file, which is the mapping's as
 * long as that is open; -1: it lies in none. Of parts in another order
 * (clv_file_reorder()): where it lay before. */
typedef struct core_file_place {
    uint64_t offset, left;
} core_file_place;
int core_file_find(const void *address, core_file_place *out);
