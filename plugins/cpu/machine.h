/* What the operating system tells about the processors and their memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Cores this process may use: its affinity mask, within its group's quota. */
uint32_t cpu_usable_cores(void);

/* Binds the calling thread to the index'th core of its affinity mask, counted
 * round. */
void cpu_pin_thread(uint32_t index);

void cpu_machine_name(char *out, size_t size);

/* Bytes of memory; 0 where unknown. */
uint64_t cpu_memory_size(void);
uint64_t cpu_memory_free(void);

/* Monotonic nanoseconds: the device's clock. */
uint64_t cpu_now(void);
