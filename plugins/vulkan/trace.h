/* Device times of commands, and the device's clock. */
#pragma once

#include "program.h"
#include "work.h"

clv_status vk_trace_init(clv_plugin_device *dev);
void vk_trace_finish(clv_plugin_device *dev);

/* Queries for the flight's commands if its submit is to be recorded and the
 * device has a clock; without memory for them it is not. */
void vk_trace_prepare(clv_plugin_device *dev, vk_flight *flight);
/* The queries for the kernels of a RUN command, in the commands' order. */
vk_stamps vk_trace_kernels(vk_flight *flight, const clv_command *c);
/* Takes the times of a flight that has ended. */
void vk_trace_collect(clv_plugin_device *dev, const vk_flight *flight);

clv_status vk_calibrate(clv_plugin_device *dev, clv_calibration *out);
