#include "abilities.h"
#include "image.h"
#include "memory_types.h"

#include <buffers.h>
#include <ids.h>
#include <stdlib.h>
#include <strings.h>

#define MAX_EXTENSIONS 512

/* Of families that copy and neither compute nor draw, the one that does least
 * else. */
static void choose_copies(const VkQueueFamilyProperties *families, uint32_t n,
                          vk_physical *p)
{
    const VkQueueFlags others = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    int least = 64;
    p->copy_family = p->family;
    p->copy_index = families[p->family].queueCount > 1;
    p->copies_apart = p->copy_index;
    for (uint32_t i = 0; i < n; i++) {
        const VkQueueFlags flags = families[i].queueFlags;
        if (!(flags & VK_QUEUE_TRANSFER_BIT) || flags & others ||
            __builtin_popcount(flags) >= least)
            continue;
        least = __builtin_popcount(flags);
        p->copy_family = i;
        p->copy_index = 0;
        p->copies_apart = true;
    }
    p->copy_timestamp_bits = families[p->copy_family].timestampValidBits;
}

static bool read_family(const vk_instance_api *api, vk_physical *p)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = 32, best = 32;
    api->GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, families);
    for (uint32_t i = 0; i < n; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT &&
            (best == 32 || !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            best = i;
    if (best == 32)
        return false;
    p->family = best;
    p->timestamp_bits = families[best].timestampValidBits;
    choose_copies(families, n, p);
    return true;
}

static void read_limits(vk_physical *p, const VkPhysicalDeviceLimits *l)
{
    p->max_range = l->maxStorageBufferRange;
    p->offset_align = (uint32_t)l->minStorageBufferOffsetAlignment;
    p->atom = l->nonCoherentAtomSize;
    p->max_group = l->maxComputeWorkGroupInvocations;
    p->local_bytes = l->maxComputeSharedMemorySize;
    p->max_push = l->maxPushConstantsSize;
    vk_image_limits(l, p->image);
    p->tick_ns = l->timestampPeriod;
    for (uint32_t i = 0; i < 3; i++) {
        p->max_group_size[i] = l->maxComputeWorkGroupSize[i];
        p->max_groups[i] = l->maxComputeWorkGroupCount[i];
    }
}

/* False: an old driver. */
static bool read_properties(const vk_instance_api *api, vk_physical *p,
                            const VkExtensionProperties *ext, uint32_t n)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceVulkan12Properties p12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties p11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
        .pNext = &p12};
    VkPhysicalDeviceProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &p11};
    p->pci = vk_extension_among(ext, n, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    p->memory_budget =
        vk_extension_among(ext, n, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (p->pci)
        pci.pNext = all.pNext, all.pNext = &pci;
    if (vk_extension_among(ext, n, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
        host.pNext = all.pNext, all.pNext = &host;
    api->GetPhysicalDeviceProperties2(p->handle, &all);
    const VkPhysicalDeviceProperties *base = &all.properties;
    if (base->apiVersion < VK_API_VERSION_1_2)
        return false;
    p->type = base->deviceType;
    snprintf(p->info.name, sizeof p->info.name, "%.120s", base->deviceName);
    snprintf(p->info.driver, sizeof p->info.driver, "%.30s %.30s",
             p12.driverName, p12.driverInfo);
    memcpy(p->info.uuid, p11.deviceUUID, sizeof p->info.uuid);
    memcpy(p->cache_uuid, base->pipelineCacheUUID, sizeof p->cache_uuid);
    if (p->pci)
        snprintf(p->info.bus_path, sizeof p->info.bus_path, "%04x:%02x:%02x.%x",
                 pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction);
    p->import_align = host.minImportedHostPointerAlignment;
    p->max_allocation = p11.maxMemoryAllocationSize;
    if (p11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
        p11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT)
        p->subgroup = p11.subgroupSize;
    p->subgroup_swaps =
        p11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT &&
        p11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_VOTE_BIT;
    read_limits(p, &base->limits);
    return true;
}

static bool read_features(const vk_instance_api *api, vk_physical *p)
{
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &f12};
    VkPhysicalDeviceFeatures2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f11};
    api->GetPhysicalDeviceFeatures2(p->handle, &all);
    p->fp16 = f12.shaderFloat16;
    p->int8 = f12.shaderInt8;
    p->int64 = all.features.shaderInt64;
    p->fp16_storage = f11.storageBuffer16BitAccess;
    p->int8_storage = f12.storageBuffer8BitAccess && f12.shaderInt8;
    p->query_reset = f12.hostQueryReset;
    p->binary_import = f12.bufferDeviceAddress;
    return f12.timelineSemaphore;
}

/* The largest heap of the device's own; what others take of it, where it says.
 */
static void read_memory(const vk_instance_api *api, vk_physical *p)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = p->memory_budget ? &budget : NULL};
    api->GetPhysicalDeviceMemoryProperties2(p->handle, &all);
    p->memory = all.memoryProperties;
    for (uint32_t i = 0; i < p->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &p->memory.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) ||
            heap->size <= p->info.memory_size)
            continue;
        p->info.memory_size = heap->size;
        p->info.memory_free = budget.heapBudget[i] > budget.heapUsage[i]
                                  ? budget.heapBudget[i] - budget.heapUsage[i]
                                  : 0;
    }
}

