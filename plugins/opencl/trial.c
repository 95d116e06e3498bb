/* The first use of a device: are its kernels right? The answer is kept. */
#include "program.h"
#include "source.h"

#include <tune/trial.h>

#include <string.h>

static const char magic[] = "clvtry1 ";

static const char *option(const clv_plugin_device *dev, const char *key)
{
    const clv_host_api *host = dev->base.host;
    const char *value = host->option(host->host, key);
    return value ? value : "";
}

/* A word of small letters and digits, so that it can stand in a list. */
static bool is_list(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_,", text[i]) ||
            !text[i])
            return false;
    return true;
}

/* What an earlier trial found; false: there was none. */
static bool recall(clv_plugin_device *dev, const char *key)
{
    const clv_host_api *host = dev->base.host;
    const size_t head = sizeof magic - 1;
    void *data = NULL;
    uint64_t size = 0;
    if (host->cache_get(host->host, key, &data, &size))
        return false;
    const char *text = (const char *)data + head;
    bool good = size >= head && size - head < sizeof dev->disabled &&
                !memcmp(data, magic, head) &&
                is_list(text, (size_t)(size - head));
    if (good) {
        memcpy(dev->disabled, text, (size_t)(size - head));
        dev->disabled[size - head] = 0;
    }
    host->free(host->host, data);
    return good;
}

static void remember(clv_plugin_device *dev, const char *key)
{
    const clv_host_api *host = dev->base.host;
    char data[sizeof magic + sizeof dev->disabled];
    int n = snprintf(data, sizeof data, "%s%s", magic, dev->disabled);
    host->cache_put(host->host, key, data, (uint64_t)n);
}

/* Each time: the trial's own words may have gone to another process. */
static void tell(clv_plugin_device *dev, const char *unwanted)
{
    const clv_host_api *host = dev->base.host;
    char line[sizeof dev->disabled + 160];
    if (!strcmp(dev->disabled, unwanted))
        return;
    snprintf(line, sizeof line, "opencl: %.60s: kernels not used: %s; a newer "
             "driver may do, opencl.disabled takes their names without trial",
             dev->props->info.name, dev->disabled);
    host->log(host->host, CLV_LOG_WARN, NULL, 0, line);
}

/* Software is tried by its makers on this very machine. */
static bool is_wanted(const clv_plugin_device *dev)
{
    const char *trial = option(dev, "trial");
    return !strcmp(trial, "on") ||
           (strcmp(trial, "off") != 0 && !dev->props->is_cpu);
}

clv_status ocl_try_kernels(clv_plugin_device *dev, const clv_plugin_api *api)
{
    char key[64], settings[sizeof dev->disabled + 64];
    gpu_target target;
    const char *unwanted = option(dev, "disabled");
    if (!is_list(unwanted, strlen(unwanted)) ||
        strlen(unwanted) >= sizeof dev->disabled)
        return clv_fail(dev->base.host, CLV_ERR_INVALID,
                        "opencl: [opencl] disabled = '%.60s': it must be names "
                        "of kernels separated by ','", unwanted);
    snprintf(dev->disabled, sizeof dev->disabled, "%s", unwanted);
    if (!is_wanted(dev))
        return CLV_OK;
    snprintf(settings, sizeof settings, "%s\n%.60s", unwanted,
             option(dev, "wrong"));
    ocl_entry_name(dev, "trial", settings, key);
    if (!recall(dev, key)) {
        ocl_target(dev, &target);
        clv_status status = gpu_try(dev->base.host, api, dev, &target,
                                    dev->disabled, sizeof dev->disabled);
        if (status)
            return status;
        remember(dev, key);
    }
    tell(dev, unwanted);
    return CLV_OK;
}
