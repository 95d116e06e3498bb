#pragma once

#include "device.h"

struct clv_plugin_buffer {
    clv_plugin_device *dev;
    const clv_host_api *host;
    uint32_t access; /* CLV_ACCESS_* of the device */
    uint64_t size;
    uint8_t *data;
    bool owned; /* data is the plugin's block */
    void (*release)(void *ctx);
    void *release_ctx;
};

clv_status npu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride);
clv_status npu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out);
clv_status npu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out);
void npu_buffer_free(clv_plugin_buffer *buf);
clv_status npu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out);
void npu_buffer_unmap(clv_plugin_buffer *buf);

/* Where a tensor of size bytes lies; fails if the binding breaks the contract.
 * write: the device writes there. */
clv_status npu_bind(clv_plugin_device *dev, const clv_binding *binding,
                    uint64_t size, uint32_t align, bool write, uint8_t **out);
bool npu_buffer_has(const clv_plugin_buffer *buf, uint64_t offset,
                    uint64_t size);
