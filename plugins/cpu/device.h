/*
 * Instance and devices. The instance owns the setups of its devices and the
 * kernels that they share. A device owns its pool and its queue; buffers,
 * programs and timelines refer to it. The queue's thread is worker 0 of the
 * pool.
 */
#pragma once

#include "dispatch.h"
#include "pool.h"
#include "run.h"
#include "setup.h"

struct clv_plugin_instance {
    const clv_host_api *host;
    cpu_setup *setups; /* [n_setups] of the devices it enumerates */
    uint32_t n_setups;
    cpu_kernels kernels;
    cpu_level level;
    clv_plugin_device *devices; /* open ones */
};

struct clv_plugin_device {
    clv_device_base base; /* the host, and the queue */
    clv_plugin_instance *inst;
    const cpu_setup *setup; /* the instance's */
    const cpu_kernels *kernels;
    clv_plugin_device *next;
    cpu_pool *pool;
    cpu_scratch scratch;
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
/* As clv_queue_submit(), with memory for the records of a traced submit. */
clv_status cpu_submit(clv_plugin_device *dev, const clv_submit *submit);
clv_status cpu_calibrate(clv_plugin_device *dev, clv_calibration *out);
