/* Times of programs, for tuning. */
#pragma once

#include "program.h"

clv_status vk_time_program(clv_plugin_device *dev, clv_plugin_program *prog,
                           const clv_binding *bindings, uint32_t n,
                           clv_plugin_buffer *sweep, uint64_t *ns);
