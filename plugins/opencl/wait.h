/*
 * Waiting for events.
 *
 * Some drivers poll for as long as a wait lasts, on a core that a CPU device
 * may be computing on; a thread that is displaced there is late by a time slice
 * of the system, which is longer than most steps. Such a driver is known by the
 * processor time that its waits take, and its events are looked at now and then
 * instead.
 */
#pragma once

#include "device.h"

/* Until the event has ended; an error is the event's or the wait's. */
cl_int ocl_wait(clv_plugin_device *dev, cl_event event);

/* Whether the event has ended, maybe by an error. */
bool ocl_has_ended(clv_plugin_device *dev, cl_event event);
