#include "compiler.h"

#include <cl.h>
#include <handlers.h>

#define OPTIONS "-cl-std=CL1.2 -w"

struct vk_compiler {
    const ocl_api *cl;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
};

/* ------------------------------------------------------------------------ */
/* Opening                                                                  */

/* Devices are the same if their identities are. */
static bool find_on(const ocl_api *cl, cl_platform_id platform,
                    const uint8_t uuid[VK_UUID_SIZE], cl_device_id *out)
{
    cl_device_id ids[OCL_MAX_DEVICES];
    uint8_t its[VK_UUID_SIZE];
    cl_uint n = 0;
    if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, OCL_MAX_DEVICES, ids,
                         &n))
        return false;
    for (cl_uint i = 0; i < n && i < OCL_MAX_DEVICES; i++) {
        *out = ids[i];
        if (!cl->GetDeviceInfo(ids[i], OCL_DEVICE_UUID, sizeof its, its,
                               NULL) &&
            !memcmp(its, uuid, sizeof its))
            return true;
    }
    return false;
}

static bool find(const uint8_t uuid[VK_UUID_SIZE], struct vk_compiler *c)
{
    cl_platform_id platforms[OCL_MAX_PLATFORMS];
    gpu_handlers handlers;
    cl_uint n = 0;
    bool found = false;
    gpu_handlers_keep(&handlers);
    if (c->cl->GetPlatformIDs(OCL_MAX_PLATFORMS, platforms, &n))
        n = 0;
    for (cl_uint i = 0; i < n && i < OCL_MAX_PLATFORMS && !found; i++) {
        c->platform = platforms[i];
        found = find_on(c->cl, platforms[i], uuid, &c->device);
    }
    gpu_handlers_restore(&handlers);
    return found;
}

static clv_status open_context(clv_plugin_device *dev, struct vk_compiler *c)
{
    const char *why;
    c->cl = ocl_load("", &why);
    if (!c->cl)
        return clv_fail(dev->base.host, CLV_ERR_NOT_FOUND, "%s: %s", dev->label,
                        why);
    if (!find(dev->phys->info.uuid, c))
        return clv_fail(dev->base.host, CLV_ERR_NOT_FOUND,
                        "%s: OpenCL does not have this device; install the "
                        "OpenCL part of its driver",
                        dev->label);
    cl_int error = CL_SUCCESS;
    const cl_context_properties properties[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)c->platform, 0};
    c->context =
        c->cl->CreateContext(properties, 1, &c->device, NULL, NULL, &error);
    return c->context ? CLV_OK
                      : ocl_fail(dev->base.host, error,
                                 "%s: opening it for its compiler", dev->label);
}

/* With the lock held. */
static clv_status open_compiler(clv_plugin_device *dev)
{
    struct vk_compiler *c = clv_new(dev->base.host, sizeof *c);
    if (!c)
        return CLV_ERR_NO_MEMORY;
    clv_status status = open_context(dev, c);
    if (status)
        clv_free(dev->base.host, c);
    else
        dev->compiler = c;
    return status;
}

static clv_status get(clv_plugin_device *dev, struct vk_compiler **out)
{
    pthread_mutex_lock(&dev->compiler_lock);
    clv_status status = dev->compiler ? CLV_OK : open_compiler(dev);
    *out = dev->compiler;
    pthread_mutex_unlock(&dev->compiler_lock);
    return status;
}

void vk_compiler_close(clv_plugin_device *dev)
{
    if (!dev->compiler)
        return;
    dev->compiler->cl->ReleaseContext(dev->compiler->context);
    clv_free(dev->base.host, dev->compiler);
    dev->compiler = NULL;
}

/* ------------------------------------------------------------------------ */
/* Asking                                                                   */

clv_status vk_compiler_describe(clv_plugin_device *dev, vk_opencl_device *out)
{
    const clv_host_api *host = dev->base.host;
    struct vk_compiler *c;
    size_t size = 0;
    cl_ulong most = 0;
    CLV_TRY(get(dev, &c));
    cl_int error =
        c->cl->GetDeviceInfo(c->device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
    char *extensions = clv_new(host, size + 1);
    if (!extensions)
        return CLV_ERR_NO_MEMORY;
    if (!error)
        error = c->cl->GetDeviceInfo(c->device, CL_DEVICE_EXTENSIONS, size,
                                     extensions, NULL);
    if (!error)
        error = c->cl->GetDeviceInfo(c->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                                     sizeof most, &most, NULL);
    *out = (vk_opencl_device){
        .capability = ocl_compute_capability(c->cl, c->platform, c->device),
        .max_alloc = most,
        .fp16 = ocl_extension_among(extensions, "cl_khr_fp16"),
        .int_dot =
            ocl_extension_among(extensions, "cl_khr_integer_dot_product")};
    clv_free(host, extensions);
    return error
               ? ocl_fail(host, error, "%s: asking OpenCL about it", dev->label)
               : CLV_OK;
}

static clv_status read_ptx(clv_plugin_device *dev, const struct vk_compiler *c,
                           cl_program program, char **ptx)
{
    const clv_host_api *host = dev->base.host;
    unsigned char *code;
    size_t size;
    CLV_TRY(ocl_binary(host, c->cl, program, &code, &size));
    if (!code)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "%s: OpenCL does not give what it compiled",
                        dev->label);
    *ptx = clv_new(host, size + 1);
    if (*ptx)
        memcpy(*ptx, code, size);
    clv_free(host, code);
    return *ptx ? CLV_OK : CLV_ERR_NO_MEMORY;
}

static clv_status build(clv_plugin_device *dev, const struct vk_compiler *c,
                        const char *name, cl_program program, char **ptx)
{
    const clv_host_api *host = dev->base.host;
    char first[200] = "the compiler says nothing";
    cl_int error =
        c->cl->BuildProgram(program, 1, &c->device, OPTIONS, NULL, NULL);
    ocl_log_words(host, c->cl, program, c->device, first, sizeof first);
    if (error)
        return clv_fail(host,
                        error == CL_OUT_OF_HOST_MEMORY ? CLV_ERR_NO_MEMORY
                                                       : CLV_ERR_INTERNAL,
                        "%s: kernel %.60s does not compile: %s", dev->label,
                        name, first);
    return read_ptx(dev, c, program, ptx);
}

clv_status vk_compiler_build(clv_plugin_device *dev, const char *name,
                             const char *source, char **ptx)
{
    struct vk_compiler *c;
    cl_int error = CL_SUCCESS;
    CLV_TRY(get(dev, &c));
    cl_program program =
        c->cl->CreateProgramWithSource(c->context, 1, &source, NULL, &error);
    if (!program)
        return ocl_fail(dev->base.host, error, "%s: kernel %.60s", dev->label,
                        name);
    clv_status status = build(dev, c, name, program, ptx);
    c->cl->ReleaseProgram(program);
    return status;
}
