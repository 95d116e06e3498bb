/*
 * Submits. For each queue one thread, the feeder, waits for what a submit waits
 * for and hands its commands to the driver; another, the finisher, waits for
 * the driver and signals. Between them are flights in their order, so that the
 * device has work while the host looks. After the last flight the finisher
 * polls a little for the next submit, and hands it over itself.
 *
 * A wait for a point that a flight ahead signals needs no waiting by the host:
 * the driver's queue keeps the order, and semaphores order two queues. Nor does
 * one for another device, where the device waits itself (device_wait.h). Such
 * flights come to the driver as one submit, several at a time, while it has
 * others: a submit of its own takes the GPU as long as some kernels. What is
 * held back so goes to the driver before the feeder waits for anything.
 */
#pragma once

#include "commands.h"

#define VK_FLIGHTS 16u
#define VK_TOGETHER 8u /* flights of a driver's submit, at most */

/* A submit between the threads. */
typedef struct vk_flight {
    vk_work *work;
    clv_queue_job *job;
    clv_status status; /* of what was before it reached the driver */
    char message[CLV_MESSAGE_SIZE];
    vk_point after; /* of the other queue, which comes first; value 0: none */
    struct vk_flight *lead; /* the first one of the driver's submit, whose
                               command buffers it is in */
    uint64_t value;  /* of the semaphore once it has ended; 0: the driver does
                        not get it */
    bool submitted;  /* the driver has it */
    bool alone;      /* it is all of the submit */
    uint64_t begin;  /* when the driver was given it, ns */
    uint64_t run_ns; /* that the submit takes at least; 0: not known */
    VkCommandPool pool;
    VkCommandBuffer *loose; /* [n_loose] of the pool */
    VkCommandBuffer *list;  /* [n_list] to submit, in order */
    uint32_t n_loose, used_loose, n_list, room;
    bool open;        /* the last loose one is being recorded */
    VkResult broken;  /* one could not be ended: none is submitted */
    bool waits;       /* it could wait for other devices by itself */
    uint32_t signals; /* that they wait for: bits */
    VkQueryPool queries;
    uint32_t n_queries;    /* in the pool */
    uint32_t n_stamps;     /* of them in use: two a command, then those of the
                              programs' kernels; or none */
    uint32_t kernel_stamp; /* the next one of a program */
} vk_flight;

struct vk_work {
    clv_plugin_device *dev;
    uint32_t index; /* clv_submit.queue */
    pthread_t finisher;
    bool finishes; /* it runs */
    VkSemaphore semaphore;
    uint64_t value; /* last one submitted */
    vk_flight flights[VK_FLIGHTS];
    uint64_t fed, submitted, finished; /* flights so far */
    uint64_t end;                      /* when the latest one ended, ns */
    bool ended;                        /* the feeder has */
    struct vk_block *scratch;
};

/* Makes what is in dev->work and starts the threads. After a failure, too, it
 * is to be stopped. */
clv_status vk_work_start(clv_plugin_device *dev);
/* Cancels what has not begun, waits for what has. */
void vk_work_stop(clv_plugin_device *dev);

/* Slots. */
extern const clv_queue_fns vk_queue_fns; /* their ctx is the device */
clv_status vk_submit(clv_plugin_device *dev, const clv_submit *submit);
