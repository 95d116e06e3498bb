/* Simulated times of jobs that ended: a record for each op, then one for the
 * command. */
#include "check.h"
#include "job.h"

#include <stdio.h>
#include <string.h>

#define MAX_TRACED                                                             \
    65536u /* jobs whose records nobody reads; then the newest                 \
              are lost */

void npu_job_done(void *ctx, npu_sim_job *sim)
{
    clv_plugin_device *dev = ctx;
    npu_job *job = sim->owner;
    job->queue->n_jobs--;
    if (job->correlation && sim->ended && dev->n_traced < MAX_TRACED) {
        npu_job **tail =
            dev->traced ? &dev->last_traced->traced_next : &dev->traced;
        job->traced_next = NULL;
        *tail = job;
        dev->last_traced = job;
        dev->n_traced++;
        job->refs++;
    }
    npu_job_drop(job);
}

static void describe_node(const npu_job *job, uint32_t i, clv_trace_record *r)
{
    const npu_phase *p = &job->phases[i];
    r->begin = p->begin;
    r->end = p->end;
    r->node = p->node;
    r->command = p->command;
    snprintf(r->name, sizeof r->name, "%s", clv_op_name(p->op));
}

/* The next one: phases are in the order of their commands, of which each has
 * some. */
static void describe_command(npu_job *job, clv_trace_record *r)
{
    const npu_phase *first = &job->phases[job->described];
    const uint32_t index = first->command;
    while (job->described < job->n_phases &&
           job->phases[job->described].command == index)
        r->end = job->phases[job->described++].end;
    r->begin = first->begin;
    r->node = CLV_NO_TENSOR;
    r->command = index;
    snprintf(r->name, sizeof r->name, "%s",
             clv_command_name(job->commands[index].kind));
}

/* The job's next record; false if there is none. */
static bool next_record(npu_job *job, clv_trace_record *r)
{
    while (job->read < job->n_phases &&
           job->phases[job->read].node == CLV_NO_TENSOR)
        job->read++;
    if (job->read >= job->n_phases + job->n_commands)
        return false;
    memset(r, 0, sizeof *r);
    r->correlation = job->correlation;
    if (job->read < job->n_phases)
        describe_node(job, job->read, r);
    else
        describe_command(job, r);
    job->read++;
    return true;
}

clv_status npu_trace_read(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride)
{
    uint32_t n = 0;
    CLV_TRY(npu_check_device(dev));
    npu_lock(dev->inst);
    npu_sim_catch_up(&dev->inst->sim);
    while (n < *count && dev->traced) {
        npu_job *job = dev->traced;
        clv_trace_record r;
        if (next_record(job, &r)) {
            clv_write(clv_at(out, n++, stride), &r, sizeof r);
            continue;
        }
        dev->traced = job->traced_next;
        dev->n_traced--;
        npu_job_drop(job);
    }
    npu_unlock(dev->inst);
    *count = n;
    return CLV_OK;
}
