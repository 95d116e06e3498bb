/*
 * Kernels' text, built once for a device and cached: in memory while the device
 * is open, and on disk by the host's cache, as the driver's own code.
 */
#pragma once

#include "device.h"

struct ocl_source {
    ocl_source *next;
    char *text;
    cl_program program;
};

/* The program built from the text; valid as long as the device. name: of its
 * kernel, for people. */
clv_status ocl_source_build(clv_plugin_device *dev, const char *name,
                            const char *text, cl_program *out);

/* "KIND-HASH": the name in the cache of something about the text, for this
 * plugin, driver and device. */
void ocl_entry_name(const clv_plugin_device *dev, const char *kind,
                    const char *text, char out[64]);

void ocl_sources_free(clv_plugin_device *dev);
