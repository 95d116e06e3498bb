#include "imports.h"

#include "compiler.h"
#include "module.h"

#include <entry.h>
#include <ptx.h>

static const char *option(const clv_plugin_device *dev, const char *key)
{
    const clv_host_api *host = dev->base.host;
    const char *value = host->option(host->host, key);
    return value ? value : "";
}

static bool option_is(const clv_plugin_device *dev, const char *key,
                      const char *value)
{
    return !strcmp(option(dev, key), value);
}

/* ------------------------------------------------------------------------ */
/* Whether                                                                  */

static bool wants_buffers(const clv_plugin_device *dev, const char *key)
{
    return option_is(dev, key, "auto") || option_is(dev, key, "buffer");
}

/* NULL: nothing speaks against it. */
static const char *find_obstacle(const clv_plugin_device *dev)
{
    if (!dev->phys->binary_import)
        return "the driver has no VK_NVX_binary_import";
    if (!option_is(dev, "matrix", "auto"))
        return "vulkan.matrix is of kernels in GLSL";
    if (!wants_buffers(dev, "storage") || !wants_buffers(dev, "weights"))
        return "vulkan.storage and vulkan.weights ask for images";
    return NULL;
}

clv_status vk_imports_wanted(clv_plugin_device *dev, bool *wanted)
{
    const char *obstacle = find_obstacle(dev);
    *wanted = !obstacle && !option_is(dev, "ptx", "off");
    if (obstacle && option_is(dev, "ptx", "on"))
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "%s: ptx = on: %s; use auto", dev->label, obstacle);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* What the device is to kernels in OpenCL C                                */

/* From the cache, so that OpenCL need not be opened. */
static bool load_answers(const gpu_entry *entry, vk_opencl_device *out)
{
    uint64_t size = 0;
    vk_opencl_device *stored = gpu_entry_get(entry, &size);
    const bool good = stored && size == sizeof *out;
    if (good)
        memcpy(out, stored, sizeof *out);
    clv_free(entry->host, stored);
    return good;
}

static clv_status describe(clv_plugin_device *dev, vk_opencl_device *out)
{
    const gpu_entry entry = {dev->base.host, "opencl", dev->identity, ""};
    if (load_answers(&entry, out))
        return CLV_OK;
    CLV_TRY(vk_compiler_describe(dev, out));
    gpu_entry_put(&entry, out, sizeof *out);
    return CLV_OK;
}

/* Whether the driver takes such a kernel. An error: the device is lost, or the
 * host's memory ran out. */
static clv_status try_import(clv_plugin_device *dev, const char *name,
                             const char *source, bool *takes)
{
    vk_module module;
    const uint32_t local[3] = {128, 1, 1};
    const clv_status status = vk_module_make(dev, name, source, local, &module);
    *takes = !status;
    if (!status)
        vk_module_destroy(dev, &module);
    return status == CLV_ERR_NO_MEMORY || status == CLV_ERR_DEVICE_LOST
               ? status
               : CLV_OK;
}

/* Local memory of kernels by warp groups; 0: the driver does not take those. */
static clv_status find_wgmma(clv_plugin_device *dev, uint32_t *bytes)
{
    bool takes;
    CLV_TRY(try_import(dev, GPU_PTX_PROBE, gpu_ptx_probe, &takes));
    *bytes = takes ? GPU_PTX_WGMMA_BYTES : 0;
    if (!takes)
        clv_log(dev->base.host, CLV_LOG_WARN,
                "%s: products by warp groups cannot be had of this driver, "
                "those by warps are used",
                dev->label);
    return CLV_OK;
}

