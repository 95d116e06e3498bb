#include "api.h"

#include <dlfcn.h>

bool vk_loader_open(vk_loader *loader, char *reason, size_t size)
{
    memset(loader, 0, sizeof *loader);
    loader->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loader->library) {
        snprintf(reason, size, "%s", dlerror());
        return false;
    }
    loader->GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)dlsym(
        loader->library, "vkGetInstanceProcAddr");
    const char *missing =
        loader->GetInstanceProcAddr ? NULL : "vkGetInstanceProcAddr";
#define LOAD(name_)                                                            \
    if (!missing &&                                                            \
        !(loader->name_ =                                                      \
              (PFN_vk##name_)loader->GetInstanceProcAddr(NULL, "vk" #name_)))  \
        missing = "vk" #name_;
    VK_GLOBAL_FUNCTIONS(LOAD)
#undef LOAD
    if (!missing)
        return true;
    snprintf(reason, size, "libvulkan.so.1 lacks %s", missing);
    vk_loader_close(loader);
    return false;
}

void vk_loader_close(vk_loader *loader)
{
    if (loader->library)
        dlclose(loader->library);
    loader->library = NULL;
}

/* A function of an extension, which may be missing. */
#define OPTIONAL(name_) api->name_ = (PFN_vk##name_)GET("vk" #name_)
#define LOAD(name_)                                                            \
    if (!(OPTIONAL(name_)))                                                    \
        *missing = "vk" #name_;

bool vk_instance_load(const vk_loader *loader, VkInstance instance,
                      vk_instance_api *api, const char **missing)
{
#define GET(name) loader->GetInstanceProcAddr(instance, name)
    *missing = NULL;
    VK_INSTANCE_FUNCTIONS(LOAD)
    OPTIONAL(CreateDebugUtilsMessengerEXT);
    OPTIONAL(DestroyDebugUtilsMessengerEXT);
    api->GetMatrixSizes =
        GET("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return !*missing;
#undef GET
}

bool vk_device_load(const vk_instance_api *instance, VkDevice device,
                    vk_device_api *api, const char **missing)
{
#define GET(name) instance->GetDeviceProcAddr(device, name)
    *missing = NULL;
    VK_DEVICE_FUNCTIONS(LOAD)
    OPTIONAL(GetMemoryHostPointerPropertiesEXT);
    OPTIONAL(CmdPushDescriptorSetKHR);
    OPTIONAL(CreateCuModuleNVX);
    OPTIONAL(CreateCuFunctionNVX);
    OPTIONAL(DestroyCuModuleNVX);
    OPTIONAL(DestroyCuFunctionNVX);
    OPTIONAL(CmdCuLaunchKernelNVX);
    return !*missing;
#undef GET
}

const char *vk_result_name(VkResult result)
{
    switch (result) {
#define NAME(code)                                                             \
    case code:                                                                 \
        return #code
        NAME(VK_SUCCESS);
        NAME(VK_TIMEOUT);
        NAME(VK_INCOMPLETE);
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
        NAME(VK_ERROR_INITIALIZATION_FAILED);
        NAME(VK_ERROR_DEVICE_LOST);
        NAME(VK_ERROR_MEMORY_MAP_FAILED);
        NAME(VK_ERROR_LAYER_NOT_PRESENT);
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
        NAME(VK_ERROR_FEATURE_NOT_PRESENT);
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
        NAME(VK_ERROR_TOO_MANY_OBJECTS);
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY);
        NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE);
#undef NAME
    default:
        return "an unnamed VkResult";
    }
}

clv_status vk_result_status(VkResult result)
{
    switch (result) {
    case VK_SUCCESS:
        return CLV_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_MEMORY_MAP_FAILED:
        return CLV_ERR_NO_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return CLV_ERR_DEVICE_LOST;
    case VK_ERROR_TOO_MANY_OBJECTS:
        return CLV_ERR_LIMIT;
    case VK_TIMEOUT:
        return CLV_ERR_TIMEOUT;
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
    case VK_ERROR_INVALID_EXTERNAL_HANDLE:
        return CLV_ERR_UNSUPPORTED;
    default:
        return CLV_ERR_INTERNAL;
    }
}
