/*
 * The compiler of OpenCL C to PTX, which is the OpenCL of the same driver for
 * the same device. It is opened when something is first asked of it.
 */
#pragma once

#include "device.h"

/* What OpenCL says of the device, and Vulkan does not. */
typedef struct vk_opencl_device {
    uint32_t capability; /* as of ocl_compute_capability() */
    uint64_t max_alloc;  /* bytes of a buffer that kernels reach */
    bool fp16, int_dot;  /* as in gpu_target */
} vk_opencl_device;

/* CLV_ERR_NOT_FOUND: there is no OpenCL for the device. */
clv_status vk_compiler_describe(clv_plugin_device *dev, vk_opencl_device *out);

/* The PTX of a source, with a NUL behind, for clv_free(). From any thread. */
clv_status vk_compiler_build(clv_plugin_device *dev, const char *name,
                             const char *source, char **ptx);

void vk_compiler_close(clv_plugin_device *dev);
