/* Which of several kernels for a node is the quickest here: opencl.tune. */
#pragma once

#include "program.h"

/* For gpu_target.choices: NULL or text to be freed. What is not known is
 * measured if opencl.tune says so. */
clv_status ocl_choose(clv_plugin_device *dev, const clv_compile *c,
                      char **choices);
/* The trial of a device's kernels, where it is wanted; fills dev->disabled. */
clv_status ocl_try_kernels(clv_plugin_device *dev);
