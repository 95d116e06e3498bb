/* Entries of the host's cache. They hold what they are of in full, and a
 * checksum: names that clash, and damage, do no harm. */
#pragma once

#include <cleave/plugin_util.h>

typedef struct gpu_entry {
    const clv_host_api *host;
    const char *kind;     /* "kernel", for its name */
    const char *identity; /* what made it: plugin, driver, device */
    const char *text;     /* what it is of */
} gpu_entry;

/* Its data with a NUL behind them, for clv_free(); NULL: there are none. */
void *gpu_entry_get(const gpu_entry *entry, uint64_t *size);
/* Best effort: what cannot be cached is made again the next time. */
void gpu_entry_put(const gpu_entry *entry, const void *data, uint64_t size);
