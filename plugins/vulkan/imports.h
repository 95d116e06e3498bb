/*
 * Kernels as PTX. A driver with VK_NVX_binary_import takes modules of it, so
 * that kernels are those that OpenCL has on the same device, in OpenCL C with
 * instructions that no GLSL gives; memory, command buffers and launches are
 * Vulkan's.
 */
#pragma once

#include "device.h"
#include "kernels.h"

/* Whether a device is to be made for it, by the option "ptx" and what else is
 * asked for: those that want images or cooperative matrices get GLSL. An error:
 * it is asked for and cannot be had. */
clv_status vk_imports_wanted(clv_plugin_device *dev, bool *wanted);

/* Of a device that is made for it: sets dev->imports and the target; where that
 * cannot be, kernels are GLSL, with a line in the log, or it is an error if the
 * option is "on". */
clv_status vk_imports_start(clv_plugin_device *dev);

/* The kernel's text for vkCreateCuModuleNVX(), for clv_free(). fresh: not from
 * the host's cache. */
clv_status vk_imports_text(clv_plugin_device *dev, const char *name,
                           const char *source, bool fresh, char **text);
