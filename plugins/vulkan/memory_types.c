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

static void add_type(vk_memory_types *types, uint32_t flags, uint32_t mask,
                     uint32_t import_mask, uint64_t size)
{
    uint32_t k = 0;
    if (!flags)
        return;
    while (k < types->n && types->type[k].flags != flags)
        k++;
    if (k == types->n)
        types->type[types->n++].flags = flags;
    types->type[k].mask |= mask;
    types->type[k].import_mask |= import_mask;
    if (size > types->type[k].max_size)
        types->type[k].max_size = size;
}

void vk_memory_types_find(const vk_physical *phys, uint32_t import_mask,
                          vk_memory_types *types)
{
    const VkPhysicalDeviceMemoryProperties *memory = &phys->memory;
    memset(types, 0, sizeof *types);
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        const uint32_t flags = flags_of(memory->memoryTypes[i].propertyFlags);
        const uint32_t import = import_mask & 1u << i;
        uint64_t size =
            memory->memoryHeaps[memory->memoryTypes[i].heapIndex].size;
        if (size > phys->max_allocation)
            size = phys->max_allocation;
        if (!phys->separate || !(flags & CLV_MEM_HOST_VISIBLE)) {
            add_type(types, flags, 1u << i, import, size);
            continue;
        }
        if (flags & CLV_MEM_DEVICE_LOCAL)
            add_type(types, CLV_MEM_DEVICE_LOCAL, 1u << i, 0, size);
        add_type(types, flags & ~(uint32_t)CLV_MEM_DEVICE_LOCAL, 1u << i,
                 import, size);
    }
}
