/* The first use of a device: are its kernels right? The answer is kept. */
#include "device.h"

#include "spirv.h"
#include "vulkan_build_id.h"

#include <tune/trial.h>
#include <tune/result.h>

static const char *option(const clv_plugin_device *dev, const char *key)
{
    const clv_host_api *host = dev->base.host;
    const char *value = host->option(host->host, key);
    return value ? value : "";
}

/* By what may change the verdict: the device, its driver, these kernels, and
 * which of them are taken. */
static void make_key(const clv_plugin_device *dev, char key[64])
{
    const vk_physical *p = dev->phys;
    const char *matrix = option(dev, "matrix");
    uint64_t h = vk_hash(p->name, strlen(p->name), 0);
    h = vk_hash(p->driver, strlen(p->driver), h);
    h = vk_hash(p->cache_uuid, sizeof p->cache_uuid, h);
    h = vk_hash(dev->disabled, strlen(dev->disabled), h);
    h = vk_hash(dev->wrong, strlen(dev->wrong), h);
    h = vk_hash(option(dev, "kv"), strlen(option(dev, "kv")), h);
    h = vk_hash(matrix, strlen(matrix), h);
    h = vk_hash(&dev->target.slices, sizeof dev->target.slices, h);
    h = vk_hash(&dev->target.weights, sizeof dev->target.weights, h);
    snprintf(key, 64, "vulkan-trial-%s-%016llx", BUILD_ID,
             (unsigned long long)h);
}

/* Each time: the trial's own words may have gone to another process. */
static void tell(const clv_plugin_device *dev, const char *unwanted)
{
    const clv_host_api *host = dev->base.host;
    char line[sizeof dev->disabled + 160];
    if (!strcmp(dev->disabled, unwanted))
        return;
    snprintf(line, sizeof line,
             "%.60s: kernels not used: %s; a newer driver "
             "may do, vulkan.disabled takes their names without trial",
             dev->phys->id, dev->disabled);
    host->log(host->host, CLV_LOG_WARN, NULL, 0, line);
}

/* Software is tried by its makers on this very machine. */
static bool is_wanted(const clv_plugin_device *dev)
{
    const char *trial = option(dev, "trial");
    return !strcmp(trial, "on") ||
           (strcmp(trial, "off") != 0 &&
            dev->phys->type != VK_PHYSICAL_DEVICE_TYPE_CPU);
}

clv_status vk_try_kernels(clv_plugin_device *dev, const clv_plugin_api *api)
{
    const clv_host_api *host = dev->base.host;
    const char *unwanted = option(dev, "disabled");
    char key[64];
    if (!gpu_is_list(unwanted, strlen(unwanted)) ||
        strlen(unwanted) >= sizeof dev->disabled)
        return clv_fail(
            host, CLV_ERR_INVALID,
            "vulkan:%s: vulkan.disabled = '%.60s': it must be names "
            "of kernels separated by ','",
            dev->phys->id, unwanted);
    snprintf(dev->disabled, sizeof dev->disabled, "%s", unwanted);
    snprintf(dev->wrong, sizeof dev->wrong, "%s", option(dev, "wrong"));
    if (!is_wanted(dev))
        return CLV_OK;
    make_key(dev, key);
    if (!gpu_result_load(host, key, dev->disabled, sizeof dev->disabled)) {
        clv_status status = gpu_try(host, api, dev, &dev->target, dev->disabled,
                                    sizeof dev->disabled);
        if (status)
            return status;
        gpu_result_save(host, key, dev->disabled);
    }
    tell(dev, unwanted);
    return CLV_OK;
}
