/* The driver's pipeline cache, from run to run. */
#include "kernel.h"
#include "spirv.h"

#include <stdlib.h>

#define MAGIC 0x31637076u /* "vpc1" */

/* Before the driver's bytes, which it checks for its own version only. */
typedef struct cache_head {
    uint32_t magic, reserved;
    uint64_t size, sum;
} cache_head;

static void make_key(const clv_plugin_device *dev, char key[64])
{
    int n = snprintf(key, 64, "vulkan-pipelines-");
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++)
        n += snprintf(key + n, (size_t)(64 - n), "%02x",
                      dev->phys->cache_uuid[i]);
}

static bool is_good(const char *data, uint64_t size)
{
    cache_head head;
    if (size < sizeof head)
        return false;
    memcpy(&head, data, sizeof head);
    return head.magic == MAGIC && head.size == size - sizeof head &&
           head.sum == vk_hash(data + sizeof head, head.size, 0);
}

void vk_pipelines_open(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    void *data = NULL;
    uint64_t size = 0;
    char key[64];
    make_key(dev, key);
    if (!host->cache_get(host->host, key, &data, &size) &&
        is_good(data, size)) {
        info.pInitialData = (char *)data + sizeof(cache_head);
        info.initialDataSize = size - sizeof(cache_head);
    }
    if (dev->api.CreatePipelineCache(dev->device, &info, NULL, &dev->pipelines))
        dev->pipelines = VK_NULL_HANDLE; /* then without */
    dev->pipelines_size = info.initialDataSize;
    clv_free(host, data);
}

static void store(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    size_t size = 0;
    if (dev->api.GetPipelineCacheData(dev->device, dev->pipelines, &size,
                                      NULL) ||
        size == dev->pipelines_size)
        return;
    char *data = malloc(sizeof(cache_head) + size);
    if (data &&
        !dev->api.GetPipelineCacheData(dev->device, dev->pipelines, &size,
                                       data + sizeof(cache_head))) {
        const cache_head head = {MAGIC, 0, size,
                                 vk_hash(data + sizeof(cache_head), size, 0)};
        char key[64];
        make_key(dev, key);
        memcpy(data, &head, sizeof head);
        host->cache_put(host->host, key, data, sizeof head + size);
    }
    free(data);
}

void vk_pipelines_close(clv_plugin_device *dev)
{
    if (!dev->pipelines)
        return;
    if (dev->built && !dev->base.queue->lost)
        store(dev);
    dev->api.DestroyPipelineCache(dev->device, dev->pipelines, NULL);
}
