/*
 * Memory of a device, or of the host as a device sees it.
 */
#pragma once

#include "device.h"

/* mem_type: an index into dev->mem_types. There, alignment and import_align
 * are at least 1, max_size is the memory size or UINT64_MAX where the plugin
 * gave none, and flags and handle masks are limited to slots that exist. */
typedef struct core_buffer {
    clv_device *dev;
    clv_plugin_buffer *handle;
    uint64_t size;
    uint32_t mem_type;
    uint32_t access; /* CLV_ACCESS_* the device may use */
    bool counted;    /* in the device's local_bytes */
} core_buffer;

clv_status core_buffer_alloc(clv_device *dev, uint32_t mem_type, uint64_t size,
                             core_buffer **out);
/* The device's first memory type that imports handles of this kind; false if
 * there is none. */
bool core_device_import_type(const clv_device *dev, uint32_t handle_type,
                             uint32_t *mem_type);
/* import->header is filled in here. */
clv_status core_buffer_import(clv_device *dev, uint32_t mem_type,
                              const clv_import *import, core_buffer **out);
void core_buffer_free(core_buffer *buf); /* NULL is legal */
clv_status core_buffer_map(core_buffer *buf, uint32_t access, void **out);
void core_buffer_unmap(core_buffer *buf);
/* Nothing on coherent memory. */
clv_status core_buffer_flush(core_buffer *buf, uint64_t offset, uint64_t size);
clv_status core_buffer_invalidate(core_buffer *buf, uint64_t offset,
                                  uint64_t size);
