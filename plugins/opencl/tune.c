#include "tune.h"
#include "memory.h"

#include <string.h>

/* From the begin of the first dispatch to the end of the last. */
static uint64_t span_of(const ocl_job *job)
{
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t i = 0; i < job->n_spans; i++) {
        const ocl_span *span = &job->spans[i];
        begin = span->begin < begin ? span->begin : begin;
        end = span->end > end ? span->end : end;
    }
    return end > begin ? end - begin : 1;
}

/* All of it on the side queue, which nothing else uses meanwhile. */
static clv_status run(clv_plugin_device *dev, ocl_job *job,
                      const clv_command *c, clv_plugin_buffer *sweep)
{
    const ocl_api *cl = dev->cl;
    const cl_uint zero = 0;
    cl_int error = CL_SUCCESS;
    if (sweep)
        error = cl->EnqueueFillBuffer(dev->side, ocl_buffer_of(sweep)->mem,
                                      &zero, sizeof zero, 0,
                                      sweep->size / 4 * 4, 0, NULL, NULL);
    clv_status status =
        error ? ocl_status(error)
              : ocl_program_enqueue(c->program, dev->side, job, 0, c);
    error = cl->Finish(dev->side);
    ocl_read_times(dev, job);
    if (error && !status)
        status = ocl_status(error);
    return ocl_noticed(dev, status);
}

clv_status ocl_time_program(clv_plugin_device *dev, clv_plugin_program *program,
                            const clv_binding *bindings, uint32_t n,
                            clv_plugin_buffer *sweep, uint64_t *ns)
{
    const clv_host_api *host = dev->base.host;
    ocl_job job = {.max_spans = program->code->n_dispatches};
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    c.kind = CLV_COMMAND_RUN;
    c.program = program;
    c.bindings = bindings;
    c.n_bindings = n;
    CLV_TRY(clv_program_check(&c));
    job.spans =
        clv_new(host, (job.max_spans + 1) * (uint64_t)sizeof *job.spans);
    if (!job.spans)
        return CLV_ERR_NO_MEMORY;
    clv_status status = run(dev, &job, &c, sweep);
    *ns = span_of(&job);
    clv_free(host, job.spans);
    return status;
}
