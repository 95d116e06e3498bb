/* Mapped files: errors, and which file bytes are of. */
#pragma once

#include <cleave/cleave.h>

/* From errno. */
clv_status core_open_error(const char *path);
/* The descriptor of the mapped file that has the byte at this address, and its
 * offset there; -1: none has. It is the mapping's, as long as that is open. */
int core_file_find(const void *address, uint64_t *offset);
