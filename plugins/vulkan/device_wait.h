/*
 * Waits by the device: a submit is handed to the driver before another device
 * of the instance has done what it waits for. At the end of the other one's
 * submit a kernel stores what that one copies to the host's memory, and then
 * what its timeline has reached (timelines.h). A kernel in front of this one
 * waits for that, and copies from the host's memory what the submit begins
 * with. Elsewhere the host looks at flag words, hands over what has become due,
 * and the devices have nothing to do until then.
 *
 * A device waits only for what the other one's driver has already, or gets
 * without waiting for anything (work.h), and only where that is short. So it
 * cannot wait for ever, nor for the host. One process at a time may have a
 * device wait.
 */
#pragma once

#include "work.h"

#include <kernels.h>

#define VK_MAX_SIGNALS 3 /* that a kernel waits for, or stores */

/* dev->device_wait, where the device can do it: by kernels that are made when
 * they are first wanted. After a failure there is nothing to stop. */
clv_status vk_device_wait_start(clv_plugin_device *dev);
void vk_device_wait_stop(clv_plugin_device *dev);

/* Whether the device could wait for all other devices that the submit waits
 * for, and what it reads of the host's memory comes by the kernel. They store
 * what they reach from now on. Not with the queue's lock held. */
bool vk_device_wait_takes(clv_plugin_device *dev, const clv_submit *submit);
/* Of such a submit: whether the flag's device has been given all that it takes
 * to reach the value, so that the wait may be left to the device. */
bool vk_device_wait_is_ahead(const clv_plugin_device *dev,
                             const clv_timeline_point *point);
/* Whether that is so for all that is still to be waited for. */
bool vk_device_wait_may_begin(const clv_plugin_device *dev,
                              const clv_submit *submit);
/* Whether something is still to be waited for. */
bool vk_device_wait_is_due(const clv_submit *submit);
/* Copies that the submit begins with, which come with the wait. */
uint32_t vk_device_wait_copies(const clv_submit *submit);
/* Whether one of them writes bytes of the Vulkan buffer from begin to end. */
bool vk_device_wait_writes(const clv_submit *submit, VkBuffer buffer,
                           uint64_t begin, uint64_t end);
/* Records the wait, and these copies. A barrier is to follow. */
void vk_device_wait_record(clv_plugin_device *dev, VkCommandBuffer cb,
                           const clv_submit *submit);

/* The same for a kernel that can (gpu_exchange): GPU_RECEIVE_*. False: not that
 * wait. */
bool vk_device_wait_give(clv_plugin_device *dev, const clv_submit *submit,
                         uint64_t values[GPU_EXCHANGE_VALUES]);

/* The submit's signals that other devices would wait for, as bits. */
uint32_t vk_device_signals(clv_plugin_device *dev, const clv_submit *submit);
/* Whether the submit's last command is a copy that the kernel makes. */
bool vk_device_signal_copies(const clv_submit *submit);
/* Records that the signals have been reached, after all before, and the last
 * command if the kernel is to copy. */
void vk_device_signal_record(clv_plugin_device *dev, VkCommandBuffer cb,
                             const clv_submit *submit, uint32_t signals);
/* The same for a kernel that can, whose results are so many bytes from there
 * on: GPU_SEND_*. False: that is not what the last command copies. */
bool vk_device_signal_give(clv_plugin_device *dev, const clv_submit *submit,
                           uint32_t signals, uint64_t from, uint64_t bytes,
                           uint64_t values[GPU_EXCHANGE_VALUES]);
/* The driver has it, or will get it without waiting for anything. */
void vk_device_signal_handed(const clv_submit *submit, uint32_t signals);
