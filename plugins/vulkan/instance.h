/* An instance: the Vulkan loader, its instance, and the devices found. */
#pragma once

#include "physical.h"

#include <pthread.h>
#include <stdatomic.h>

/* Of the memory of timelines (timelines.h): pages, each of so many bytes, with
 * so many timelines. */
#define VK_MAX_PAGES 16
#define VK_PAGE_SIZE 65536u
#define VK_PAGE_SLOTS 64u

typedef struct vk_page {
    char *memory;
    bool used[VK_PAGE_SLOTS];
} vk_page;

struct clv_plugin_instance {
    const clv_host_api *host;
    vk_loader loader;
    VkInstance instance; /* NULL: no Vulkan here */
    vk_instance_api api;
    VkDebugUtilsMessengerEXT messenger;
    bool validation;      /* the layer is on */
    atomic_uint messages; /* of it so far */
    uint32_t n_physical;
    vk_physical *physical; /* [n_physical], in the order of their ids */
    pthread_mutex_t timelines_lock; /* of what follows */
    vk_page timelines[VK_MAX_PAGES];
    uint32_t n_timelines; /* atomic */
};

clv_status vk_create(const clv_host_api *host, clv_plugin_instance **out);
clv_status vk_quiesce(clv_plugin_instance *inst);
void vk_destroy(clv_plugin_instance *inst);
clv_status vk_enumerate(clv_plugin_instance *inst, uint32_t *count,
                        clv_device_info *out, uint32_t stride);

/* CLV_ERR_INTERNAL once the validation layer has complained. */
clv_status vk_validated(clv_plugin_instance *inst);
