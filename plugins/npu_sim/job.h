/* A submit in flight, and the threads that compute results. */
#pragma once

#include "program.h"
#include "timeline.h"

#include <cleave/plugin_submit.h>

struct npu_job {
    clv_plugin_device *dev;
    npu_queue *queue;
    npu_job *next;        /* in the queue, or among the dead */
    npu_job *traced_next; /* among those with records to be read */
    npu_sim_job sim;
    clv_queue_job *copy; /* holds the submit and what it points to */
    const clv_command *commands;
    clv_timeline_point *waits;
    const clv_timeline_point *signals;
    npu_sim_point *sim_waits, *sim_signals;
    npu_phase *phases;
    uint32_t n_commands, n_waits, n_signals, n_phases;
    uint32_t refs;      /* the thread, the simulation, the trace */
    uint32_t read;      /* records of it that were read */
    uint32_t described; /* phases of commands whose records were */
    uint64_t correlation;
    bool ran; /* its results are there already */
};

clv_status npu_submit(clv_plugin_device *dev, const clv_submit *submit);
clv_status npu_trace_read(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride);

/* Not under the lock; NULL is legal. References to timelines are gone. */
void npu_job_free(npu_job *job);
/* With the lock held: drops a reference; what is done when a job has ended. */
void npu_job_drop(npu_job *job);
void npu_job_done(void *ctx, npu_sim_job *sim);
/* With the lock held: the timelines that it would signal fail. */
void npu_job_fail(const npu_job *job, clv_status status, const char *message);

/* With the lock held, which it gives up meanwhile: computes the job's results
 * as soon as what it waits for is there, so that its phases take the time of
 * the experts that are chosen. Does nothing where nobody works on that. */
void npu_job_see(npu_job *job);

clv_status npu_workers_start(clv_plugin_device *dev);
/* Ends the threads; jobs that they had not run fail. */
void npu_workers_stop(clv_plugin_device *dev);
/* With the lock held: no thread of the device has a job. */
bool npu_workers_done(const clv_plugin_device *dev);
/* With the lock held: whether one of them computes. */
bool npu_workers_compute(const clv_plugin_device *dev);
/* With the lock held: whether some thread of the instance will go on by itself,
 * and whether all that do only wait for other plugins' work. */
bool npu_work_pending(const clv_plugin_instance *inst, bool *foreign);
