/* Vulkan memory and the buffers over it. */
#include "memory.h"

static VkResult make_buffer(clv_plugin_device *dev, vk_block *block,
                            bool imported)
{
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
    const uint32_t families[] = {dev->queues[0].family, dev->queues[1].family};
    const bool shared = families[0] != families[1];
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .sharingMode =
            shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = shared ? 2 : 0,
        .pQueueFamilyIndices = families,
        .pNext = imported ? &external : NULL,
        .size = block->size,
        .usage =
            (dev->addresses ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0u) |
            VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
            VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
            VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkResult result =
        dev->api.CreateBuffer(dev->device, &info, NULL, &block->buffer);
    if (result)
        block->buffer = VK_NULL_HANDLE;
    return result;
}

/* The first of the types in mask; there is one. */
static uint32_t first_of(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}

static clv_status make_memory(clv_plugin_device *dev, vk_block *block,
                              void *pointer)
{
    const struct vk_memory_type *type = &dev->types.type[block->type];
    VkMemoryRequirements need;
    const VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
        .pHostPointer = pointer};
    dev->api.GetBufferMemoryRequirements(dev->device, block->buffer, &need);
    uint32_t mask =
        need.memoryTypeBits & (pointer ? type->import_mask : type->mask);
    if (!mask || (pointer && need.size > block->size))
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "%s: a buffer of %llu bytes cannot lie in memory "
                        "type %u; use another type",
                        dev->label, (unsigned long long)block->size,
                        (unsigned)block->type);
    const VkMemoryAllocateFlagsInfo addressed = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .pNext = pointer ? &import : NULL,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = dev->addresses ? (const void *)&addressed : addressed.pNext,
        .allocationSize = pointer ? block->size : need.size,
        .memoryTypeIndex = first_of(mask)};
    const uint64_t take =
        !pointer && type->flags & CLV_MEM_DEVICE_LOCAL ? need.size : 0;
    CLV_TRY(gpu_budget_take(dev->base.host, dev->label, &dev->budget, take));
    block->taken = take;
    VkResult result =
        dev->api.AllocateMemory(dev->device, &info, NULL, &block->memory);
    if (result) {
        block->memory = VK_NULL_HANDLE;
        return vk_fail(dev, result,
                       pointer ? "vkAllocateMemory for an import"
                               : "vkAllocateMemory");
    }
    result =
        dev->api.BindBufferMemory(dev->device, block->buffer, block->memory, 0);
    const VkBufferDeviceAddressInfo whole = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
        .buffer = block->buffer};
    if (result)
        return vk_fail(dev, result, "vkBindBufferMemory");
    if (dev->addresses)
        block->address = dev->api.GetBufferDeviceAddress(dev->device, &whole);
    return CLV_OK;
}

static clv_status fill_block(clv_plugin_device *dev, vk_block *block,
                             void *pointer)
{
    VkResult result = make_buffer(dev, block, pointer != NULL);
    if (result)
        return vk_fail(dev, result, "vkCreateBuffer");
    clv_status status = make_memory(dev, block, pointer);
    void *mapped = pointer;
    if (!status && !pointer &&
        dev->types.type[block->type].flags & CLV_MEM_HOST_VISIBLE) {
        result = dev->api.MapMemory(dev->device, block->memory, 0,
                                    VK_WHOLE_SIZE, 0, &mapped);
        if (result)
            status = vk_fail(dev, result, "vkMapMemory");
    }
    block->mapped = mapped;
    return status;
}

clv_status vk_block_create(clv_plugin_device *dev, uint32_t type, uint64_t size,
                           void *pointer, vk_block **out)
{
    vk_block *block = clv_new(dev->base.host, sizeof *block);
    if (!block)
        return CLV_ERR_NO_MEMORY;
    block->type = type;
    block->size = size;
    clv_status status = fill_block(dev, block, pointer);
    if (status)
        vk_block_destroy(dev, block);
    else
        *out = block;
    return status;
}

void vk_block_destroy(clv_plugin_device *dev, vk_block *block)
{
    dev->api.DestroyBuffer(dev->device, block->buffer, NULL);
    dev->api.FreeMemory(dev->device, block->memory, NULL);
    gpu_budget_give(&dev->budget, block->taken);
    clv_free(dev->base.host, block);
}

void vk_memory_finish(clv_plugin_device *dev)
{
    while (dev->blocks) {
        vk_block *block = dev->blocks;
        dev->blocks = block->next;
        vk_block_destroy(dev, block);
    }
}
