/*
 * A device that is out of use; device.h says what that means.
 */
#pragma once

#include "device.h"

bool core_device_lost(const clv_device *dev);
bool core_device_abandoned(const clv_device *dev);
/* Its work failed, and it is not to be used any more. */
void core_device_lose(clv_device *dev);
/* It may still be working and will not be waited for any longer. Logged. */
void core_device_abandon(clv_device *dev);
/* Waits until everything submitted has ended, whether its timelines failed or
 * not: nothing touches the device's buffers when it returns. Abandons a device
 * that does not get there in time; timeout_ns as in core_timeline_wait(). */
clv_status core_device_settle(clv_device *dev, uint64_t timeout_ns);
/* CLV_ERR_DEVICE_LOST with a message once the device is lost. */
clv_status core_device_usable(const clv_device *dev);
