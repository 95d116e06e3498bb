/*
 * Dispatches made ready to be enqueued again and again: each has a kernel
 * object of its own, of which only those arguments are set that changed since
 * the last time.
 */
#pragma once

#include "memory.h"

#include <kernels.h>

/* Where a tensor lies. */
typedef struct ocl_place {
    ocl_buffer *buffer;
    uint64_t offset;
} ocl_place;

/* What decides an argument's memory object. Buffers are told by their numbers:
 * another object may come to have the address of one that was freed. */
typedef struct ocl_binding {
    uint64_t serial, offset; /* serial 0: nothing is set */
} ocl_binding;

typedef struct ocl_launch {
    cl_kernel kernel;
    ocl_binding *bound; /* [n_args of the kernel] */
    cl_int params[GPU_MAX_PARAMS];
    bool has_params;
} ocl_launch;

/* A private buffer or image. */
typedef struct ocl_private {
    cl_mem memory;
    cl_mem behind;  /* the buffer of an image buffer, or NULL */
    uint64_t taken; /* of the device's budget */
} ocl_private;

/* What a run's arguments come from. */
typedef struct ocl_scene {
    const ocl_place *places; /* by tensor */
    const ocl_private *privates;
    const int64_t *symbols;
} ocl_scene;

/* The kernel, built or from the cache; checks that the device runs groups of
 * its size. The program is valid as long as the device. */
clv_status ocl_kernel_make(clv_plugin_device *dev, const gpu_kernel *kernel,
                           cl_program *program);
/* A launch of it; to be freed after a failure, too. */
clv_status ocl_launch_make(clv_plugin_device *dev, const gpu_kernel *kernel,
                           cl_program program, ocl_launch *launch);
void ocl_launch_free(clv_plugin_device *dev, ocl_launch *launch);
cl_int ocl_launch_set(clv_plugin_device *dev, ocl_launch *launch,
                      const gpu_kernel *kernel, const gpu_dispatch *d,
                      const ocl_scene *scene);