static const char *type_word(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "cpu";
    default:
        return "other";
    }
}

/* Whether the option, "all" or words between commas, names it by its type or a
 * part of its name. */
static bool chosen(const vk_physical *p, const char *option)
{
    char list[256];
    char *rest = list, *word;
    snprintf(list, sizeof list, "%s", option);
    while ((word = strsep(&rest, ","))) {
        word += strspn(word, " ");
        if (!strcmp(word, "all") || !strcmp(word, type_word(p->type)))
            return true;
        for (const char *c = p->info.name; *word && *c; c++)
            if (!strncasecmp(c, word, strlen(word)))
                return true;
    }
    return false;
}

#define PAGE_ALIGN 4096 /* of mmap() */

/* What device_wait.h needs, as far as it is known before devices are made. */
static bool waits_for_peers(const clv_host_api *host, const vk_physical *p)
{
    return p->binary_import && p->import_align &&
           p->import_align <= PAGE_ALIGN &&
           strcmp(host->option(host->host, "ptx"), "off") &&
           strcmp(host->option(host->host, "waits"), "host");
}

static void describe(const clv_host_api *host, vk_physical *p)
{
    const bool cpu = p->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    vk_memory_types types;
    p->separate = !strcmp(host->option(host->host, "memory"), "separate");
    vk_memory_types_find(p, 0, &types);
    gpu_id_of(p->info.name, p->info.id);
    p->info.kind = cpu                                        ? CLV_DEVICE_CPU
                   : p->type == VK_PHYSICAL_DEVICE_TYPE_OTHER ? CLV_DEVICE_OTHER
                                                              : CLV_DEVICE_GPU;
    p->info.flags = CLV_DEVICE_FLAG_STORE | CLV_DEVICE_FLAG_WAIT |
                    CLV_DEVICE_REPACKS | CLV_DEVICE_COPIES_ROWS |
                    (cpu ? CLV_DEVICE_SOFTWARE : 0u) |
                    (waits_for_peers(host, p) ? CLV_DEVICE_PEER_WAIT : 0u);
    p->info.n_mem_types = types.n;
    p->info.memory_size =
        gpu_memory_limit(host, p->info.memory_size, vk_owns_memory(p));
    if (p->info.memory_free > p->info.memory_size)
        p->info.memory_free = p->info.memory_size;
    const char *copies = host->option(host->host, "copy_queues");
    p->info.copy_queues =
        strcmp(copies, "auto")
            ? (uint32_t)atoi(copies)
            : p->copies_apart &&
                  p->type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    p->info.queue_depth =
        (uint32_t)atoi(host->option(host->host, "queue_depth"));
}

static bool read_physical(const vk_instance_api *api, VkPhysicalDevice handle,
                          VkExtensionProperties *ext, vk_physical *p)
{
    uint32_t n = MAX_EXTENSIONS;
    memset(p, 0, sizeof *p);
    p->handle = handle;
    if (api->EnumerateDeviceExtensionProperties(handle, NULL, &n, ext) < 0)
        return false;
    if (!read_properties(api, p, ext, n) || !read_features(api, p) ||
        !read_family(api, p))
        return false;
    vk_abilities_read(api, ext, n, p);
    read_memory(api, p);
    return true;
}

static int by_place(const void *a, const void *b)
{
    const vk_physical *p = a, *q = b;
    int order = strcmp(p->info.id, q->info.id);
    if (!order)
        order = strcmp(p->info.bus_path, q->info.bus_path);
    return order ? order
                 : memcmp(p->info.uuid, q->info.uuid, sizeof p->info.uuid);
}

clv_status vk_physical_find(const clv_host_api *host,
                            const vk_instance_api *api, VkInstance instance,
                            uint32_t *n, vk_physical **out)
{
    VkPhysicalDevice handles[64];
    uint32_t count = 64;
    *n = 0;
    VkResult result = api->EnumeratePhysicalDevices(instance, &count, handles);
    if (result == VK_ERROR_INITIALIZATION_FAILED)
        count = 0; /* drivers without their devices */
    else if (result < 0)
        return clv_fail(host, vk_result_status(result),
                        "vkEnumeratePhysicalDevices answers %s (%d)",
                        vk_result_name(result), (int)result);
    VkExtensionProperties *ext = clv_new(host, MAX_EXTENSIONS * sizeof *ext);
    *out = clv_new(host, (count + 1) * sizeof **out);
    for (uint32_t i = 0; ext && *out && i < count; i++) {
        vk_physical *p = &(*out)[*n];
        if (!read_physical(api, handles[i], ext, p) ||
            !chosen(p, host->option(host->host, "devices")))
            continue;
        describe(host, p);
        ++*n;
    }
    bool ok = ext && *out;
    clv_free(host, ext);
    if (!ok)
        return CLV_ERR_NO_MEMORY;
    if (!*n)
        clv_log(host, CLV_LOG_INFO,
                "no Vulkan 1.2 device with compute and timeline semaphores "
                "that vulkan.devices names");
    qsort(*out, *n, sizeof **out, by_place);
    gpu_number_ids((*out)->info.id, sizeof **out, *n);
    return CLV_OK;
}
