/* Programs: kernels for the ops of a subgraph, and what they are run with. */
#pragma once

#include "launch.h"
#include "queue.h"

#include <cleave/plugin_program.h>
#include <privates.h>

struct clv_plugin_program {
    clv_program_base base;
    clv_plugin_device *dev;
    gpu_code *code;
    cl_program *programs;  /* [code->n_kernels] the device's */
    ocl_launch *launches;  /* [code->n_dispatches] */
    gpu_privates privates; /* of ocl_private */
    ocl_place *places;     /* [base.n_tensors] in the run that is enqueued */
    uint64_t compile_ns;
};

clv_status ocl_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride);
clv_status ocl_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out);
clv_status ocl_program_info(clv_plugin_program *prog, clv_program_info *out);
void ocl_program_destroy(clv_plugin_program *prog);

/* Enqueues a RUN that was checked, on the queue's thread; a failure is told in
 * job->message. */
clv_status ocl_program_enqueue(clv_plugin_program *prog, cl_command_queue queue,
                               ocl_job *job, uint32_t command,
                               const clv_command *c);

/* A dispatch; job NULL: none. */
cl_int ocl_program_dispatch(const clv_plugin_program *prog,
                            cl_command_queue queue, ocl_launch *launch,
                            const gpu_dispatch *d, const int64_t *symbols,
                            ocl_job *job, uint32_t command);

/* privates.c */
extern const gpu_privates_plugin ocl_privates;
