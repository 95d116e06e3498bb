#include "ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clv_status ref_create(const clv_host_api *host, clv_plugin_instance **out)
{
    clv_status status = clv_check_chain(host, host);
    if (status)
        return status;
    clv_plugin_instance *inst = clv_new(host, sizeof *inst);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    const char *devices = host->option(host->host, "devices");
    inst->n_devices = devices ? (uint32_t)atoi(devices) : REF_DEVICES;
    if (inst->n_devices > REF_DEVICES)
        inst->n_devices = REF_DEVICES;
    for (uint32_t i = 0; i < REF_DEVICES && !status; i++)
        status = ref_settings_read(host, i, &inst->settings[i]);
    if (status)
        clv_free(host, inst);
    else
        *out = inst;
    return status;
}

/* Threads belong to devices and are gone with them. */
clv_status ref_quiesce(clv_plugin_instance *inst)
{
    (void)inst;
    return CLV_OK;
}

void ref_destroy(clv_plugin_instance *inst)
{
    if (inst)
        clv_free(inst->host, inst);
}

static void describe(const ref_settings *settings, uint32_t index,
                     clv_device_info *info)
{
    snprintf(info->id, sizeof info->id, "%" PRIu32, index);
    snprintf(info->name, sizeof info->name, "%s", settings->name);
    snprintf(info->driver, sizeof info->driver, "%s", settings->driver);
    memcpy(info->uuid, REF_NAME, sizeof REF_NAME);
    info->uuid[sizeof info->uuid - 1] = (uint8_t)(1 + index);
    info->kind = REF_KIND;
    info->flags = CLV_DEVICE_FLAG_STORE | CLV_DEVICE_SOFTWARE;
    if (settings->flag_wait)
        info->flags |= CLV_DEVICE_FLAG_WAIT;
    if (settings->progress)
        info->flags |= CLV_DEVICE_NEEDS_PROGRESS;
    if (settings->n_static)
        info->flags |= CLV_DEVICE_STATIC_SHAPES;
    if (settings->repacks)
        info->flags |= CLV_DEVICE_REPACKS;
    info->memory_size = info->memory_free = settings->memory_size;
    if (settings->is_virtual)
        info->clock = CLV_CLOCK_VIRTUAL;
    info->n_mem_types = settings->n_memory;
    info->queue_depth = settings->queue_depth;
    info->copy_queues = settings->copy_queues;
    info->max_programs = settings->max_programs;
    info->units = 1;
}

clv_status ref_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride)
{
    for (uint32_t i = 0; i < inst->n_devices && i < *count; i++) {
        clv_device_info info;
        memset(&info, 0, sizeof info);
        describe(&inst->settings[i], i, &info);
        clv_write(clv_at(out, i, stride), &info, sizeof info);
    }
    *count = inst->n_devices;
    return CLV_OK;
}

clv_status ref_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out)
{
    const clv_host_api *host = inst->host;
    if (index >= inst->n_devices)
        return clv_fail(host, CLV_ERR_NOT_FOUND,
                        REF_NAME ": there is no device %" PRIu32 ", only "
                                 "%" PRIu32,
                        index, inst->n_devices);
    clv_plugin_device *dev = clv_new(host, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    dev->host = host;
    dev->inst = inst;
    dev->index = index;
    dev->settings = &inst->settings[index];
    pthread_mutex_init(&dev->running, NULL);
    pthread_mutex_init(&dev->mutex, NULL);
    pthread_cond_init(&dev->pushed, NULL);
    clv_status status = ref_queues_start(dev);
    if (status)
        ref_device_close(dev);
    else
        *out = dev;
    return status;
}

void ref_device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    ref_queues_stop(dev);
    pthread_cond_destroy(&dev->pushed);
    pthread_mutex_destroy(&dev->mutex);
    pthread_mutex_destroy(&dev->running);
    clv_free(dev->host, dev);
}

clv_status ref_check_device(const clv_plugin_device *dev)
{
    if (!atomic_load(&dev->lost))
        return CLV_OK;
    return clv_fail(dev->host, CLV_ERR_DEVICE_LOST,
                    REF_NAME ": device %" PRIu32 " was lost; close it",
                    dev->index);
}

clv_status ref_fault_inject(clv_plugin_device *dev, uint32_t fault)
{
    CLV_TRY(ref_check_device(dev));
    if (fault != CLV_FAULT_LOST && fault != CLV_FAULT_HANG)
        return clv_fail(dev->host, CLV_ERR_UNSUPPORTED,
                        REF_NAME ": fault %" PRIu32 " is not known", fault);
    /* Once the loss is seen, nothing touches the host's memory any more. */
    pthread_mutex_lock(&dev->running);
    pthread_mutex_lock(&dev->mutex);
    atomic_store(fault == CLV_FAULT_LOST ? &dev->lost : &dev->hung, true);
    pthread_cond_broadcast(&dev->pushed);
    pthread_mutex_unlock(&dev->mutex);
    pthread_mutex_unlock(&dev->running);
    return CLV_OK;
}
