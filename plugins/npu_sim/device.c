#include "device.h"
#include "job.h"
#include "npu_sim_build_id.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PACER_IDLE_NS 1000000000u

uint64_t npu_real_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* With clock = real the simulation advances to the present time. */
static void follow_clock(clv_plugin_instance *inst)
{
    if (!inst->config.is_real)
        return;
    uint64_t now = npu_real_ns() - inst->epoch_ns;
    if (now > inst->sim.host)
        inst->sim.host = now;
    npu_sim_catch_up(&inst->sim);
    npu_timelines_publish(inst);
}

void npu_lock(clv_plugin_instance *inst)
{
    pthread_mutex_lock(&inst->mutex);
    follow_clock(inst);
}

void npu_unlock(clv_plugin_instance *inst)
{
    const clv_host_api *host = inst->host;
    npu_job *jobs = inst->dead_jobs;
    clv_plugin_timeline *timelines = inst->dead_timelines;
    inst->dead_jobs = NULL;
    inst->dead_timelines = NULL;
    pthread_mutex_unlock(&inst->mutex);
    while (jobs) {
        npu_job *next = jobs->next;
        npu_job_free(jobs);
        jobs = next;
    }
    while (timelines) {
        clv_plugin_timeline *next = timelines->next;
        clv_free(host, timelines);
        timelines = next;
    }
}

void npu_await_change(clv_plugin_instance *inst, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(&inst->changed, &inst->mutex);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};
    pthread_cond_timedwait(&inst->changed, &inst->mutex, &until);
}

/* The pacing thread: sleeps from one event to the next. */
static void *pace(void *ctx)
{
    clv_plugin_instance *inst = ctx;
    npu_lock(inst);
    while (!inst->stop_pacer) {
        uint64_t next = npu_sim_next(&inst->sim);
        uint64_t until = next == NPU_NEVER ? npu_real_ns() + PACER_IDLE_NS
                                           : inst->epoch_ns + next;
        npu_await_change(inst, until);
        npu_unlock(inst);
        npu_lock(inst);
    }
    npu_unlock(inst);
    return NULL;
}

static clv_status start_pacer(clv_plugin_instance *inst)
{
    inst->epoch_ns = npu_real_ns();
    if (!inst->config.is_real)
        return CLV_OK;
    int error = pthread_create(&inst->pacer, NULL, pace, inst);
    if (error)
        return clv_fail(inst->host, CLV_ERR_LIMIT,
                        "npu_sim: no thread for the clock: %s",
                        strerror(error));
    inst->has_pacer = true;
    return CLV_OK;
}

static void stop_pacer(clv_plugin_instance *inst)
{
    if (!inst->has_pacer)
        return;
    npu_lock(inst);
    inst->stop_pacer = true;
    pthread_cond_broadcast(&inst->changed);
    npu_unlock(inst);
    pthread_join(inst->pacer, NULL);
    inst->has_pacer = false;
}

clv_status npu_create(const clv_host_api *host, clv_plugin_instance **out)
{
    CLV_TRY(clv_check_chain(host, host));
    clv_plugin_instance *inst = clv_new(host, sizeof *inst);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    pthread_mutex_init(&inst->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&inst->changed, &attr);
    pthread_condattr_destroy(&attr);
    clv_status status = npu_config_read(host, &inst->config);
    inst->sim.bandwidth = (uint64_t)inst->config.bandwidth;
    if (!status)
        status = start_pacer(inst);
    if (status)
        npu_destroy(inst);
    else
        *out = inst;
    return status;
}

clv_status npu_quiesce(clv_plugin_instance *inst)
{
    for (clv_plugin_device *dev = inst->devices; dev; dev = dev->next)
        npu_workers_stop(dev);
    stop_pacer(inst);
    return CLV_OK;
}

void npu_destroy(clv_plugin_instance *inst)
{
    if (!inst)
        return;
    while (inst->devices)
        npu_device_close(inst->devices);
    stop_pacer(inst);
    pthread_cond_destroy(&inst->changed);
    pthread_mutex_destroy(&inst->mutex);
    clv_free(inst->host, inst);
}

