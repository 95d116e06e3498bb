/* The driver's side of a submit: command buffers, the semaphore, times. */
#pragma once

#include "work.h"

clv_status vk_flight_init(vk_work *work, vk_flight *flight);
void vk_flight_finish(clv_plugin_device *dev, vk_flight *flight);

/* Records the job's commands, behind those of the other flights of lead's
 * submit. From then on other devices may count on it: it is to be submitted.
 * Errors go to the flight. */
void vk_flight_record(vk_flight *flight, vk_flight *lead);
/* Hands the n flights from `first` on to the driver as one submit, which the
 * first one leads. Errors go to them. */
void vk_flights_submit(vk_work *work, uint64_t first, uint32_t n);
/* Waits until the driver has done it; a failure says why in message. */
clv_status vk_flight_wait(const vk_flight *flight, char *message);
