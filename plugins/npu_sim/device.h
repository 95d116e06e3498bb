/*
 * Instance and devices.
 *
 * Work has two sides. A thread for each queue computes results as fast as it
 * can and writes the timelines' flag words; nothing there depends on simulated
 * time. The simulation (sim.h) computes when all of that would have happened on
 * the chip. It advances when the host calls, and in a wait. So a program of one
 * thread sees the same nanoseconds every time, however long computing took.
 *
 * With clock = real the simulation follows the host's clock, a thread paces it,
 * and a timeline reaches a value when both sides have.
 *
 * One lock guards all of an instance's state. Nothing calls the host while it
 * is held: what is to be freed is listed until npu_unlock() frees it.
 */
#pragma once

#include "settings.h"
#include "sim.h"

#include <pthread.h>

typedef struct npu_job npu_job;

struct clv_plugin_instance {
    const clv_host_api *host;
    npu_config config;
    pthread_mutex_t mutex;  /* of all below, and of parts of the devices */
    pthread_cond_t changed; /* jobs, timelines, devices, time */
    npu_sim sim;
    uint64_t epoch_ns;          /* of the real clock */
    uint64_t allocated;         /* bytes of buffers and programs */
    clv_plugin_device *devices; /* open ones */
    clv_plugin_timeline *timelines;
    npu_job *dead_jobs; /* to be freed once unlocked */
    clv_plugin_timeline *dead_timelines;
    bool has_pacer, stop_pacer;
    pthread_t pacer;
};

/* What a queue's thread does. */
typedef enum npu_activity {
    NPU_IDLE,    /* or waits for work of this instance */
    NPU_FOREIGN, /* waits for another plugin's work */
    NPU_WORKING,
} npu_activity;

/* Submits of one queue, in order. By the instance's lock. */
typedef struct npu_queue {
    clv_plugin_device *dev;
    pthread_t thread;
    bool has_thread;
    pthread_cond_t filled; /* the thread has a job, or is to stop: one that has
                              none sleeps through all other changes */
    npu_sim_device sim;
    npu_activity activity;
    npu_job *first, *last; /* of the thread; the first may be running */
    uint32_t n_jobs;
} npu_queue;

#define NPU_MAX_GRAPHS 256

struct clv_plugin_device {
    clv_device_base base; /* the host */
    clv_plugin_instance *inst;
    const npu_settings *settings;
    clv_plugin_device *next;
    uint32_t n_queues; /* 1, and one for each copy queue */
    npu_queue queues[1 + NPU_MAX_COPY_QUEUES];
    /* Protected by the instance's lock: */
    bool lost, hung, stop;
    bool ending;                   /* it is about to be lost: no work begins */
    npu_job *traced, *last_traced; /* ended, with records to be read */
    uint32_t n_traced, n_programs;
    uint64_t allocated; /* bytes of its own memory */
    uint64_t n_submits;
    uint64_t graphs[NPU_MAX_GRAPHS]; /* hashes of those compiled */
    uint32_t n_graphs;
};

clv_status npu_create(const clv_host_api *host, clv_plugin_instance **out);
clv_status npu_quiesce(clv_plugin_instance *inst);
void npu_destroy(clv_plugin_instance *inst);
clv_status npu_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride);
clv_status npu_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out);
void npu_device_close(clv_plugin_device *dev);
clv_status npu_fault_inject(clv_plugin_device *dev, uint32_t fault);
clv_status npu_calibrate(clv_plugin_device *dev, clv_calibration *out);
/* DEVICE_LOST with a message once it is lost. */
clv_status npu_check_device(clv_plugin_device *dev);

/* Takes the lock; with clock = real the simulation comes up to date. */
void npu_lock(clv_plugin_instance *inst);
void npu_unlock(clv_plugin_instance *inst);
/* Blocks until something changed, or until that time of CLOCK_MONOTONIC;
 * UINT64_MAX: for ever. The lock is held before and after. */
void npu_await_change(clv_plugin_instance *inst, uint64_t until_ns);
uint64_t npu_real_ns(void);

/* Counts memory, the device's own or the chip's; NO_MEMORY if it would be more
 * than there is. */
clv_status npu_take_memory(clv_plugin_device *dev, bool own, uint64_t size,
                           const char *what);
void npu_give_memory(clv_plugin_device *dev, bool own, uint64_t size);
