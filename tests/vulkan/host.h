/* Memory of a host for parts of the plugin that are tested without a core. */
#pragma once

#include <cleave/plugin.h>

#include <stdlib.h>

static inline void *host_alloc(clv_host *host, uint64_t size,
                               uint64_t alignment)
{
    (void)host;
    return aligned_alloc(alignment,
                         (size + alignment - 1) / alignment * alignment);
}

static inline void host_free(clv_host *host, void *ptr)
{
    (void)host;
    free(ptr);
}
