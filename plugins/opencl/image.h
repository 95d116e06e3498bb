/* Images: where a program's own activations may lie. */
#pragma once

#include "device.h"

#include <kernels.h>

/* The largest of each kind that kernels read and write as 4 floats a texel. */
void ocl_image_limits(const ocl_api *cl, ocl_properties *d);

/* gpu_target.slices as the option opencl.storage asks for it, or why it cannot
 * be had here. */
clv_status ocl_image_choose(clv_plugin_device *dev, uint32_t *slices);

/* *behind: the buffer of an image buffer, to be released with it, or NULL. */
cl_int ocl_image_create(const clv_plugin_device *dev, const gpu_private *p,
                        cl_mem *image, cl_mem *behind);
