#include "module.h"

#include "imports.h"

/* What an entry of VkCuLaunchInfoNVX.pExtras is, as for cuLaunchKernel(). */
#define EXTRA_END ((void *)0)
#define EXTRA_BYTES ((void *)1)
#define EXTRA_SIZE ((void *)2)

#define ALIGN 256 /* bytes */

static VkResult create(clv_plugin_device *dev, const char *name,
                       const char *text, vk_module *m)
{
    const VkCuModuleCreateInfoNVX module = {
        .sType = VK_STRUCTURE_TYPE_CU_MODULE_CREATE_INFO_NVX,
        .dataSize = strlen(text) + 1,
        .pData = text};
    VkResult result =
        dev->api.CreateCuModuleNVX(dev->device, &module, NULL, &m->module);
    if (result) {
        m->module = VK_NULL_HANDLE;
        return result;
    }
    const VkCuFunctionCreateInfoNVX function = {
        .sType = VK_STRUCTURE_TYPE_CU_FUNCTION_CREATE_INFO_NVX,
        .module = m->module,
        .pName = name};
    result = dev->api.CreateCuFunctionNVX(dev->device, &function, NULL,
                                          &m->function);
    if (result) {
        m->function = VK_NULL_HANDLE;
        vk_module_destroy(dev, m);
    }
    return result;
}

static VkResult make(clv_plugin_device *dev, const char *name, const char *text,
                     vk_module *m)
{
    const clv_host_api *host = dev->base.host;
    const uint64_t begin = host->now_ns(host->host);
    const VkResult result = create(dev, name, text, m);
    clv_log(host, CLV_LOG_DEBUG, "%s: %.60s %s after %.1f ms", dev->label, name,
            result ? "is refused" : "is imported",
            1e-6 * (double)(host->now_ns(host->host) - begin));
    return result;
}

/* Text from the cache that the driver refuses is compiled once more. */
clv_status vk_module_make(clv_plugin_device *dev, const char *name,
                          const char *source, const uint32_t local[3],
                          vk_module *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < 3; i++)
        out->local[i] = local[i] ? local[i] : 1;
    for (int fresh = 0; fresh < 2; fresh++) {
        char *text = NULL;
        CLV_TRY(vk_imports_text(dev, name, source, fresh, &text));
        VkResult result = make(dev, name, text, out);
        clv_free(dev->base.host, text);
        if (!result)
            return CLV_OK;
        if (fresh || vk_result_status(result) == CLV_ERR_DEVICE_LOST)
            return vk_fail(dev, result, "vkCreateCuModuleNVX");
    }
    return CLV_OK;
}

void vk_module_destroy(clv_plugin_device *dev, vk_module *m)
{
    if (m->function)
        dev->api.DestroyCuFunctionNVX(dev->device, m->function, NULL);
    if (m->module)
        dev->api.DestroyCuModuleNVX(dev->device, m->module, NULL);
    m->function = VK_NULL_HANDLE;
    m->module = VK_NULL_HANDLE;
}

/* The kernel's parameters, one behind the other: addresses that are multiples
 * for wide loads, how many bytes behind them the arguments begin, and the rest.
 * Returns their bytes. */
static size_t pack(const vk_launch *launch, uint64_t *to)
{
    int32_t *ints = (int32_t *)(to + launch->n_args);
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const uint64_t behind = launch->args[i] % ALIGN;
        to[i] = launch->args[i] - behind;
        *ints++ = (int32_t)behind;
    }
    memcpy(ints, launch->params, launch->n_params * sizeof *ints);
    return (size_t)((char *)(ints + launch->n_params) - (char *)to);
}

/* They are given as bytes: the driver of 2026 does not return from launches
 * that name each. */
void vk_module_launch(const clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_module *m, const vk_launch *launch)
{
    uint64_t bytes[GPU_MAX_ARGS + GPU_MAX_INTS / 2 + 1];
    size_t size = pack(launch, bytes);
    const void *extras[] = {EXTRA_BYTES, bytes, EXTRA_SIZE, &size, EXTRA_END};
    const VkCuLaunchInfoNVX info = {.sType =
                                        VK_STRUCTURE_TYPE_CU_LAUNCH_INFO_NVX,
                                    .function = m->function,
                                    .gridDimX = launch->groups[0],
                                    .gridDimY = launch->groups[1],
                                    .gridDimZ = launch->groups[2],
                                    .blockDimX = m->local[0],
                                    .blockDimY = m->local[1],
                                    .blockDimZ = m->local[2],
                                    .extraCount = 1,
                                    .pExtras = extras};
    dev->api.CmdCuLaunchKernelNVX(cb, &info);
}
