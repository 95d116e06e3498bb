#include "commands.h"

#include "memory.h"
#include "work.h"

#define MAX_REGIONS 64 /* of one command that copies */

VkResult vk_make_commands(clv_plugin_device *dev, VkCommandPool *pool,
                          VkCommandBuffer *cb)
{
    const VkCommandPoolCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = dev->phys->family};
    VkResult result =
        dev->api.CreateCommandPool(dev->device, &create, NULL, pool);
    if (result) {
        *pool = VK_NULL_HANDLE;
        return result;
    }
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = *pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    return dev->api.AllocateCommandBuffers(dev->device, &info, cb);
}

VkResult vk_make_semaphore(clv_plugin_device *dev, VkSemaphore *out)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult result = dev->api.CreateSemaphore(dev->device, &info, NULL, out);
    if (result)
        *out = VK_NULL_HANDLE;
    return result;
}

VkQueryPool vk_make_queries(clv_plugin_device *dev, uint32_t n)
{
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = n};
    VkQueryPool pool = VK_NULL_HANDLE;
    if (dev->api.CreateQueryPool(dev->device, &info, NULL, &pool))
        return VK_NULL_HANDLE;
    return pool;
}

VkResult vk_queue_submit(clv_plugin_device *dev, const vk_queue *queue,
                         const VkCommandBuffer *list, uint32_t n, vk_point wait,
                         vk_point signal)
{
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const uint32_t n_waits = wait.value ? 1 : 0;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = n_waits,
        .pWaitSemaphoreValues = &wait.value,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &signal.value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .waitSemaphoreCount = n_waits,
                               .pWaitSemaphores = &wait.semaphore,
                               .pWaitDstStageMask = &all,
                               .commandBufferCount = n,
                               .pCommandBuffers = list,
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &signal.semaphore};
    pthread_mutex_lock(queue->lock);
    VkResult result =
        dev->api.QueueSubmit(queue->handle, 1, &info, VK_NULL_HANDLE);
    pthread_mutex_unlock(queue->lock);
    return result;
}

VkResult vk_await(clv_plugin_device *dev, VkSemaphore semaphore, uint64_t value,
                  uint64_t limit_ns)
{
    const VkSemaphoreWaitInfo info = {.sType =
                                          VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &semaphore,
                                      .pValues = &value};
    return dev->api.WaitSemaphores(dev->device, &info, limit_ns);
}

VkResult vk_run_once(clv_plugin_device *dev, VkCommandBuffer cb)
{
    VkSemaphore semaphore;
    VkResult result = vk_make_semaphore(dev, &semaphore);
    if (!result)
        result = vk_queue_submit(dev, &dev->queues[0], &cb, 1,
                                 (vk_point){VK_NULL_HANDLE, 0},
                                 (vk_point){semaphore, 1});
    if (!result)
        result = vk_await(dev, semaphore, 1, UINT64_MAX);
    dev->api.DestroySemaphore(dev->device, semaphore, NULL);
    return result;
}

uint64_t vk_ticks(const vk_queue *queue, uint64_t a, uint64_t b)
{
    const uint32_t bits = queue->timestamp_bits;
    return (b - a) & (bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX);
}

/* ------------------------------------------------------------------------ */
/* Copies and fills, at any byte                                            */

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

void vk_record_kernel_barrier(clv_plugin_device *dev, VkCommandBuffer cb)
{
    const VkPipelineStageFlags kernels = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask =
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    dev->api.CmdPipelineBarrier(cb, kernels, kernels, 0, 1, &barrier, 0, NULL,
                                0, NULL);
}

void vk_record_copy_barrier(clv_plugin_device *dev, VkCommandBuffer cb)
{
    const VkPipelineStageFlags copies = VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT |
                         VK_ACCESS_TRANSFER_WRITE_BIT |
                         VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
    dev->api.CmdPipelineBarrier(cb, copies, copies | VK_PIPELINE_STAGE_HOST_BIT,
                                0, 1, &barrier, 0, NULL, 0, NULL);
}

static void copy(clv_plugin_device *dev, VkCommandBuffer cb, VkBuffer src,
                 uint64_t from, VkBuffer dst, uint64_t to, uint64_t size)
{
    const VkBufferCopy region = {from, to, size};
    if (size)
        dev->api.CmdCopyBuffer(cb, src, dst, 1, &region);
}

static void copy_rows(clv_plugin_device *dev, VkCommandBuffer cb, VkBuffer src,
                      uint64_t from, VkBuffer dst, uint64_t to,
                      const clv_command *c)
{
    VkBufferCopy regions[MAX_REGIONS];
    uint32_t n = 0;
    for (uint64_t i = 0; i < c->n_rows; i++) {
        regions[n++] = (VkBufferCopy){from + i * c->src_pitch,
                                      to + i * c->dst_pitch, c->size};
        if (n == MAX_REGIONS || i + 1 == c->n_rows) {
            dev->api.CmdCopyBuffer(cb, src, dst, n, regions);
            n = 0;
        }
    }
}

static uint32_t rotated(uint32_t pattern, uint64_t bytes)
{
    uint32_t shift = (uint32_t)(bytes % 4) * 8;
    return shift ? pattern >> shift | pattern << (32 - shift) : pattern;
}

/* Fills are of whole words; single bytes at the ends are copied from a word. */
static void fill(clv_plugin_device *dev, VkCommandBuffer cb, VkBuffer scratch,
                 VkBuffer dst, uint64_t begin, uint64_t size, uint32_t pattern)
{
    uint64_t end = begin + size, first = (begin + 3) & ~(uint64_t)3,
             last = end & ~(uint64_t)3;
    if (last > first)
        dev->api.CmdFillBuffer(cb, dst, first, last - first,
                               rotated(pattern, first - begin));
    else
        last = first;
    if (first == begin && last >= end)
        return;
    vk_record_copy_barrier(dev, cb);
    dev->api.CmdFillBuffer(cb, scratch, 0, 16, pattern);
    vk_record_copy_barrier(dev, cb);
    copy(dev, cb, scratch, 0, dst, begin, (first < end ? first : end) - begin);
    if (last < end)
        copy(dev, cb, scratch, (last - begin) % 4, dst, last, end - last);
}

void vk_record_move(clv_plugin_device *dev, const vk_work *work,
                    VkCommandBuffer cb, const clv_command *c)
{
    const vk_buffer *src = vk_buffer_of(c->src), *dst = vk_buffer_of(c->dst);
    const uint64_t to = dst->offset + c->dst_offset;
    if (!c->size)
        return;
    if (c->kind == CLV_COMMAND_FILL)
        fill(dev, cb, work->scratch->buffer, dst->block->buffer, to, c->size,
             c->pattern);
    else if (clv_copy_rows(c) > 1)
        copy_rows(dev, cb, src->block->buffer, src->offset + c->src_offset,
                  dst->block->buffer, to, c);
    else
        copy(dev, cb, src->block->buffer, src->offset + c->src_offset,
             dst->block->buffer, to, c->size);
}
