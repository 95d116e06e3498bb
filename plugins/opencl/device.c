#include "device.h"
#include "memory.h"
#include "queue.h"
#include "source.h"
#include "tune.h"

#include <tune/trial.h>

#include <stdlib.h>
#include <string.h>

/* --- instance ------------------------------------------------------------- */

clv_status ocl_create(const clv_host_api *host, clv_plugin_instance **out)
{
    CLV_TRY(clv_check_chain(host, host));
    clv_plugin_instance *inst = clv_new(host, sizeof *inst);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    *out = inst;
    return CLV_OK;
}

clv_status ocl_quiesce(clv_plugin_instance *inst)
{
    (void)inst;
    return CLV_OK; /* a device's threads end when it closes */
}

void ocl_destroy(clv_plugin_instance *inst)
{
    if (!inst)
        return;
    clv_free(inst->host, inst->devices);
    clv_free(inst->host, inst);
}

static const char *option(const clv_plugin_instance *inst, const char *key)
{
    const char *value = inst->host->option(inst->host->host, key);
    return value ? value : "";
}

/* Which is no error; it is said why. */
static clv_status no_device(const clv_plugin_instance *inst, const char *why)
{
    clv_fail(inst->host, CLV_ERR_NOT_FOUND, "%s", why);
    return CLV_OK;
}

/* Once; a machine without a loader has no devices. */
static clv_status look(clv_plugin_instance *inst)
{
    const clv_host_api *host = inst->host;
    const char *why, *type = option(inst, "type");
    if (inst->devices)
        return CLV_OK;
    inst->devices = clv_new(host, OCL_MAX_DEVICES * sizeof *inst->devices);
    if (!inst->devices)
        return CLV_ERR_NO_MEMORY;
    inst->cl = ocl_load(option(inst, "loader"), &why);
    if (!inst->cl)
        return no_device(inst, why);
    ocl_filter filter = {.platform = option(inst, "platform"),
                         .gpu = strcmp(type, "cpu") != 0,
                         .cpu = strcmp(type, "gpu") != 0};
    inst->n_devices = ocl_find(inst->cl, &filter, inst->devices);
    const bool separate = !strcmp(option(inst, "memory"), "separate");
    const char *copies = option(inst, "copy_queues");
    for (uint32_t i = 0; i < inst->n_devices; i++) {
        ocl_properties *p = &inst->devices[i];
        p->info.queue_depth = OCL_QUEUE_DEPTH;
        p->info.n_mem_types = p->unified && !separate ? 1 : 2;
        p->info.copy_queues = strcmp(copies, "auto") ? (uint32_t)atoi(copies)
                                                     : p->info.n_mem_types - 1;
        p->info.memory_size = gpu_memory_limit(host, p->info.memory_size,
                                               p->info.n_mem_types == 2);
        if (separate) /* as if it were no part of the host */
            memset(p->info.uuid, 0, sizeof p->info.uuid);
    }
    return inst->n_devices
               ? CLV_OK
               : no_device(inst, "opencl: no device that opencl.platform and "
                                 "opencl.type let through");
}

clv_status ocl_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride)
{
    CLV_TRY(look(inst));
    for (uint32_t i = 0; i < inst->n_devices && i < *count; i++)
        clv_write(clv_at(out, i, stride), &inst->devices[i].info,
                  sizeof inst->devices[i].info);
    *count = inst->n_devices;
    return CLV_OK;
}

/* --- device --------------------------------------------------------------- */

clv_status ocl_noticed(clv_plugin_device *dev, clv_status status)
{
    if (status == CLV_ERR_DEVICE_LOST && dev->base.queue)
        clv_queue_is_lost(
            dev->base.queue,
            "opencl: the device is lost; open it again or leave it out");
    return status;
}

static clv_status make_objects(clv_plugin_device *dev)
{
    const ocl_api *cl = dev->cl;
    const ocl_properties *p = dev->props;
    cl_context_properties props[] = {CL_CONTEXT_PLATFORM,
                                     (cl_context_properties)p->platform, 0};
    cl_int error = CL_SUCCESS;
    dev->context = cl->CreateContext(props, 1, &p->id, NULL, NULL, &error);
    for (uint32_t i = 0; !error && i <= p->info.copy_queues; i++) {
        ocl_queue *q = &dev->queues[i];
        q->dev = dev;
        q->now = q->plain =
            cl->CreateCommandQueue(dev->context, p->id, 0, &error);
        if (q->plain)
            q->timed = cl->CreateCommandQueue(
                dev->context, p->id, CL_QUEUE_PROFILING_ENABLE, &error);
    }
    if (!error)
        dev->side = cl->CreateCommandQueue(dev->context, p->id,
                                           CL_QUEUE_PROFILING_ENABLE, &error);
    if (dev->side)
        dev->tick =
            cl->CreateBuffer(dev->context, CL_MEM_READ_WRITE, 4, NULL, &error);
    if (dev->tick)
        return CLV_OK;
    return ocl_fail(dev->base.host, error ? error : CL_OUT_OF_HOST_MEMORY,
                    "%s cannot be opened", p->info.name);
}

