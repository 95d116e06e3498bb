/* Images: where a program's own activations, and weights may lie. */
#pragma once

#include "device.h"

#include <kernels.h>

/* The largest of each kind that kernels read and write as 4 floats a texel. */
void ocl_image_limits(const ocl_api *cl, ocl_properties *d);

/* 1 + the clv_storage that the option asks for, 0: "auto"; or why it cannot be
 * had here. */
clv_status ocl_image_choose(clv_plugin_device *dev, const char *key,
                            uint32_t *choice);
/* Finds out for which images a texel may be 4 halves. */
void ocl_image_halves(clv_plugin_device *dev, bool halves[5]);

/* *behind: the buffer of an image buffer, to be released with it, or NULL. */
cl_int ocl_image_create(const clv_plugin_device *dev, const gpu_private *p,
                        cl_mem *image, cl_mem *behind);
