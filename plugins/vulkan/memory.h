/* Buffers: pieces of blocks of up to 16 MiB, or memory of their own where they
 * are large or imported. */
#pragma once

#include "device.h"

#include <cleave/plugin_memory.h>

/* Memory with one Vulkan buffer over all of it. Its pieces are in order; what
 * lies between them is free. */
struct vk_block {
    vk_block *next;
    uint32_t type; /* in vk_memory_types */
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t address; /* of the buffer, where the device has addresses */
    uint64_t size;
    uint64_t taken; /* of the device's budget */
    char *mapped;   /* NULL: not host-visible */
    bool shared;    /* for pieces; else one buffer's alone */
    struct vk_buffer *first;
};

typedef struct vk_buffer {
    clv_plugin_buffer base; /* data: the host's view; of memory that it has no
                               view of, a number that stands for it */
    clv_plugin_device *dev;
    vk_block *block;
    struct vk_buffer *next; /* in the block */
    uint64_t offset, room;  /* where in the block; taken of it */
} vk_buffer;

static inline vk_buffer *vk_buffer_of(const clv_plugin_buffer *buf)
{
    return (vk_buffer *)(uintptr_t)buf;
}

clv_status vk_mem_types(clv_plugin_device *dev, uint32_t *count,
                        clv_mem_type *out, uint32_t stride);
clv_status vk_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                           uint64_t size, clv_plugin_buffer **out);
clv_status vk_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                            const clv_import *import, clv_plugin_buffer **out);
void vk_buffer_free(clv_plugin_buffer *buf);
clv_status vk_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out);
clv_status vk_buffer_flush(clv_plugin_buffer *buf, uint64_t offset,
                           uint64_t size);
clv_status vk_buffer_invalidate(clv_plugin_buffer *buf, uint64_t offset,
                                uint64_t size);

/* A block for size bytes, not yet in the device's list; pointer: imported
 * memory, or NULL. */
clv_status vk_block_create(clv_plugin_device *dev, uint32_t type, uint64_t size,
                           void *pointer, vk_block **out);
void vk_block_destroy(clv_plugin_device *dev, vk_block *block);
/* Releases the blocks that are held although nothing is in them. */
void vk_memory_finish(clv_plugin_device *dev);
