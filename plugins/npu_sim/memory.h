#pragma once

#include "device.h"

/* Where memory is that was allocated: clv_plugin_buffer.allocated. */
enum {
    NPU_MEMORY_CHIP = 1,
    NPU_MEMORY_OWN = 2, /* the device's, which the host does not see */
};

/* Slots; those of cleave/plugin_memory.h, on a memory of the simulated size. */
clv_status npu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride);
clv_status npu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out);
clv_status npu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out);
void npu_buffer_free(clv_plugin_buffer *buf);
clv_status npu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out);
