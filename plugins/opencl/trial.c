/* The first use of a device: are its kernels right? The answer is kept. */
#include "program.h"
#include "source.h"

#include <tune/trial.h>
#include <tune/result.h>

#include <string.h>

static const char *option(const clv_plugin_device *dev, const char *key)
{
    const clv_host_api *host = dev->base.host;
    const char *value = host->option(host->host, key);
    return value ? value : "";
}

/* Each time: the trial's own words may have gone to another process. */
static void tell(clv_plugin_device *dev, const char *unwanted)
{
    const clv_host_api *host = dev->base.host;
    char line[sizeof dev->disabled + 160];
    if (!strcmp(dev->disabled, unwanted))
        return;
    snprintf(line, sizeof line,
             "opencl: %.60s: kernels not used: %s; a newer "
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
    const clv_host_api *host = dev->base.host;
    char key[64], settings[sizeof dev->disabled + 120];
    gpu_target target;
    const char *unwanted = option(dev, "disabled");
    if (!gpu_is_list(unwanted, strlen(unwanted)) ||
        strlen(unwanted) >= sizeof dev->disabled)
        return clv_fail(host, CLV_ERR_INVALID,
                        "opencl: [opencl] disabled = '%.60s': it must be names "
                        "of kernels separated by ','",
                        unwanted);
    snprintf(dev->disabled, sizeof dev->disabled, "%s", unwanted);
    if (!is_wanted(dev))
        return CLV_OK;
    snprintf(settings, sizeof settings, "%s\n%.60s\n%s\n%s\n%u %u", unwanted,
             option(dev, "wrong"), option(dev, "matrix"), option(dev, "kv"),
             (unsigned)dev->slices, (unsigned)dev->weights);
    ocl_entry_name(dev, "trial", settings, key);
    if (!gpu_result_load(host, key, dev->disabled, sizeof dev->disabled)) {
        ocl_target(dev, &target);
        clv_status status = gpu_try(host, api, dev, &target, dev->disabled,
                                    sizeof dev->disabled);
        if (status)
            return status;
        gpu_result_save(host, key, dev->disabled);
    }
    tell(dev, unwanted);
    return CLV_OK;
}
