/*
 * Records of finished work, for the host to fetch. A ring of fixed size,
 * allocated with the first record wanted; when it is full the oldest go.
 */
#pragma once

#include <cleave/plugin.h>

typedef struct cpu_trace cpu_trace;

clv_status cpu_trace_create(const clv_host_api *host, cpu_trace **out);
void cpu_trace_destroy(cpu_trace *trace);

/* Before the first add. */
clv_status cpu_trace_reserve(cpu_trace *trace);
/* Of work that ends now. */
void cpu_trace_add(cpu_trace *trace, uint64_t correlation, uint32_t command,
                   uint32_t node, const char *name, uint64_t begin);

clv_status cpu_trace_read(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride);
clv_status cpu_trace_calibrate(clv_plugin_device *dev, clv_calibration *out);
