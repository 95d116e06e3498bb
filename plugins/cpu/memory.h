#pragma once

#include <cleave/plugin.h>

/* Slots; those of cleave/plugin_memory.h on a device that may be lost. */
clv_status cpu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride);
clv_status cpu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out);
clv_status cpu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out);