/* With compute capability and a kernel that has nothing special. */
static clv_status check_imports(clv_plugin_device *dev,
                                const vk_opencl_device *answers)
{
    static const char plain[] = "__kernel void plain(__global uint *p)\n"
                                "{\n"
                                "    p[get_global_id(0)] = 1u;\n"
                                "}\n";
    bool takes;
    if (answers->capability < GPU_PTX_LEAST)
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "%s: it has no compute capability of 8.0", dev->label);
    CLV_TRY(try_import(dev, "plain", plain, &takes));
    return takes ? CLV_OK
                 : clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                            "%s: the driver does not take what its OpenCL "
                            "compiles",
                            dev->label);
}

static clv_status describe_target(clv_plugin_device *dev,
                                  const vk_opencl_device *answers)
{
    gpu_target *t = &dev->target;
    CLV_TRY(check_imports(dev, answers));
    if (answers->capability == GPU_PTX_WGMMA)
        CLV_TRY(find_wgmma(dev, &t->wgmma_bytes));
    t->language = GPU_OPENCL_C;
    t->nvidia_ptx = true;
    t->series = option_is(dev, "series", "on");
    t->repeats = UINT32_MAX; /* as many as there are arguments for */
    t->fp16 = answers->fp16;
    t->fp16_storage = t->int8_storage = true;
    t->int_dot = answers->int_dot;
    t->coop_matrix = t->coop_bytes = t->plain_matrix = false;
    t->subgroup = 0;
    t->max_binding = answers->max_alloc;
    memset(t->image, 0, sizeof t->image);
    memset(t->image_halves, 0, sizeof t->image_halves);
    return CLV_OK;
}

clv_status vk_imports_start(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    const bool asked_for = option_is(dev, "ptx", "on");
    const size_t n = strlen(dev->identity);
    vk_opencl_device answers;
    clv_status status = describe(dev, &answers);
    /* Older devices have nothing to gain. */
    if (!status && answers.capability < GPU_PTX_LEAST && !asked_for)
        return CLV_OK;
    if (!status)
        status = describe_target(dev, &answers);
    dev->imports = !status;
    if (dev->imports)
        snprintf(dev->identity + n, sizeof dev->identity - n, "\nptx");
    if (!status || status == CLV_ERR_NO_MEMORY ||
        status == CLV_ERR_DEVICE_LOST || asked_for)
        return status;
    clv_log(host, CLV_LOG_WARN,
            "%s: kernels are in GLSL, and slower, since %s; vulkan.ptx=off "
            "leaves this out",
            dev->label,
            status == CLV_ERR_NOT_FOUND
                ? "there is no OpenCL for the device, which compiles those in "
                  "PTX: install that of its driver"
                : "the driver does not take those in PTX");
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Text                                                                     */

static clv_status make_text(clv_plugin_device *dev, const char *name,
                            const char *source, char **text)
{
    const clv_host_api *host = dev->base.host;
    const char *why = NULL;
    char *ptx, *opened = NULL;
    CLV_TRY(vk_compiler_build(dev, name, source, &ptx));
    if (gpu_ptx_is_closed(source))
        opened = gpu_ptx_open(host, ptx, strlen(ptx), &why);
    else
        opened = ptx;
    *text = opened ? gpu_ptx_detach(host, opened, &why) : NULL;
    if (opened != ptx)
        clv_free(host, opened);
    clv_free(host, ptx);
    if (*text)
        return CLV_OK;
    if (!why)
        return CLV_ERR_NO_MEMORY;
    return clv_fail(host, CLV_ERR_UNSUPPORTED,
                    "%s: kernel %.60s cannot be imported: %s", dev->label, name,
                    why);
}

clv_status vk_imports_text(clv_plugin_device *dev, const char *name,
                           const char *source, bool fresh, char **text)
{
    const gpu_entry entry = {dev->base.host, "ptx", dev->identity, source};
    uint64_t size = 0;
    *text = fresh ? NULL : gpu_entry_get(&entry, &size);
    if (*text)
        return CLV_OK;
    CLV_TRY(make_text(dev, name, source, text));
    gpu_entry_put(&entry, *text, strlen(*text));
    return CLV_OK;
}
