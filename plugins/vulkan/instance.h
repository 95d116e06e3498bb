/* An instance: the Vulkan loader, its instance, and the devices found. */
#pragma once

#include "physical.h"

#include <stdatomic.h>

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
};

clv_status vk_create(const clv_host_api *host, clv_plugin_instance **out);
clv_status vk_quiesce(clv_plugin_instance *inst);
void vk_destroy(clv_plugin_instance *inst);
clv_status vk_enumerate(clv_plugin_instance *inst, uint32_t *count,
                        clv_device_info *out, uint32_t stride);

/* CLV_ERR_INTERNAL once the validation layer has complained. */
clv_status vk_validated(clv_plugin_instance *inst);
