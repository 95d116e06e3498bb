#include "device.h"

#include "abilities.h"
#include "compiler.h"
#include "image.h"
#include "imports.h"
#include "kernel.h"
#include "memory.h"
#include "tune.h"
#include "vulkan_build_id.h"
#include "work.h"

#include <tune/trial.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

clv_status vk_explain(clv_plugin_device *dev, VkResult result, const char *call,
                      char message[CLV_MESSAGE_SIZE])
{
    clv_status status = vk_result_status(result);
    if (status == CLV_ERR_DEVICE_LOST)
        clv_queue_is_lost(
            dev->base.queue,
            "vulkan: the device is lost; open it again or leave it out");
    snprintf(message, CLV_MESSAGE_SIZE, "%.60s: %s answers %s", dev->label,
             call, vk_result_name(result));
    return status;
}

clv_status vk_fail(clv_plugin_device *dev, VkResult result, const char *call)
{
    const clv_host_api *host = dev->base.host;
    char text[256], message[CLV_MESSAGE_SIZE];
    clv_status status = vk_explain(dev, result, call, message);
    snprintf(text, sizeof text, "%s%s", message,
             status == CLV_ERR_NO_MEMORY
                 ? "; close other programs or use a smaller model"
             : status == CLV_ERR_DEVICE_LOST
                 ? "; the device is gone until it is opened again"
                 : "");
    return host->set_error(host->host, status, result, text);
}

static VkResult create_device(clv_plugin_device *dev)
{
    const vk_physical *p = dev->phys;
    const float priorities[] = {1, 1};
    const bool copies = p->info.copy_queues;
    const uint32_t same = copies && p->copy_family == p->family;
    vk_enabling more;
    vk_enabling_fill(p, dev->addresses, &more);
    const VkDeviceQueueCreateInfo queues[] = {
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = p->family,
         .queueCount = 1 + (same ? p->copy_index : 0),
         .pQueuePriorities = priorities},
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = p->copy_family,
         .queueCount = 1,
         .pQueuePriorities = priorities}};
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = more.chain,
        .vulkanMemoryModel = p->coop_matrix,
        .bufferDeviceAddress = dev->addresses,
        .hostQueryReset = p->query_reset,
        .timelineSemaphore = VK_TRUE,
        .shaderFloat16 = p->fp16,
        .shaderInt8 = p->int8,
        .storageBuffer8BitAccess = p->int8_storage};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &f12,
        .storageBuffer16BitAccess = p->fp16_storage};
    const VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &f11,
        .features = {.shaderInt64 = p->int64}};
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = copies && !same ? 2 : 1,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = more.n,
        .ppEnabledExtensionNames = more.names};
    return dev->inst->api.CreateDevice(p->handle, &info, NULL, &dev->device);
}

static void find_queues(clv_plugin_device *dev)
{
    const vk_physical *p = dev->phys;
    vk_queue *work = &dev->queues[0], *copies = &dev->queues[1];
    *work = (vk_queue){.lock = &dev->queue_locks[0],
                       .family = p->family,
                       .timestamp_bits = p->timestamp_bits};
    dev->api.GetDeviceQueue(dev->device, p->family, 0, &work->handle);
    *copies = *work;
    if (!p->info.copy_queues || !p->copies_apart)
        return;
    *copies = (vk_queue){.lock = &dev->queue_locks[1],
                         .family = p->copy_family,
                         .timestamp_bits = p->copy_timestamp_bits};
    dev->api.GetDeviceQueue(dev->device, p->copy_family, p->copy_index,
                            &copies->handle);
}

/* Vulkan's memory types that take host pointers, asked for a page. */
static uint32_t find_import_mask(clv_plugin_device *dev)
{
    uint64_t align = dev->phys->import_align;
    VkMemoryHostPointerPropertiesEXT answer = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    if (!align || !dev->api.GetMemoryHostPointerPropertiesEXT)
        return 0;
    size_t size = (size_t)(align > 4096 ? 2 * align : 8192);
    char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 0;
    char *at = pages + (align - (uintptr_t)pages % align) % align;
    VkResult result = dev->api.GetMemoryHostPointerPropertiesEXT(
        dev->device, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, at,
        &answer);
    munmap(pages, size);
    return result ? 0 : answer.memoryTypeBits;
}

static void describe_target(clv_plugin_device *dev)
{
    const vk_physical *p = dev->phys;
    const clv_host_api *host = dev->base.host;
    const char *matrix = host->option(host->host, "matrix");
    const char *kv = host->option(host->host, "kv");
    const uint64_t range =
        strtoull(host->option(host->host, "range"), NULL, 10);
    dev->max_range = range && range < p->max_range ? range : p->max_range;
    dev->target = (gpu_target){
        .language = GPU_GLSL,
        .max_group = p->max_group,
        .max_group_size = {p->max_group_size[0], p->max_group_size[1],
                           p->max_group_size[2]},
        .local_bytes = p->local_bytes,
        .subgroup = p->subgroup,
        .max_binding = dev->max_range,
        .fp16 = p->fp16,
        .fp16_storage = p->fp16_storage,
        .int8_storage = p->int8_storage,
        .int_dot = p->int_dot,
        .coop_matrix = p->coop_matrix &&
                       (!strcmp(matrix, "auto") || !strcmp(matrix, "bytes")),
        .coop_bytes = p->coop_bytes && !strcmp(matrix, "bytes"),
        .plain_matrix = p->fp16 && !strcmp(matrix, "plain"),
        .units = p->info.units,
        .disabled = dev->disabled,
        .states =
            !strcmp(kv, "weights") ? GPU_STATES_WEIGHTS
            : !strcmp(kv, "auto") && p->type != VK_PHYSICAL_DEVICE_TYPE_CPU
                ? GPU_STATES_AUTO
                : GPU_STATES_ROWS,
        .unified = p->type != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU};
    memcpy(dev->target.image, p->image, sizeof dev->target.image);
    for (uint32_t i = CLV_STORAGE_IMAGE_BUFFER; i <= CLV_STORAGE_TEXTURE_3D;
         i++)
        dev->target.image_halves[i] = true; /* by image.c */
}

