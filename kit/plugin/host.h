/* Between the files of the host's table. */
#pragma once

#include "child.h"

/* The host behind a slot's first argument; the case fails if the instance it
 * was made for is gone. */
kit_host *kit_host_enter(clv_host *ctx, const char *slot);

/* host_memory.c */
void *kit_host_alloc(clv_host *ctx, uint64_t size, uint64_t alignment);
void kit_host_free(clv_host *ctx, void *ptr);
void kit_host_memory_finish(kit_host *host);
/* Bytes of the blocks alive. */
uint64_t kit_host_bytes(kit_host *host);

/* host_cache.c */
clv_status kit_host_cache_get(clv_host *ctx, const char *key, void **data,
                              uint64_t *size);
clv_status kit_host_cache_put(clv_host *ctx, const char *key, const void *data,
                              uint64_t size);
void kit_host_cache_finish(kit_host *host);

/* Option i of a table, whole: what its size leaves out is zero. */
void kit_option(const clv_plugin_api *api, uint32_t i, clv_option *out);
