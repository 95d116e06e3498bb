/* How a queue's finisher waits for the driver. */
#pragma once

#include "commands.h"

/* As vk_await() without a limit, for work that the driver was given at `begin`
 * (clv_queue_now()) and that takes run_ns at least; 0: not known. */
VkResult vk_await_due(clv_plugin_device *dev, vk_point end, uint64_t begin,
                      uint64_t run_ns);
/* What runs take at least, ns, once one more has taken `now`; before: 0 at
 * first. */
uint64_t vk_learn_run(uint64_t before, uint64_t now);
