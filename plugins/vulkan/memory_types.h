/* Vulkan's memory types as the host sees them: one for each combination of the
 * properties that matter to it. */
#pragma once

#include "physical.h"

typedef struct vk_memory_types {
    uint32_t n;
    struct vk_memory_type {
        uint32_t flags;       /* CLV_MEM_* */
        uint32_t mask;        /* Vulkan's types with these properties */
        uint32_t import_mask; /* of them, those that take host pointers */
        uint64_t max_size;
    } type[VK_MAX_MEMORY_TYPES];
} vk_memory_types;

/* import_mask: Vulkan's types that host pointers can be imported into. Of a
 * device whose memory is separate, what it shares with the host counts as two
 * types: its own, which the host does not see, and the host's. */
void vk_memory_types_find(const vk_physical *phys, uint32_t import_mask,
                          vk_memory_types *types);
