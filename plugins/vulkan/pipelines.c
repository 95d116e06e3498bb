/* The driver's pipeline cache, from run to run. */
#include "kernel.h"

#include <entry.h>

static gpu_entry entry_of(const clv_plugin_device *dev)
{
    return (gpu_entry){dev->base.host, "pipelines", dev->identity, ""};
}

void vk_pipelines_open(clv_plugin_device *dev)
{
    const gpu_entry entry = entry_of(dev);
    uint64_t size = 0;
    void *data = gpu_entry_get(&entry, &size);
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .pInitialData = data,
        .initialDataSize = data ? size : 0};
    if (dev->api.CreatePipelineCache(dev->device, &info, NULL, &dev->pipelines))
        dev->pipelines = VK_NULL_HANDLE; /* then without */
    dev->pipelines_size = info.initialDataSize;
    clv_free(dev->base.host, data);
}

static void store(clv_plugin_device *dev)
{
    const gpu_entry entry = entry_of(dev);
    const clv_host_api *host = dev->base.host;
    size_t size = 0;
    if (dev->api.GetPipelineCacheData(dev->device, dev->pipelines, &size,
                                      NULL) ||
        size == dev->pipelines_size)
        return;
    void *data = host->alloc(host->host, size, 64);
    if (data && !dev->api.GetPipelineCacheData(dev->device, dev->pipelines,
                                               &size, data))
        gpu_entry_put(&entry, data, size);
    clv_free(host, data);
}

void vk_pipelines_close(clv_plugin_device *dev)
{
    if (!dev->pipelines)
        return;
    if (dev->built && !dev->base.queue->lost)
        store(dev);
    dev->api.DestroyPipelineCache(dev->device, dev->pipelines, NULL);
}
