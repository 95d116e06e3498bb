#include "device.h"
#include "host.h"
#include "machine.h"
#include "memory.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The host has checked the values against the declarations. */
static uint64_t option_int(const clv_host_api *host, const char *key)
{
    const char *text = host->option(host->host, key);
    return text ? strtoull(text, NULL, 10) : 0;
}

static void read_options(const clv_host_api *host, cpu_options *options)
{
    const char *pin = host->option(host->host, "pin");
    options->threads = (uint32_t)option_int(host, "threads");
    if (!options->threads)
        options->threads = cpu_usable_cores();
    options->poll_ns = option_int(host, "poll") * 1000;
    options->pin = pin && !strcmp(pin, "on");
}

clv_status cpu_instance_create(const clv_host_api *host,
                               clv_plugin_instance **out)
{
    clv_status status = cpu_check_chain(host, &host->header);
    if (status)
        return status;
    clv_plugin_instance *inst =
        cpu_alloc(host, sizeof *inst, alignof(clv_plugin_instance));
    if (!inst)
        return cpu_no_memory(host, "an instance", sizeof *inst);
    inst->host = host;
    read_options(host, &inst->options);
    status = cpu_dispatch(host, host->option(host->host, "features"),
                          &inst->kernels, &inst->level);
    if (status) {
        cpu_free(host, inst);
        return status;
    }
    *out = inst;
    return CLV_OK;
}

static void stop_threads(clv_plugin_device *dev)
{
    cpu_queue_destroy(dev->queue);
    cpu_pool_destroy(dev->pool);
    dev->queue = NULL;
    dev->pool = NULL;
}

clv_status cpu_instance_quiesce(clv_plugin_instance *inst)
{
    for (clv_plugin_device *dev = inst->devices; dev; dev = dev->next)
        stop_threads(dev);
    return CLV_OK;
}

void cpu_instance_destroy(clv_plugin_instance *inst)
{
    if (!inst)
        return;
    while (inst->devices)
        cpu_device_close(inst->devices);
    cpu_free(inst->host, inst);
}

clv_status cpu_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride)
{
    uint32_t room = *count;
    *count = 1;
    if (!out || !room)
        return CLV_OK;
    (void)stride;
    clv_device_info info;
    memset(&info, 0, sizeof info);
    cpu_machine_name(info.name, sizeof info.name);
    snprintf(info.driver, sizeof info.driver, "cleave %s %s", CPU_VERSION,
             cpu_level_name(inst->level));
    info.kind = CLV_DEVICE_CPU;
    info.flags = CLV_DEVICE_FLAG_STORE | CLV_DEVICE_FLAG_WAIT |
                 CLV_DEVICE_SOFTWARE;
    info.clock = CLV_CLOCK_REAL;
    info.n_mem_types = CPU_MEM_TYPES;
    info.memory_size = cpu_memory_size();
    info.memory_free = cpu_memory_free();
    info.units = inst->options.threads;
    cpu_write(out, &info, sizeof info);
    return CLV_OK;
}

static clv_status start_threads(clv_plugin_device *dev)
{
    const cpu_options *o = &dev->inst->options;
    clv_status status = cpu_pool_create(dev->host, o->threads, o->poll_ns,
                                        o->pin, &dev->pool);
    return status ? status
                  : cpu_queue_create(dev->host, dev->kernels, dev->pool,
                                     dev->trace, o->poll_ns, o->pin,
                                     &dev->queue);
}

clv_status cpu_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out)
{
    const clv_host_api *host = inst->host;
    if (index)
        return cpu_error(host, CLV_ERR_NOT_FOUND,
                         "cpu: no device %" PRIu32 ", there is one; open 0",
                         index);
    clv_plugin_device *dev =
        cpu_alloc(host, sizeof *dev, alignof(clv_plugin_device));
    if (!dev)
        return cpu_no_memory(host, "a device", sizeof *dev);
    dev->inst = inst;
    dev->host = host;
    dev->kernels = &inst->kernels;
    dev->next = inst->devices;
    inst->devices = dev;
    clv_status status = cpu_trace_create(host, &dev->trace);
    if (!status)
        status = start_threads(dev);
    if (status) {
        cpu_device_close(dev);
        return status;
    }
    *out = dev;
    return CLV_OK;
}

void cpu_device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    clv_plugin_device **link = &dev->inst->devices;
    while (*link != dev)
        link = &(*link)->next;
    *link = dev->next;
    stop_threads(dev);
    cpu_trace_destroy(dev->trace);
    cpu_free(dev->host, dev);
}

clv_status cpu_fault_inject(clv_plugin_device *dev, uint32_t fault)
{
    if (fault != CLV_FAULT_LOST && fault != CLV_FAULT_HANG)
        return cpu_error(dev->host, CLV_ERR_UNSUPPORTED,
                         "cpu: fault %" PRIu32 " is not known, 1 and 2 are",
                         fault);
    cpu_queue_inject(dev->queue, fault);
    return CLV_OK;
}

clv_status cpu_device_usable(const clv_plugin_device *dev)
{
    if (!cpu_queue_lost(dev->queue))
        return CLV_OK;
    return cpu_error(dev->host, CLV_ERR_DEVICE_LOST,
                     "cpu: the device is lost, by a fault that was injected; "
                     "close it");
}
