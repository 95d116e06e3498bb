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

/* Whether the device takes programs that are opened for sm_90a; a warning says
 * that it does not. CLV_ERR_NO_MEMORY: it is not known. */
clv_status ocl_source_opens(clv_plugin_device *dev, bool *opens);

/* Fills dev->identity. */
void ocl_identify(clv_plugin_device *dev);

void ocl_sources_free(clv_plugin_device *dev);
