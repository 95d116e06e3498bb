/* How much of the host's memory is free. */
#pragma once

#include <cleave/cleave.h>

/* Bytes that the process may still use without taking from others: what the
 * system calls available, and of every control group that it is in the limit
 * less what is used. Pages of files in memory count as free. root: "", or a
 * directory with files as /proc and /sys/fs/cgroup have them. UINT64_MAX: the
 * system does not say. */
uint64_t core_host_memory_free(const char *root);
