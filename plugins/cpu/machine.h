/* What the operating system tells about the processors and their memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void cpu_machine_name(char *out, size_t size);

/* Bytes of memory; 0 where unknown. */
uint64_t cpu_memory_size(void);
uint64_t cpu_memory_free(void);
