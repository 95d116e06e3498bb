/* Physical devices: what they are, which of them are used, and their names. */
#pragma once

#include "api.h"

typedef struct vk_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceType type;
    uint32_t family; /* a queue family with compute; others beside it
                        only where there is no such */
    uint32_t timestamp_bits;
    /* Of the queue for copies: one of a family that only copies, else another
     * one of the same family, else the same one. */
    uint32_t copy_family, copy_index, copy_timestamp_bits;
    bool copies_apart; /* it is not the same one */
    float tick_ns;
    clv_device_info info;               /* as enumerate gives it */
    uint8_t cache_uuid[VK_UUID_SIZE];   /* of pipeline caches */
    uint64_t max_allocation, max_range; /* bytes of memory, of a binding */
    uint32_t offset_align;              /* of a binding; a power of two */
    uint64_t atom;                      /* of flushes */
    uint64_t import_align;              /* 0: host pointers are not imported */
    uint32_t max_group, max_group_size[3], max_groups[3];
    uint32_t local_bytes, subgroup, max_push;
    uint32_t image[5][3]; /* as in gpu_target */
    bool fp16, fp16_storage, int8_storage, int8, int64, int_dot, coop_matrix,
        coop_bytes;
    bool subgroup_swaps;     /* shuffles and votes */
    bool query_reset;        /* of queries, by the host */
    bool push_descriptors;   /* of all arguments that a kernel has */
    bool binary_import;      /* modules of PTX, and addresses of buffers */
    bool pci, memory_budget; /* extensions */
    bool separate;           /* its memory is not used as the host's */
    VkPhysicalDeviceMemoryProperties memory;
} vk_physical;

/* Whether its memory is not the host's. */
static inline bool vk_owns_memory(const vk_physical *p)
{
    return p->separate || p->type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

/* Those with Vulkan 1.2, timelines and compute that the option "devices" names;
 * the array is for clv_free(). */
clv_status vk_physical_find(const clv_host_api *host,
                            const vk_instance_api *api, VkInstance instance,
                            uint32_t *n, vk_physical **out);
