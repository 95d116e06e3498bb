/* Memory and work on a device for trials and measurements, through the plugin's
 * own slots. */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

typedef struct gpu_lab {
    const clv_host_api *host;
    const clv_plugin_api *api;
    clv_plugin_device *dev;
    uint32_t seen, local; /* memory types: that the host sees, the device's */
    bool staged;          /* the host does not see the device's */
} gpu_lab;

/* False: there is no memory that the host sees. */
bool gpu_lab_open(gpu_lab *lab, const clv_host_api *host,
                  const clv_plugin_api *api, clv_plugin_device *dev);

/* A buffer where the device likes it, with these bytes; data NULL: with bytes
 * of 255, which no result has. */
clv_status gpu_lab_alloc(const gpu_lab *lab, const void *data, uint64_t size,
                         clv_plugin_buffer **out);
clv_status gpu_lab_fetch(const gpu_lab *lab, clv_plugin_buffer *buf, void *out,
                         uint64_t size);

/* Runs the command to its end. */
clv_status gpu_lab_run(const gpu_lab *lab, const clv_command *command);

/* sum((y - want)^2) / sum(want^2), 0 where y is want; INFINITY where that is no
 * number. */
double gpu_lab_error(const float *y, const float *want, uint64_t n);
/* What an error class allows. */
double gpu_lab_bound(uint32_t error_class);
