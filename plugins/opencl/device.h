/* Instance and devices. */
#pragma once

#include "find.h"

#include <cleave/plugin_queue.h>
#include <buffers.h>
#include <privates.h>
#include <tune/tune.h>

#include <pthread.h>

#define OCL_QUEUE_DEPTH 256
#define OCL_MAX_QUEUES 2
#define OCL_MAX_PIECES 16

typedef struct ocl_job ocl_job;       /* queue.h */
typedef struct ocl_source ocl_source; /* source.h */

/* An enqueued piece of a copy. */
typedef struct ocl_under_way {
    cl_event event;
    uint64_t size;
} ocl_under_way;

/* One of the device's queues: the driver's, in order, of submits that are not
 * recorded and of those that are, and what the threads of queue.c share. */
typedef struct ocl_queue {
    clv_plugin_device *dev;
    cl_command_queue plain, timed;
    cl_command_queue now; /* the one of both that works; who enqueues has it */
    cl_mem scratch;       /* for moves within pinned memory, or NULL */
    ocl_under_way pieces[OCL_MAX_PIECES]; /* in order; who enqueues has them */
    uint32_t n_pieces;
    uint64_t pieces_bytes; /* of them all */
    bool completes;
    pthread_t completer; /* waits for what flies, and signals */
    /* By the lock of dev->base.queue: */
    ocl_job *flying, *last_flying; /* enqueued, or failed, in order */
    bool no_more;                  /* the first thread has ended */
} ocl_queue;

struct clv_plugin_instance {
    const clv_host_api *host;
    const ocl_api *cl;       /* NULL: not asked yet, or there is no loader */
    ocl_properties *devices; /* NULL: not looked for yet */
    uint32_t n_devices;
};

/* How the driver's waits for events use the core; atomic. */
typedef struct ocl_waits {
    uint64_t ns;     /* how long they took, all together */
    uint64_t cpu_ns; /* how much of it the waiting threads computed */
} ocl_waits;

struct clv_plugin_device {
    clv_device_base base; /* host, and the queues with their threads */
    clv_plugin_instance *inst;
    const ocl_api *cl;
    const ocl_properties *props;
    char label[80];     /* for people */
    char identity[768]; /* plugin, driver, device and options, in the cache */
    cl_context context;
    ocl_queue queues[OCL_MAX_QUEUES]; /* [1 + copy_queues] clv_submit.queue */
    ocl_waits waits;
    uint32_t n_uploads; /* jobs of queue 0 that copy to the device and are under
                           way; atomic */
    cl_command_queue side; /* of what the host does beside them: compiling,
                              flushing, the clock */
    cl_mem tick;           /* 4 bytes, for the clock */
    gpu_target target;
    gpu_tuner tuner;
    bool zero_copy;       /* the host's memory is the device's */
    char disabled[512];   /* kernel variants that are not used */
    pthread_mutex_t lock; /* of sources, and of buffers' views */
    ocl_source *sources;
    uint64_t n_buffers; /* made so far; atomic */
    gpu_cache cache;    /* repacked weights */
    gpu_budget budget;
    pthread_mutex_t tuning; /* one graph at a time, so that times are right */
};

clv_status ocl_create(const clv_host_api *host, clv_plugin_instance **out);
clv_status ocl_quiesce(clv_plugin_instance *inst);
void ocl_destroy(clv_plugin_instance *inst);
clv_status ocl_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride);
clv_status ocl_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out);
void ocl_device_close(clv_plugin_device *dev);

/* Notes the loss of the device, if that is what the status says. Returns it. */
clv_status ocl_noticed(clv_plugin_device *dev, clv_status status);

const clv_plugin_api *ocl_table(void);

clv_status ocl_calibrate(clv_plugin_device *dev, clv_calibration *out);

/* caps.c: fills dev->target. */
clv_status ocl_target(clv_plugin_device *dev);
