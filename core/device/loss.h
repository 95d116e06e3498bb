/* Devices that are lost or abandoned, as device.h defines it. */
#pragma once

#include "device.h"

bool core_device_lost(const clv_device *dev);
bool core_device_abandoned(const clv_device *dev);
/* Its work failed: it is not used again. */
void core_device_lose(clv_device *dev);
/* It may still be working, and is not waited for any longer. Logged. */
void core_device_abandon(clv_device *dev);
/* Waits until all submitted work has ended, failed timelines included: the
 * device no longer uses its buffers. Abandons the device at the timeout, which
 * is as in core_timeline_wait(). */
clv_status core_device_settle(clv_device *dev, uint64_t timeout_ns);
/* CLV_ERR_DEVICE_LOST with a message once the device is lost. */
clv_status core_device_usable(const clv_device *dev);
