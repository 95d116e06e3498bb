/* Kernels tried on a device that is seen for the first time. */
#pragma once

#include "kernels.h"

/*
 * Runs small products and attentions, in all formats that gpu_caps() takes,
 * through the plugin's own slots, and compares them with results worked out
 * here. Variants that compute wrongly, or do not build, are added to disabled,
 * names separated by ',', and the case is tried again without them; each is
 * told to the log as a warning. target->disabled is disabled, and the device
 * compiles by it. An error: the device is lost, or memory ran out.
 */
clv_status gpu_try(const clv_host_api *host, const clv_plugin_api *api,
                   clv_plugin_device *dev, const gpu_target *target,
                   char *disabled, size_t size);