static clv_status start(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    const char *missing;
    CLV_TRY(vk_imports_wanted(dev, &dev->addresses));
    VkResult result = create_device(dev);
    if (result) {
        dev->device = NULL;
        return vk_fail(dev, result, "vkCreateDevice");
    }
    if (!vk_device_load(&dev->inst->api, dev->device, &dev->api, &missing))
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "%s: the driver lacks %s; use a newer one", dev->label,
                        missing);
    find_queues(dev);
    vk_memory_types_find(dev->phys, find_import_mask(dev), &dev->types);
    dev->pushes = dev->phys->push_descriptors &&
                  dev->api.CmdPushDescriptorSetKHR &&
                  !strcmp(host->option(host->host, "descriptors"), "push");
    describe_target(dev);
    dev->tuner =
        (gpu_tuner){.host = host,
                    .api = vk_table(),
                    .dev = dev,
                    .target = &dev->target,
                    .device = dev->label,
                    .software = dev->phys->type == VK_PHYSICAL_DEVICE_TYPE_CPU,
                    .timed = dev->phys->timestamp_bits,
                    .lock = &dev->tuning,
                    .identity = dev->identity,
                    .time = vk_time_program};
    if (dev->addresses)
        CLV_TRY(vk_imports_start(dev));
    CLV_TRY(vk_image_choose(dev, "storage", &dev->target.slices));
    CLV_TRY(vk_image_choose(dev, "weights", &dev->target.weights));
    vk_pipelines_open(dev);
    CLV_TRY(vk_work_start(dev));
    return gpu_try(&dev->tuner, dev->disabled, sizeof dev->disabled);
}

static void identify(clv_plugin_device *dev)
{
    const vk_physical *p = dev->phys;
    int n = snprintf(dev->identity, sizeof dev->identity, "%s\n%s\n%s\n",
                     BUILD_ID, p->info.name, p->info.driver);
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++)
        n += snprintf(dev->identity + n, sizeof dev->identity - (size_t)n,
                      "%02x", p->cache_uuid[i]);
    snprintf(dev->label, sizeof dev->label, "vulkan:%s", p->info.id);
}

clv_status vk_device_open(clv_plugin_instance *inst, uint32_t index,
                          clv_plugin_device **out)
{
    if (index >= inst->n_physical)
        return clv_fail(inst->host, CLV_ERR_NOT_FOUND,
                        "there is no Vulkan device %u; there are %u",
                        (unsigned)index, (unsigned)inst->n_physical);
    clv_plugin_device *dev = clv_new(inst->host, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    dev->base.host = inst->host;
    dev->inst = inst;
    dev->phys = &inst->physical[index];
    dev->budget =
        gpu_budget_make(inst->host, "vulkan", dev->phys->info.memory_size,
                        vk_owns_memory(dev->phys));
    identify(dev);
    for (uint32_t i = 0; i < VK_MAX_QUEUES; i++)
        pthread_mutex_init(&dev->queue_locks[i], NULL);
    pthread_mutex_init(&dev->memory_lock, NULL);
    pthread_mutex_init(&dev->kernels_lock, NULL);
    pthread_mutex_init(&dev->compiler_lock, NULL);
    pthread_mutex_init(&dev->cache.lock, NULL);
    pthread_mutex_init(&dev->tuning, NULL);
    clv_status status = clv_queue_new(inst->host, dev->phys->info.queue_depth,
                                      dev->phys->info.copy_queues,
                                      &vk_queue_fns, dev, &dev->base);
    if (!status)
        status = start(dev);

    if (status)
        vk_device_close(dev);
    else
        *out = dev;
    return status;
}

void vk_device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    vk_work_stop(dev);
    vk_kernels_close(dev);
    vk_pipelines_close(dev);
    vk_compiler_close(dev);
    vk_memory_finish(dev);
    clv_queue_destroy(dev->base.queue);
    if (dev->device && dev->api.DestroyDevice)
        dev->api.DestroyDevice(dev->device, NULL);
    for (uint32_t i = 0; i < VK_MAX_QUEUES; i++)
        pthread_mutex_destroy(&dev->queue_locks[i]);
    pthread_mutex_destroy(&dev->memory_lock);
    pthread_mutex_destroy(&dev->kernels_lock);
    pthread_mutex_destroy(&dev->compiler_lock);
    pthread_mutex_destroy(&dev->cache.lock);
    pthread_mutex_destroy(&dev->tuning);
    clv_free(dev->base.host, dev);
}
