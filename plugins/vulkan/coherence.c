/* Flushes of memory that host and device do not see alike by themselves. */
#include "memory.h"

/* The range in whole atoms, which pieces are made of; size 0: nothing to do. */
static clv_status find_range(const clv_plugin_buffer *base, uint64_t offset,
                             uint64_t size, VkMappedMemoryRange *range)
{
    const vk_buffer *buf = vk_buffer_of(base);
    clv_plugin_device *dev = buf->dev;
    uint32_t flags = dev->types.type[buf->block->type].flags;
    *range =
        (VkMappedMemoryRange){.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                              .memory = buf->block->memory};
    if (!clv_buffer_range(base, offset, size, 0))
        return clv_fail(dev->base.host, CLV_ERR_INVALID,
                        "%s: %llu bytes at %llu are not in a buffer of %llu",
                        dev->label, (unsigned long long)size,
                        (unsigned long long)offset,
                        (unsigned long long)base->size);
    if (!(flags & CLV_MEM_HOST_VISIBLE) || flags & CLV_MEM_COHERENT || !size)
        return CLV_OK;
    uint64_t atom = dev->phys->atom, begin = buf->offset + offset,
             end = begin + size;
    begin -= begin % atom;
    end += (atom - end % atom) % atom;
    if (end > buf->block->size)
        end = buf->block->size;
    range->offset = begin;
    range->size = end == buf->block->size ? VK_WHOLE_SIZE : end - begin;
    return CLV_OK;
}

clv_status vk_buffer_flush(clv_plugin_buffer *buf, uint64_t offset,
                           uint64_t size)
{
    clv_plugin_device *dev = vk_buffer_of(buf)->dev;
    VkMappedMemoryRange range;
    CLV_TRY(find_range(buf, offset, size, &range));
    VkResult result =
        range.size ? dev->api.FlushMappedMemoryRanges(dev->device, 1, &range)
                   : VK_SUCCESS;
    return result ? vk_fail(dev, result, "vkFlushMappedMemoryRanges") : CLV_OK;
}

clv_status vk_buffer_invalidate(clv_plugin_buffer *buf, uint64_t offset,
                                uint64_t size)
{
    clv_plugin_device *dev = vk_buffer_of(buf)->dev;
    VkMappedMemoryRange range;
    CLV_TRY(find_range(buf, offset, size, &range));
    VkResult result =
        range.size
            ? dev->api.InvalidateMappedMemoryRanges(dev->device, 1, &range)
            : VK_SUCCESS;
    return result ? vk_fail(dev, result, "vkInvalidateMappedMemoryRanges")
                  : CLV_OK;
}
