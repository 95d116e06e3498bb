/* Which OpenCL devices there are, by their properties and in an order that does
 * not depend on the loader's. */
#pragma once

#include "cl.h"

/* What a device answers about itself. */
typedef struct ocl_properties {
    cl_platform_id platform;
    cl_device_id id;
    clv_device_info info; /* as enumerate gives it */
    char platform_name[128];
    char extensions[8192];
    uint64_t max_alloc;
    uint32_t base_align; /* bytes, of sub-buffers */
    uint32_t max_group, max_group_size[3], local_bytes;
    uint32_t image[5][3]; /* as in gpu_target */
    uint32_t language;    /* OpenCL C: 102 is 1.2 */
    bool is_cpu, unified;
    bool little_endian;
} ocl_properties;

typedef struct ocl_filter {
    const char *platform; /* part of its name, any case; "": any */
    bool gpu, cpu;        /* types that are wanted; others go with gpu */
} ocl_filter;

/* Fills out with the devices that the filter passes, at most OCL_MAX_DEVICES. A
 * device's id does not depend on the filter. */
uint32_t ocl_find(const ocl_api *cl, const ocl_filter *filter,
                  ocl_properties *out);

bool ocl_has_extension(const ocl_properties *device, const char *name);
