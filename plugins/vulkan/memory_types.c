#include "memory_types.h"

static const struct {
    VkMemoryPropertyFlags theirs;
    uint32_t ours;
} properties[] = {
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, CLV_MEM_DEVICE_LOCAL},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, CLV_MEM_HOST_VISIBLE},
    {VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, CLV_MEM_COHERENT},
    {VK_MEMORY_PROPERTY_HOST_CACHED_BIT, CLV_MEM_CACHED},
};

/* The host's flags; 0: not a type to hold tensors in. */
static uint32_t flags_of(VkMemoryPropertyFlags theirs)
{
    uint32_t flags = 0;
    for (uint32_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        if (theirs & properties[i].theirs)
            flags |= properties[i].ours;
        theirs &= ~properties[i].theirs;
    }
    return theirs ? 0 : flags; /* protected, lazily allocated, vendors' */
}

void vk_memory_types_find(const vk_physical *phys, uint32_t import_mask,
                          vk_memory_types *types)
{
    const VkPhysicalDeviceMemoryProperties *memory = &phys->memory;
    memset(types, 0, sizeof *types);
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        uint32_t flags = flags_of(memory->memoryTypes[i].propertyFlags), k = 0;
        uint64_t size =
            memory->memoryHeaps[memory->memoryTypes[i].heapIndex].size;
        if (!flags)
            continue;
        while (k < types->n && types->type[k].flags != flags)
            k++;
        if (k == types->n)
            types->type[types->n++].flags = flags;
        types->type[k].mask |= 1u << i;
        types->type[k].import_mask |= import_mask & 1u << i;
        if (size > phys->max_allocation)
            size = phys->max_allocation;
        if (size > types->type[k].max_size)
            types->type[k].max_size = size;
    }
}
