/* Programs: kernels for the ops of a subgraph, and what they are run with. */
#pragma once

#include "queue.h"

#include <kernels.h>

void ocl_target(const clv_plugin_device *dev, gpu_target *out);
clv_status ocl_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride);
clv_status ocl_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out);
clv_status ocl_program_info(clv_plugin_program *prog, clv_program_info *out);
void ocl_program_destroy(clv_plugin_program *prog);

/* Whether a RUN keeps to what was compiled. */
clv_status ocl_program_check(const clv_command *c);
/* That a run enqueues, at the most. */
uint32_t ocl_program_dispatches(const clv_plugin_program *prog);

/* Enqueues a RUN that was checked, on the queue's thread; a failure is told in
 * job->message. */
clv_status ocl_program_enqueue(clv_plugin_program *prog, cl_command_queue queue,
                               ocl_job *job, uint32_t command,
                               const clv_command *c);
