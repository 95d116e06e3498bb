/* An open device. */
#pragma once

#include <cleave/plugin_queue.h>

#include "instance.h"
#include <buffers.h>
#include <privates.h>
#include <tune/tune.h>

#include "memory_types.h"

#define VK_MAX_QUEUES 2

typedef struct vk_block vk_block;
typedef struct vk_work vk_work;

/* The driver's queue behind one of ours. */
typedef struct vk_queue {
    VkQueue handle;
    pthread_mutex_t *lock; /* of vkQueueSubmit */
    uint32_t family, timestamp_bits;
} vk_queue;

struct clv_plugin_device {
    clv_device_base base; /* the host, and the queues */
    clv_plugin_instance *inst;
    const vk_physical *phys;
    char label[80];     /* for people */
    char identity[384]; /* plugin, driver and device, in the cache */
    VkDevice device;
    vk_device_api api;
    vk_queue queues[VK_MAX_QUEUES]; /* [1 + copy_queues] clv_submit.queue */
    pthread_mutex_t queue_locks[VK_MAX_QUEUES];
    vk_memory_types types;
    pthread_mutex_t memory_lock;
    vk_block *blocks;
    vk_work *work[VK_MAX_QUEUES];
    struct vk_trace *trace;
    gpu_target target;
    gpu_tuner tuner;
    pthread_mutex_t kernels_lock;
    struct vk_kernel *kernels;
    uint32_t n_idle;        /* of the kernels */
    gpu_cache cache;        /* repacked weights */
    gpu_budget budget;      /* of memory that is the device's */
    pthread_mutex_t tuning; /* one graph at a time, so that times are right */
    uint64_t max_range;     /* bytes of a binding */
    bool pushes;            /* descriptors into command buffers */
    bool addresses;         /* buffers have them, and modules can be made */
    bool imports;           /* kernels are modules of PTX, not pipelines */
    struct vk_device_wait *device_wait; /* NULL: the host waits for others */
    pthread_mutex_t compiler_lock;
    struct vk_compiler *compiler; /* of those; NULL: not opened yet */
    VkPipelineCache pipelines;
    size_t pipelines_size; /* bytes it began with */
    atomic_bool built;     /* a kernel, so that it may have grown */
    char disabled[512];    /* variants of kernels that are not used */
};

clv_status vk_device_open(clv_plugin_instance *inst, uint32_t index,
                          clv_plugin_device **out);
void vk_device_close(clv_plugin_device *dev);

const clv_plugin_api *vk_table(void);

/* Says that the call fails, by the driver's answer; notes the loss of the
 * device. Not with the queue's lock held. */
clv_status vk_fail(clv_plugin_device *dev, VkResult result, const char *call);
/* The same to message. */
clv_status vk_explain(clv_plugin_device *dev, VkResult result, const char *call,
                      char message[CLV_MESSAGE_SIZE]);
