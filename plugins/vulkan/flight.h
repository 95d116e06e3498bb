/* The driver's side of a submit: command buffers, the semaphore, times. */
#pragma once

#include "work.h"

clv_status vk_flight_init(vk_work *work, vk_flight *flight);
void vk_flight_finish(clv_plugin_device *dev, vk_flight *flight);

/* Records the job's commands and hands them to the driver; errors go to the
 * flight. */
void vk_flight_launch(vk_flight *flight);
/* Waits until the driver has done it; a failure says why in message. */
clv_status vk_flight_wait(const vk_flight *flight, char *message);