/* ------------------------------------------------------------------------ */

static void describe(const npu_config *config, const npu_settings *s,
                     clv_device_info *info)
{
    snprintf(info->id, sizeof info->id, "%s", s->name);
    snprintf(info->name, sizeof info->name, "%s (simulated)",
             s->title[0] ? s->title : s->name);
    snprintf(info->driver, sizeof info->driver, "npu_sim %s %016" PRIx64,
             NPU_VERSION, s->hash);
    info->kind = s->kind;
    info->flags =
        CLV_DEVICE_FLAG_STORE | CLV_DEVICE_SOFTWARE | CLV_DEVICE_COPIES_ROWS;
    if (s->flag_wait)
        info->flags |= CLV_DEVICE_FLAG_WAIT;
    if (s->is_static)
        info->flags |= CLV_DEVICE_STATIC_SHAPES;
    info->clock = config->is_real ? CLV_CLOCK_REAL : CLV_CLOCK_VIRTUAL;
    info->n_mem_types = s->memory_size ? 2 : 1;
    info->queue_depth = s->queue_depth;
    info->copy_queues = s->copy_queues;
    info->max_programs = s->max_programs;
    info->memory_size = s->memory_size ? s->memory_size : config->memory_size;
    info->program_size = s->window;
    info->address_size = s->address_space;
    info->units = s->model == NPU_SYSTOLIC ? s->arrays[NPU_I8].arrays : 1;
}

clv_status npu_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride)
{
    const npu_config *config = &inst->config;
    npu_lock(inst);
    uint64_t free_bytes = config->memory_size - inst->allocated;
    npu_unlock(inst);
    for (uint32_t i = 0; i < config->n_devices && i < *count; i++) {
        clv_device_info info;
        memset(&info, 0, sizeof info);
        describe(config, &config->devices[i], &info);
        info.memory_free = config->devices[i].memory_size ? info.memory_size
                           : config->memory_size          ? free_bytes
                                                          : 0;
        clv_write(clv_at(out, i, stride), &info, sizeof info);
    }
    *count = config->n_devices;
    return CLV_OK;
}

clv_status npu_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out)
{
    const clv_host_api *host = inst->host;
    if (index >= inst->config.n_devices)
        return clv_fail(host, CLV_ERR_NOT_FOUND,
                        "npu_sim: there is no device %" PRIu32 ", only "
                        "%" PRIu32,
                        index, inst->config.n_devices);
    clv_plugin_device *dev = clv_new(host, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    dev->base.host = host;
    dev->inst = inst;
    dev->settings = &inst->config.devices[index];
    dev->n_queues = 1 + dev->settings->copy_queues;
    npu_lock(inst);
    dev->next = inst->devices;
    inst->devices = dev;
    for (uint32_t i = 0; i < dev->n_queues; i++) {
        npu_queue *queue = &dev->queues[i];
        queue->dev = dev;
        pthread_cond_init(&queue->filled, NULL);
        queue->sim.whole = i ? &dev->queues[0].sim : NULL;
        queue->sim.done = npu_job_done;
        queue->sim.ctx = dev;
        npu_sim_add(&inst->sim, &queue->sim);
    }
    npu_unlock(inst);
    clv_status status = npu_workers_start(dev);
    if (status)
        npu_device_close(dev);
    else
        *out = dev;
    return status;
}

void npu_device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    clv_plugin_instance *inst = dev->inst;
    npu_workers_stop(dev);
    npu_lock(inst);
    for (uint32_t i = 0; i < dev->n_queues; i++) {
        npu_sim_drop(&inst->sim, &dev->queues[i].sim);
        npu_sim_remove(&inst->sim, &dev->queues[i].sim);
        pthread_cond_destroy(&dev->queues[i].filled);
    }
    while (dev->traced) {
        npu_job *job = dev->traced;
        dev->traced = job->traced_next;
        npu_job_drop(job);
    }
    clv_plugin_device **link = &inst->devices;
    while (*link != dev)
        link = &(*link)->next;
    *link = dev->next;
    npu_unlock(inst);
    clv_free(dev->base.host, dev);
}

