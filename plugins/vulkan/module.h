/* Kernels as modules of PTX, by VK_NVX_binary_import. */
#pragma once

#include "device.h"
#include "kernels.h"

typedef struct vk_module {
    VkCuModuleNVX module;
    VkCuFunctionNVX function; /* NULL: it is none */
    uint32_t local[3];        /* work items of a group */
} vk_module;

/* Of the kernel's text and name. From any thread. After a failure there is
 * nothing to destroy. */
clv_status vk_module_make(clv_plugin_device *dev, const char *name,
                          const char *source, const uint32_t local[3],
                          vk_module *out);
void vk_module_destroy(clv_plugin_device *dev, vk_module *module);

/* What a launch says: arguments by the addresses of their first bytes. */
typedef struct vk_launch {
    uint32_t n_args, n_params, groups[3];
    uint64_t args[GPU_MAX_ARGS];
    int32_t params[GPU_MAX_PARAMS];
} vk_launch;
void vk_module_launch(const clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_module *module, const vk_launch *launch);
