/*
 * Weights in a layout of a device's own: CLV_LAYOUT_PRIVATE of plugin.h.
 */
#pragma once

#include "memory.h"

/* A buffer in the device's own memory with the rows of a weight, in the
 * device's layout. at: the rows in host, whole ones of `length` elements one
 * behind the other, or parts of them, each a range. The rows pass through
 * memory of the device in parts. They are there on return. */
clv_status core_device_relayout(clv_device *dev, uint32_t dtype, int64_t length,
                                const core_runs *at, const void *host,
                                core_buffer **out);

/* Ends what it keeps for the next call while the staging is held;
 * core_device_release_staging() calls this. */
typedef struct core_relayout core_relayout;
void core_device_release_relayout(clv_device *dev);