/* ------------------------------------------------------------------------ */

clv_status npu_check_device(clv_plugin_device *dev)
{
    pthread_mutex_lock(&dev->inst->mutex);
    bool lost = dev->lost;
    pthread_mutex_unlock(&dev->inst->mutex);
    return lost ? clv_fail(dev->base.host, CLV_ERR_DEVICE_LOST,
                           "npu_sim: device '%s' was lost; close it",
                           dev->settings->name)
                : CLV_OK;
}

/* Work fails whose results are there already, too: its time will not come, and
 * whoever waits for it would wait for ever. Jobs are freed with the unlock. The
 * host frees what a lost device was bound to, so work that has begun ends. */
static void lose(clv_plugin_device *dev)
{
    npu_sim *sim = &dev->inst->sim;
    dev->ending = true;
    while (npu_workers_compute(dev))
        npu_await_change(dev->inst, UINT64_MAX);
    dev->lost = true;
    npu_sim_catch_up(sim);
    for (uint32_t i = 0; i < dev->n_queues; i++) {
        const npu_sim_job *job = dev->queues[i].sim.first;
        for (; job; job = job->next)
            npu_job_fail(job->owner, CLV_ERR_DEVICE_LOST,
                         "npu_sim: the device was lost");
    }
    for (uint32_t i = 0; i < dev->n_queues; i++)
        npu_sim_drop(sim, &dev->queues[i].sim);
}

clv_status npu_fault_inject(clv_plugin_device *dev, uint32_t fault)
{
    clv_plugin_instance *inst = dev->inst;
    CLV_TRY(npu_check_device(dev));
    if (fault != CLV_FAULT_LOST && fault != CLV_FAULT_HANG)
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "npu_sim: fault %" PRIu32 " is not known", fault);
    npu_lock(inst);
    if (fault == CLV_FAULT_LOST) {
        lose(dev);
    } else {
        dev->hung = true;
    }
    pthread_cond_broadcast(&inst->changed);
    npu_unlock(inst);
    return CLV_OK;
}

clv_status npu_calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    clv_plugin_instance *inst = dev->inst;
    const npu_settings *s = dev->settings;
    CLV_TRY(npu_check_device(dev));
    clv_calibration c;
    memset(&c, 0, sizeof c);
    npu_lock(inst);
    npu_sim_catch_up(&inst->sim);
    uint64_t busy = npu_sim_busy_ns(&inst->sim, &dev->queues[0].sim);
    c.device_tick = inst->sim.host;
    if (inst->config.is_real) {
        c.host_ns = inst->epoch_ns + inst->sim.host;
        c.max_error_ns = 1000;
    }
    c.tick_ns = 1;
    c.energy_nj = (double)busy * s->busy_watts +
                  (double)(inst->sim.host - busy) * s->idle_watts;
    npu_unlock(inst);
    if (!c.host_ns) /* a virtual clock: the host's time of this moment */
        c.host_ns = dev->base.host->now_ns(dev->base.host->host);
    clv_write(out, &c, sizeof c);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

clv_status npu_take_memory(clv_plugin_device *dev, bool own, uint64_t size,
                           const char *what)
{
    clv_plugin_instance *inst = dev->inst;
    uint64_t limit =
        own ? dev->settings->memory_size : inst->config.memory_size;
    uint64_t *allocated = own ? &dev->allocated : &inst->allocated;
    npu_lock(inst);
    uint64_t left = limit - *allocated;
    bool fits = !limit || size <= left;
    if (fits)
        *allocated += size;
    npu_unlock(inst);
    return fits ? CLV_OK
                : clv_fail(dev->base.host, CLV_ERR_NO_MEMORY,
                           "npu_sim: %s of %" PRIu64 " bytes, %" PRIu64
                           " are left of %s; free some or raise it",
                           what, size, left, own ? "memory" : "memory_size");
}

void npu_give_memory(clv_plugin_device *dev, bool own, uint64_t size)
{
    npu_lock(dev->inst);
    *(own ? &dev->allocated : &dev->inst->allocated) -= size;
    npu_unlock(dev->inst);
}
