/* Memory and work on a device for trials and measurements, through the plugin's
 * own slots. */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

typedef struct gpu_context {
    const clv_host_api *host;
    const clv_plugin_api *api;
    clv_plugin_device *dev;
    uint32_t seen, local; /* memory types: that the host sees, the device's */
    bool staged;          /* the host does not see the device's */
} gpu_context;

/* False: there is no memory that the host sees. */
bool gpu_context_open(gpu_context *ctx, const clv_host_api *host,
                      const clv_plugin_api *api, clv_plugin_device *dev);

/* A buffer where the device likes it, with these bytes; data NULL: with bytes
 * of 255, which no result has. */
clv_status gpu_context_alloc(const gpu_context *ctx, const void *data,
                             uint64_t size, clv_plugin_buffer **out);
clv_status gpu_context_fetch(const gpu_context *ctx, clv_plugin_buffer *buf,
                             void *out, uint64_t size);

/* Runs the command to its end. */
clv_status gpu_context_run(const gpu_context *ctx, const clv_command *command);

/* sum((y - want)^2) / sum(want^2), 0 where y is want; INFINITY where that is no
 * number. */
double gpu_result_error(const float *y, const float *want, uint64_t n);
/* What an error class allows. */
double gpu_result_bound(uint32_t error_class);
