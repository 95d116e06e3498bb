/* The Vulkan functions that the plugin calls, found at run time: the plugin
 * loads where there is no Vulkan, and can say so. */
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <cleave/plugin_util.h>

#include <stdbool.h>

#define VK_GLOBAL_FUNCTIONS(X)                                                 \
    X(CreateInstance)                                                          \
    X(EnumerateInstanceVersion)                                                \
    X(EnumerateInstanceLayerProperties)                                        \
    X(EnumerateInstanceExtensionProperties)

#define VK_INSTANCE_FUNCTIONS(X)                                               \
    X(DestroyInstance)                                                         \
    X(EnumeratePhysicalDevices)                                                \
    X(EnumerateDeviceExtensionProperties)                                      \
    X(GetPhysicalDeviceProperties2)                                            \
    X(GetPhysicalDeviceFeatures2)                                              \
    X(GetPhysicalDeviceMemoryProperties2)                                      \
    X(GetPhysicalDeviceQueueFamilyProperties)                                  \
    X(CreateDevice)                                                            \
    X(GetDeviceProcAddr)

#define VK_DEVICE_FUNCTIONS(X)                                                 \
    X(DestroyDevice)                                                           \
    X(GetDeviceQueue)                                                          \
    X(DeviceWaitIdle)                                                          \
    X(QueueSubmit)                                                             \
    X(CreateSemaphore)                                                         \
    X(DestroySemaphore)                                                        \
    X(WaitSemaphores)                                                          \
    X(GetSemaphoreCounterValue)                                                \
    X(AllocateMemory)                                                          \
    X(FreeMemory)                                                              \
    X(MapMemory)                                                               \
    X(FlushMappedMemoryRanges)                                                 \
    X(InvalidateMappedMemoryRanges)                                            \
    X(CreateBuffer)                                                            \
    X(DestroyBuffer)                                                           \
    X(GetBufferMemoryRequirements)                                             \
    X(BindBufferMemory)                                                        \
    X(GetBufferDeviceAddress)                                                  \
    X(CreateBufferView)                                                        \
    X(DestroyBufferView)                                                       \
    X(CreateImage)                                                             \
    X(DestroyImage)                                                            \
    X(GetImageMemoryRequirements)                                              \
    X(BindImageMemory)                                                         \
    X(CreateImageView)                                                         \
    X(DestroyImageView)                                                        \
    X(CreateCommandPool)                                                       \
    X(DestroyCommandPool)                                                      \
    X(AllocateCommandBuffers)                                                  \
    X(BeginCommandBuffer)                                                      \
    X(EndCommandBuffer)                                                        \
    X(ResetCommandPool)                                                        \
    X(CmdPipelineBarrier)                                                      \
    X(CmdCopyBuffer)                                                           \
    X(CmdFillBuffer)                                                           \
    X(CmdBindPipeline)                                                         \
    X(CmdBindDescriptorSets)                                                   \
    X(CmdPushConstants)                                                        \
    X(CmdDispatch)                                                             \
    X(CmdResetQueryPool)                                                       \
    X(ResetQueryPool)                                                          \
    X(CmdWriteTimestamp)                                                       \
    X(CreateQueryPool)                                                         \
    X(DestroyQueryPool)                                                        \
    X(GetQueryPoolResults)                                                     \
    X(CreateShaderModule)                                                      \
    X(DestroyShaderModule)                                                     \
    X(CreatePipelineLayout)                                                    \
    X(DestroyPipelineLayout)                                                   \
    X(CreateDescriptorSetLayout)                                               \
    X(DestroyDescriptorSetLayout)                                              \
    X(CreateDescriptorPool)                                                    \
    X(DestroyDescriptorPool)                                                   \
    X(AllocateDescriptorSets)                                                  \
    X(UpdateDescriptorSets)                                                    \
    X(CreateComputePipelines)                                                  \
    X(DestroyPipeline)                                                         \
    X(CreatePipelineCache)                                                     \
    X(DestroyPipelineCache)                                                    \
    X(GetPipelineCacheData)

#define VK_MEMBER(name_) PFN_vk##name_ name_;

typedef struct vk_loader {
    void *library; /* NULL: none */
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    VK_GLOBAL_FUNCTIONS(VK_MEMBER)
} vk_loader;

typedef struct vk_instance_api {
    VK_INSTANCE_FUNCTIONS(VK_MEMBER)
    PFN_vkCreateDebugUtilsMessengerEXT CreateDebugUtilsMessengerEXT;
    PFN_vkDestroyDebugUtilsMessengerEXT DestroyDebugUtilsMessengerEXT;
    PFN_vkVoidFunction GetMatrixSizes; /* abilities.c has its form */
} vk_instance_api;

typedef struct vk_device_api {
    VK_DEVICE_FUNCTIONS(VK_MEMBER)
    PFN_vkGetMemoryHostPointerPropertiesEXT GetMemoryHostPointerPropertiesEXT;
    PFN_vkCmdPushDescriptorSetKHR CmdPushDescriptorSetKHR;
    PFN_vkCreateCuModuleNVX CreateCuModuleNVX;
    PFN_vkCreateCuFunctionNVX CreateCuFunctionNVX;
    PFN_vkDestroyCuModuleNVX DestroyCuModuleNVX;
    PFN_vkDestroyCuFunctionNVX DestroyCuFunctionNVX;
    PFN_vkCmdCuLaunchKernelNVX CmdCuLaunchKernelNVX;
} vk_device_api;

/* Opens the loader; false, with why in reason, where there is none. */
bool vk_loader_open(vk_loader *loader, char *reason, size_t size);
void vk_loader_close(vk_loader *loader);

/* False: the driver lacks one, whose name is then in *missing. The entries of
 * extensions are NULL where those are not enabled. */
bool vk_instance_load(const vk_loader *loader, VkInstance instance,
                      vk_instance_api *api, const char **missing);
bool vk_device_load(const vk_instance_api *instance, VkDevice device,
                    vk_device_api *api, const char **missing);

const char *vk_result_name(VkResult result);
clv_status vk_result_status(VkResult result);
