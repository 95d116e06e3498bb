/* Command buffers, and the queue that takes them. */
#pragma once

#include "device.h"

/* A pool, and a command buffer of it. After a failure, too, the pool is to be
 * destroyed. */
VkResult vk_make_commands(clv_plugin_device *dev, VkCommandPool *pool,
                          VkCommandBuffer *cb);
VkResult vk_make_semaphore(clv_plugin_device *dev, VkSemaphore *out);
/* n timestamps; VK_NULL_HANDLE: there is no memory for them. */
VkQueryPool vk_make_queries(clv_plugin_device *dev, uint32_t n);
/* A value that a semaphore is to have. */
typedef struct vk_point {
    VkSemaphore semaphore;
    uint64_t value;
} vk_point;
/* Submits them in order; they begin after wait (value 0: at once), and signal
 * comes when they have ended. */
VkResult vk_queue_submit(clv_plugin_device *dev, const vk_queue *queue,
                         const VkCommandBuffer *list, uint32_t n, vk_point wait,
                         vk_point signal);
/* Waits until the semaphore has the value; VK_TIMEOUT after limit_ns. */
VkResult vk_await(clv_plugin_device *dev, VkSemaphore semaphore, uint64_t value,
                  uint64_t limit_ns);
/* Submits the command buffer to queue 0, and waits for it. */
VkResult vk_run_once(clv_plugin_device *dev, VkCommandBuffer cb);
/* From timestamp a of a queue to b, in ticks. */
uint64_t vk_ticks(const vk_queue *queue, uint64_t a, uint64_t b);

/* All that was recorded before is over and seen by what follows and the host.
 */
void vk_record_barrier(clv_plugin_device *dev, VkCommandBuffer cb);
/* The same for kernels alone. */
void vk_record_kernel_barrier(clv_plugin_device *dev, VkCommandBuffer cb);
/* The same of copies and fills alone, as queues have to that only copy. */
void vk_record_copy_barrier(clv_plugin_device *dev, VkCommandBuffer cb);
/* A COPY or FILL that was checked, for the queue of this work. */
void vk_record_move(clv_plugin_device *dev, const vk_work *work,
                    VkCommandBuffer cb, const clv_command *c);
