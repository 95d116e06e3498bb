/*
 * Submits. A queue's thread waits for what a submit waits for, then enqueues
 * all of it without waiting for the device, so that the next one is there when
 * the device gets to it. A second thread waits for the device and signals.
 * After the last submit it polls a little for the next one, and enqueues it.
 *
 * What was enqueued before, in either queue, is not waited for by the host: the
 * driver's queue keeps the order, and events order two queues.
 */
#pragma once

#include "device.h"

/* An enqueued command whose time is recorded. */
typedef struct ocl_span {
    cl_event event;
    uint64_t begin, end;
    uint32_t command, node;
    char name[48];
} ocl_span;

/* What the device knows of a submit, in one block with it. */
struct ocl_job {
    clv_queue_job *job;
    ocl_job *next;
    cl_command_queue queue; /* where it was enqueued; NULL: it was not */
    cl_event last;   /* the end of what was enqueued; NULL: nothing was */
    bool uploads;    /* it counts in n_uploads */
    cl_event *after; /* [n_after] of another queue, to be over before */
    uint32_t n_after;
    clv_status status;
    char message[CLV_MESSAGE_SIZE];
    ocl_span *spans; /* NULL: not recorded */
    uint32_t n_spans, max_spans;
};

clv_status ocl_queue_open(clv_plugin_device *dev);
void ocl_queue_close(clv_plugin_device *dev);
clv_status ocl_submit(clv_plugin_device *dev, const clv_submit *submit);

/* Where the event of the next thing enqueued for the job goes; NULL: nowhere.
 * name: of a kernel. */
cl_event *ocl_span_begin(ocl_job *job, uint32_t command, uint32_t node,
                         const char *name);

/* The last command's own event, if it is of the last thing that the job
 * enqueues. A copy's own event ends before a marker after it can: a marker
 * waits for copies of other queues, too, with NVIDIA's driver. */
void ocl_end_with(clv_plugin_device *dev, ocl_job *job, cl_event event);

/* Of spans whose events have ended. */
void ocl_read_times(clv_plugin_device *dev, ocl_job *job);

/* Whether a command copies from the host's memory to the device's. */
bool ocl_is_upload(const clv_command *c);

/* A COPY or FILL that was checked, of command i. */
cl_int ocl_copy(ocl_queue *queue, ocl_job *job, uint32_t i,
                const clv_command *c);
cl_int ocl_fill(clv_plugin_device *dev, ocl_job *job, uint32_t i,
                const clv_command *c);
