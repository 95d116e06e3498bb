/* Copies and fills, at any byte. */
#include "flight.h"
#include "memory.h"

void vk_record_barrier(clv_plugin_device *dev, VkCommandBuffer cb)
{
    const VkPipelineStageFlags device =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask =
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask =
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
            VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
            VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
    dev->api.CmdPipelineBarrier(cb, device, device | VK_PIPELINE_STAGE_HOST_BIT,
                                0, 1, &barrier, 0, NULL, 0, NULL);
}

static void copy(clv_plugin_device *dev, VkCommandBuffer cb, VkBuffer src,
                 uint64_t from, VkBuffer dst, uint64_t to, uint64_t size)
{
    const VkBufferCopy region = {from, to, size};
    if (size)
        dev->api.CmdCopyBuffer(cb, src, dst, 1, &region);
}

static uint32_t rotated(uint32_t pattern, uint64_t bytes)
{
    uint32_t shift = (uint32_t)(bytes % 4) * 8;
    return shift ? pattern >> shift | pattern << (32 - shift) : pattern;
}

/* Fills are of whole words; single bytes at the ends are copied from a word. */
static void fill(clv_plugin_device *dev, VkCommandBuffer cb, VkBuffer dst,
                 uint64_t begin, uint64_t size, uint32_t pattern)
{
    VkBuffer scratch = dev->work->scratch->buffer;
    uint64_t end = begin + size, first = (begin + 3) & ~(uint64_t)3,
             last = end & ~(uint64_t)3;
    if (last > first)
        dev->api.CmdFillBuffer(cb, dst, first, last - first,
                               rotated(pattern, first - begin));
    else
        last = first;
    if (first == begin && last >= end)
        return;
    vk_record_barrier(dev, cb);
    dev->api.CmdFillBuffer(cb, scratch, 0, 16, pattern);
    vk_record_barrier(dev, cb);
    copy(dev, cb, scratch, 0, dst, begin, (first < end ? first : end) - begin);
    if (last < end)
        copy(dev, cb, scratch, (last - begin) % 4, dst, last, end - last);
}

void vk_record_move(clv_plugin_device *dev, VkCommandBuffer cb,
                    const clv_command *c)
{
    uint64_t to = c->dst->offset + c->dst_offset;
    if (!c->size)
        return;
    if (c->kind == CLV_COMMAND_FILL)
        fill(dev, cb, c->dst->block->buffer, to, c->size, c->pattern);
    else
        copy(dev, cb, c->src->block->buffer, c->src->offset + c->src_offset,
             c->dst->block->buffer, to, c->size);
}
