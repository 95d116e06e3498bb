#pragma once

#include <cleave/plugin.h>

#include <stdbool.h>

#define CPU_MEM_TYPES 1u

/* Memory of our own from the host's allocator, or imported. */
struct clv_plugin_buffer {
    const clv_host_api *host;
    char *data;
    uint64_t size;
    uint32_t access; /* CLV_ACCESS_* */
    bool owned;
    void (*release)(void *ctx);
    void *release_ctx;
};

clv_status cpu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride);
clv_status cpu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out);
clv_status cpu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out);
void cpu_buffer_free(clv_plugin_buffer *buf);
clv_status cpu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out);
void cpu_buffer_unmap(clv_plugin_buffer *buf);

/* Whether offset..offset + size lies inside. */
bool cpu_buffer_has(const clv_plugin_buffer *buf, uint64_t offset,
                    uint64_t size);
