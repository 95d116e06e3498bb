/*
 * Instance and device. The instance owns the setups of its devices and the
 * kernels they share; a device owns its pool and queue. Buffers, programs and
 * timelines only borrow the device.
 */
#pragma once

#include "dispatch.h"
#include "pool.h"
#include "queue.h"
#include "setup.h"
#include "trace.h"

struct clv_plugin_instance {
    const clv_host_api *host;
    cpu_setup *setups; /* [n_setups] of the devices it enumerates */
    uint32_t n_setups;
    cpu_kernels kernels;
    cpu_level level;
    clv_plugin_device *devices; /* open ones */
};

struct clv_plugin_device {
    clv_plugin_instance *inst;
    const cpu_setup *setup; /* the instance's */
    const clv_host_api *host;
    const cpu_kernels *kernels;
    clv_plugin_device *next;
    cpu_trace *trace;
    cpu_pool *pool;
    cpu_queue *queue;
};

/* plugin.c's parts of the table. */
clv_status cpu_instance_create(const clv_host_api *host,
                               clv_plugin_instance **out);
clv_status cpu_instance_quiesce(clv_plugin_instance *inst);
void cpu_instance_destroy(clv_plugin_instance *inst);
clv_status cpu_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride);
clv_status cpu_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out);
void cpu_device_close(clv_plugin_device *dev);
clv_status cpu_fault_inject(clv_plugin_device *dev, uint32_t fault);

/* The error of a device that was lost, or CLV_OK. */
clv_status cpu_device_usable(const clv_plugin_device *dev);
