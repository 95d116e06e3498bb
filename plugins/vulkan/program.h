/* Programs: code lowered from a graph, as pipelines, and its recordings. */
#pragma once

#include "device.h"

clv_status vk_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                      clv_op_caps *out, uint32_t stride);
clv_status vk_program_compile(clv_plugin_device *dev, const clv_compile *compile,
                              clv_plugin_program **out);
clv_status vk_program_info(clv_plugin_program *prog, clv_program_info *out);
void vk_program_destroy(clv_plugin_program *prog);

/* Whether a RUN command keeps to what was compiled. */
clv_status vk_program_check(const clv_command *command);

/* The command buffer that runs the program as the command says; it ends with a
 * barrier. value: of the semaphore when the run has ended. On the feeder's
 * thread. */
clv_status vk_program_commands(const clv_command *command, uint64_t value,
                               VkCommandBuffer *out,
                               char message[CLV_MESSAGE_SIZE]);
