/* Kernels as pipelines, or modules of PTX, shared by the programs of a device.
 */
#pragma once

#include "device.h"
#include "module.h"
#include "kernels.h"

typedef struct vk_kernel {
    struct vk_kernel *next;
    uint32_t refs;
    char *source;
    uint32_t n_args, n_ints; /* bindings, and push constants */
    uint8_t storage[GPU_MAX_ARGS];
    bool written[GPU_MAX_ARGS];
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    vk_module module; /* instead, where dev->imports */
} vk_kernel;

/* So many that no program uses stay for the next one. Drivers take long to make
 * a pipeline, even from their caches. */
#define VK_IDLE_KERNELS 64

/* Finds or makes it. */
clv_status vk_kernel_get(clv_plugin_device *dev, const gpu_kernel *code,
                         vk_kernel **out);
/* NULL is legal. */
void vk_kernel_put(clv_plugin_device *dev, vk_kernel *kernel);
/* Frees those that stayed. */
void vk_kernels_close(clv_plugin_device *dev);

/* The driver's cache of pipelines, in the host's cache between runs. */
void vk_pipelines_open(clv_plugin_device *dev);
void vk_pipelines_close(clv_plugin_device *dev);
