#include "instance.h"
#include "timelines.h"

#define LAYER "VK_LAYER_KHRONOS_validation"

static VKAPI_ATTR VkBool32 VKAPI_CALL
message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
        VkDebugUtilsMessageTypeFlagsEXT types,
        const VkDebugUtilsMessengerCallbackDataEXT *data, void *ctx)
{
    clv_plugin_instance *inst = ctx;
    (void)severity, (void)types;
    atomic_fetch_add(&inst->messages, 1);
    clv_log(inst->host, CLV_LOG_ERROR, "validation: %s", data->pMessage);
    return VK_FALSE;
}

clv_status vk_validated(clv_plugin_instance *inst)
{
    uint32_t n = atomic_load(&inst->messages);
    if (!n)
        return CLV_OK;
    return clv_fail(inst->host, CLV_ERR_INTERNAL,
                    "Vulkan's validation layer has complained %u times; see "
                    "the log, or set vulkan.validation = off",
                    (unsigned)n);
}

static bool has_layer(const vk_loader *loader)
{
    VkLayerProperties layers[64];
    uint32_t n = 64;
    if (loader->EnumerateInstanceLayerProperties(&n, layers) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(layers[i].layerName, LAYER))
            return true;
    return false;
}

static const VkDebugUtilsMessengerCreateInfoEXT messenger_info = {
    .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
    .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
    .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                   VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
    .pfnUserCallback = message};

static VkResult create_instance(clv_plugin_instance *inst)
{
    VkDebugUtilsMessengerCreateInfoEXT messages = messenger_info;
    messages.pUserData = inst;
    const char *layer = LAYER;
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "Cleave",
                                   .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = inst->validation ? &messages : NULL,
        .pApplicationInfo = &app,
        .enabledLayerCount = inst->validation,
        .ppEnabledLayerNames = &layer,
        .enabledExtensionCount = inst->validation,
        .ppEnabledExtensionNames = &extension};
    VkResult result = inst->loader.CreateInstance(&info, NULL, &inst->instance);
    if (result)
        inst->instance = NULL;
    return result;
}

static clv_status start_vulkan(clv_plugin_instance *inst)
{
    const clv_host_api *host = inst->host;
    char reason[256];
    uint32_t version = 0;
    const char *missing;
    if (!vk_loader_open(&inst->loader, reason, sizeof reason)) {
        clv_log(host, CLV_LOG_INFO, "no Vulkan loader: %s", reason);
        return CLV_OK;
    }
    if (inst->loader.EnumerateInstanceVersion(&version) ||
        version < VK_API_VERSION_1_2) {
        clv_log(host, CLV_LOG_INFO, "the Vulkan loader is older than 1.2");
        return CLV_OK;
    }
    if (inst->validation && !has_layer(&inst->loader))
        return clv_fail(host, CLV_ERR_NOT_FOUND,
                        "vulkan.validation is on and there is no layer %s; "
                        "install vulkan-validationlayers or set it off",
                        LAYER);
    VkResult result = create_instance(inst);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        clv_log(host, CLV_LOG_INFO, "there is no Vulkan driver");
        return CLV_OK;
    }
    if (result)
        return clv_fail(host, vk_result_status(result),
                        "vkCreateInstance answers %s (%d)",
                        vk_result_name(result), (int)result);
    if (!vk_instance_load(&inst->loader, inst->instance, &inst->api, &missing))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "the Vulkan loader lacks %s; use a newer one", missing);
    VkDebugUtilsMessengerCreateInfoEXT messages = messenger_info;
    messages.pUserData = inst;
    if (inst->validation)
        inst->api.CreateDebugUtilsMessengerEXT(inst->instance, &messages, NULL,
                                               &inst->messenger);
    return vk_physical_find(host, &inst->api, inst->instance, &inst->n_physical,
                            &inst->physical);
}

clv_status vk_create(const clv_host_api *host, clv_plugin_instance **out)
{
    if (!clv_chain_known(host))
        return clv_fail(host, CLV_ERR_UNSUPPORTED, "unknown extension");
    clv_plugin_instance *inst = clv_new(host, sizeof *inst);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    vk_timelines_init(inst);
    inst->validation = !strcmp(host->option(host->host, "validation"), "on");
    clv_status status = start_vulkan(inst);
    if (status)
        vk_destroy(inst);
    else
        *out = inst;
    return status;
}

/* Drivers' own threads end with the Vulkan instance. */
clv_status vk_quiesce(clv_plugin_instance *inst)
{
    if (inst->messenger)
        inst->api.DestroyDebugUtilsMessengerEXT(inst->instance, inst->messenger,
                                                NULL);
    if (inst->instance && inst->api.DestroyInstance)
        inst->api.DestroyInstance(inst->instance, NULL);
    inst->messenger = VK_NULL_HANDLE;
    inst->instance = NULL;
    return CLV_OK;
}

void vk_destroy(clv_plugin_instance *inst)
{
    if (!inst)
        return;
    vk_quiesce(inst); /* after a create() that failed */
    vk_loader_close(&inst->loader);
    vk_timelines_finish(inst);
    clv_free(inst->host, inst->physical);
    clv_free(inst->host, inst);
}

clv_status vk_enumerate(clv_plugin_instance *inst, uint32_t *count,
                        clv_device_info *out, uint32_t stride)
{
    for (uint32_t i = 0; i < inst->n_physical && i < *count; i++)
        clv_write(clv_at(out, i, stride), &inst->physical[i].info,
                  sizeof(clv_device_info));
    *count = inst->n_physical;
    return CLV_OK;
}
