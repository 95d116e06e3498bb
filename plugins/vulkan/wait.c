/*
 * A driver that blocks wakes the host some 60 us late. So where it is known
 * what work takes, the thread blocks for most of that time, and then looks.
 */
#include "wait.h"

/* It begins to look so long before the work is expected to end, and that part
 * of the work's time. It looks for three times as long, at the most. */
#define EARLY_NS 100000u
#define EARLY_PART 16

static VkResult block_and_look(clv_plugin_device *dev, vk_point end,
                               uint64_t begin, uint64_t run_ns)
{
    const uint64_t early = EARLY_NS + run_ns / EARLY_PART;
    const uint64_t due = begin + (run_ns > early ? run_ns - early : 0);
    const uint64_t now = clv_queue_now();
    uint64_t value = 0;
    clv_spin spin = {0, 0};
    VkResult result =
        vk_await(dev, end.semaphore, end.value, due > now ? due - now : 0);
    if (result != VK_TIMEOUT)
        return result;
    do {
        result = dev->api.GetSemaphoreCounterValue(dev->device, end.semaphore,
                                                   &value);
        if (result || value >= end.value)
            return result;
    } while (clv_spin_once(&spin, &dev->base.queue->spin, 3 * early));
    return VK_TIMEOUT;
}

/* A device that is the host's processors has no core for looks. */
VkResult vk_await_due(clv_plugin_device *dev, vk_point end, uint64_t begin,
                      uint64_t run_ns)
{
    const bool looks = run_ns && !(dev->phys->info.flags & CLV_DEVICE_SOFTWARE);
    const VkResult result =
        looks ? block_and_look(dev, end, begin, run_ns) : VK_TIMEOUT;
    return result == VK_TIMEOUT
               ? vk_await(dev, end.semaphore, end.value, UINT64_MAX)
               : result;
}

/* A shorter time counts more: too late a look costs time. */
uint64_t vk_learn_run(uint64_t before, uint64_t now)
{
    return !before || now < before ? now : before + (now - before) / 8;
}