static void free_objects(clv_plugin_device *dev)
{
    const ocl_api *cl = dev->cl;
    ocl_sources_free(dev);
    if (dev->tick)
        cl->ReleaseMemObject(dev->tick);
    if (dev->side)
        cl->ReleaseCommandQueue(dev->side);
    for (uint32_t i = 0; i < OCL_MAX_QUEUES; i++) {
        if (dev->queues[i].scratch)
            cl->ReleaseMemObject(dev->queues[i].scratch);
        if (dev->queues[i].timed)
            cl->ReleaseCommandQueue(dev->queues[i].timed);
        if (dev->queues[i].plain)
            cl->ReleaseCommandQueue(dev->queues[i].plain);
    }
    if (dev->context)
        cl->ReleaseContext(dev->context);
    pthread_mutex_destroy(&dev->cache.lock);
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->tuning);
    clv_free(dev->base.host, dev);
}

static clv_status start(clv_plugin_device *dev)
{
    CLV_TRY(make_objects(dev));
    CLV_TRY(ocl_try_memory(dev));
    dev->budget =
        gpu_budget_make(dev->base.host, "opencl", dev->props->info.memory_size,
                        !dev->zero_copy);
    CLV_TRY(ocl_target(dev));
    dev->tuner = (gpu_tuner){.host = dev->base.host,
                             .api = ocl_table(),
                             .dev = dev,
                             .target = &dev->target,
                             .device = dev->label,
                             .software = dev->props->is_cpu,
                             .timed = true,
                             .lock = &dev->tuning,
                             .identity = dev->identity,
                             .time = ocl_time_program};
    return ocl_queue_open(dev);
}

clv_status ocl_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out)
{
    CLV_TRY(look(inst));
    if (index >= inst->n_devices)
        return clv_fail(inst->host, CLV_ERR_NOT_FOUND,
                        "opencl: device %u of %u", (unsigned)index,
                        (unsigned)inst->n_devices);
    clv_plugin_device *dev = clv_new(inst->host, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    dev->base.host = inst->host;
    dev->inst = inst;
    dev->cl = inst->cl;
    dev->props = &inst->devices[index];
    snprintf(dev->label, sizeof dev->label, "opencl:%s", dev->props->info.id);
    ocl_identify(dev);
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->cache.lock, NULL);
    pthread_mutex_init(&dev->tuning, NULL);
    clv_status status = start(dev);
    if (status) {
        free_objects(dev);
        return status;
    }
    status = gpu_try(&dev->tuner, dev->disabled, sizeof dev->disabled);
    if (status)
        ocl_device_close(dev);
    else
        *out = dev;
    return status;
}

void ocl_device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    ocl_queue_close(dev);
    free_objects(dev);
}

/* --- the clock ------------------------------------------------------------ */

/* When a command ended that did nothing: on the device, and about when here. */
static cl_int read_clock(clv_plugin_device *dev, clv_calibration *out)
{
    const clv_host_api *host = dev->base.host;
    const cl_uint zero = 0;
    cl_event event;
    cl_ulong end = 0;
    uint64_t before = host->now_ns(host->host);
    cl_int error = dev->cl->EnqueueFillBuffer(dev->side, dev->tick, &zero, 4, 0,
                                              4, 0, NULL, &event);
    if (error)
        return error;
    error = dev->cl->WaitForEvents(1, &event);
    uint64_t after = host->now_ns(host->host);
    if (!error)
        error = dev->cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END,
                                               sizeof end, &end, NULL);
    dev->cl->ReleaseEvent(event);
    out->device_tick = end;
    out->host_ns = before + (after - before) / 2;
    out->max_error_ns = (after - before) / 2 + 1;
    return error;
}

clv_status ocl_calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    enum { TRIES = 5 };
    clv_calibration best = {.max_error_ns = UINT64_MAX}, one = best;
    CLV_TRY(clv_queue_usable(dev));
    for (int i = 0; i < TRIES; i++) {
        cl_int error = read_clock(dev, &one);
        if (error)
            return ocl_noticed(dev, ocl_fail(dev->base.host, error,
                                             "%s: its clock", dev->label));
        if (one.max_error_ns < best.max_error_ns)
            best = one;
    }
    best.tick_ns = 1;
    clv_write(out, &best, sizeof best);
    return CLV_OK;
}
