#include "device.h"
#include "machine.h"
#include "thread.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clv_status cpu_instance_create(const clv_host_api *host,
                               clv_plugin_instance **out)
{
    CLV_TRY(clv_check_chain(host, host));
    clv_plugin_instance *inst = clv_new(host, sizeof *inst);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    clv_status status = cpu_setups_read(host, &inst->setups, &inst->n_setups);
    if (!status)
        status = cpu_dispatch(host, host->option(host->host, "features"),
                              &inst->kernels, &inst->level);
    if (status) {
        clv_free(host, inst->setups);
        clv_free(host, inst);
        return status;
    }
    *out = inst;
    return CLV_OK;
}

static void stop_threads(clv_plugin_device *dev)
{
    if (dev->base.queue)
        clv_queue_stop(dev->base.queue);
    cpu_pool_destroy(dev->pool);
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
    clv_free(inst->host, inst->setups);
    clv_free(inst->host, inst);
}

/* The machine's, and the cores where they are not all. */
static void name_device(const cpu_setup *setup, char *out, size_t size)
{
    char list[64];
    cpu_machine_name(out, size);
    size_t used = strlen(out);
    if (setup->bound)
        snprintf(out + used, size - used, ", %s %s",
                 cpu_cores_count(&setup->cores) == 1 ? "core" : "cores",
                 cpu_cores_text(&setup->cores, list, sizeof list));
}

static void describe(const clv_plugin_instance *inst, const cpu_setup *setup,
                     clv_device_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, "%s", setup->id);
    name_device(setup, info->name, sizeof info->name);
    snprintf(info->driver, sizeof info->driver, "cleave %s %s", CPU_VERSION,
             cpu_level_name(inst->level));
    info->kind = CLV_DEVICE_CPU;
    info->flags = CLV_DEVICE_FLAG_STORE | CLV_DEVICE_FLAG_WAIT |
                  CLV_DEVICE_SOFTWARE | CLV_DEVICE_COPIES_ROWS;
    memcpy(info->uuid, CLV_UUID_HOST, sizeof info->uuid);
    info->clock = CLV_CLOCK_REAL;
    info->n_mem_types = 1;
    info->memory_size = cpu_memory_size();
    info->memory_free = cpu_memory_free();
    info->units = setup->threads;
}

clv_status cpu_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride)
{
    uint32_t capacity = *count;
    *count = inst->n_setups;
    for (uint32_t i = 0; out && i < capacity && i < inst->n_setups; i++) {
        clv_device_info info;
        describe(inst, &inst->setups[i], &info);
        clv_write(clv_at(out, i, stride), &info, sizeof info);
    }
    return CLV_OK;
}

static clv_status start_threads(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    CLV_TRY(clv_queue_new(host, 0, 0, &cpu_queue_fns, dev, &dev->base));
    clv_queue *queue = dev->base.queue;
    CLV_TRY(cpu_pool_create(host, dev->setup, &queue->spin, &dev->pool));
    queue->poll_ns = dev->setup->poll_ns;
    clv_fifo *fifo = &queue->fifos[0];
    CLV_TRY(cpu_thread_start(host, dev->setup, 0, clv_queue_main, fifo,
                             &fifo->thread));
    fifo->started = 1;
    return CLV_OK;
}

clv_status cpu_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out)
{
    const clv_host_api *host = inst->host;
    if (index >= inst->n_setups)
        return clv_fail(host, CLV_ERR_NOT_FOUND,
                        "cpu: no device %" PRIu32 ", there are %" PRIu32
                        "; count them from 0",
                        index, inst->n_setups);
    clv_plugin_device *dev = clv_new(host, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    dev->base.host = host;
    dev->inst = inst;
    dev->setup = &inst->setups[index];
    dev->kernels = &inst->kernels;
    dev->next = inst->devices;
    inst->devices = dev;
    clv_status status = start_threads(dev);
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
    clv_queue_destroy(dev->base.queue);
    cpu_scratch_free(dev->base.host, &dev->scratch);
    clv_free(dev->base.host, dev);
}

clv_status cpu_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    if (submit->correlation)
        CLV_TRY(clv_trace_reserve(dev->base.queue));
    return clv_queue_submit(dev, submit);
}

/* Both clocks are the system's monotonic one or close to it; of a few looks the
 * quickest counts. */
clv_status cpu_calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    const clv_host_api *host = dev->base.host;
    clv_calibration best;
    CLV_TRY(clv_queue_usable(dev));
    memset(&best, 0, sizeof best);
    best.max_error_ns = UINT64_MAX;
    best.tick_ns = 1;
    for (int i = 0; i < 8; i++) {
        uint64_t begin = clv_queue_now();
        uint64_t host_ns = host->now_ns(host->host);
        uint64_t end = clv_queue_now();
        uint64_t error = (end - begin + 1) / 2;
        if (error >= best.max_error_ns)
            continue;
        best.device_tick = begin + (end - begin) / 2;
        best.host_ns = host_ns;
        best.max_error_ns = error;
    }
    clv_write(out, &best, sizeof best);
    return CLV_OK;
}
