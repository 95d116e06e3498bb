#include "cl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ocl_api loaded;
static void *library;
static char failure[256];

static bool find_all(void *lib)
{
#define FIND(name)                                                             \
    if (!(*(void **)&loaded.name = dlsym(lib, "cl" #name))) {                  \
        snprintf(failure, sizeof failure,                                      \
                 "no OpenCL loader: the one found lacks cl" #name              \
                 "(); install one for OpenCL 1.2 or newer");                   \
        return false;                                                          \
    }
    OCL_FUNCTIONS(FIND)
#undef FIND
    return true;
}

const ocl_api *ocl_load(const char *path, const char **reason)
{
    pthread_mutex_lock(&lock);
    if (!library) {
        const char *name = path && path[0] ? path : "libOpenCL.so.1";
        void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        const char *why = lib ? NULL : dlerror();
        if (!lib)
            snprintf(failure, sizeof failure,
                     "no OpenCL loader: %.120s; install ocl-icd-libopencl1, or "
                     "name one by opencl.loader",
                     why ? why : name);
        else if (find_all(lib))
            library = lib;
        else
            dlclose(lib);
    }
    const ocl_api *api = library ? &loaded : NULL;
    *reason = failure;
    pthread_mutex_unlock(&lock);
    return api;
}

uint32_t ocl_compute_capability(const ocl_api *cl, cl_platform_id platform,
                                cl_device_id device)
{
    char name[128] = "";
    cl_uint major = 0, minor = 0;
    if (cl->GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name,
                            NULL) ||
        !strstr(name, "NVIDIA") ||
        cl->GetDeviceInfo(device, OCL_NV_CAPABILITY_MAJOR, sizeof major, &major,
                          NULL) ||
        cl->GetDeviceInfo(device, OCL_NV_CAPABILITY_MINOR, sizeof minor, &minor,
                          NULL))
        return 0;
    return major * 10 + minor;
}

bool ocl_extension_among(const char *extensions, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = extensions; (p = strstr(p, name)); p += n)
        if ((p == extensions || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

const char *ocl_error_name(cl_int error)
{
    switch (error) {
#define NAME(code)                                                             \
    case code:                                                                 \
        return #code
        NAME(CL_SUCCESS);
        NAME(CL_DEVICE_NOT_FOUND);
        NAME(CL_DEVICE_NOT_AVAILABLE);
        NAME(CL_COMPILER_NOT_AVAILABLE);
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        NAME(CL_OUT_OF_RESOURCES);
        NAME(CL_OUT_OF_HOST_MEMORY);
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE);
        NAME(CL_MEM_COPY_OVERLAP);
        NAME(CL_BUILD_PROGRAM_FAILURE);
        NAME(CL_MAP_FAILURE);
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET);
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        NAME(CL_INVALID_VALUE);
        NAME(CL_INVALID_DEVICE);
        NAME(CL_INVALID_CONTEXT);
        NAME(CL_INVALID_COMMAND_QUEUE);
        NAME(CL_INVALID_HOST_PTR);
        NAME(CL_INVALID_MEM_OBJECT);
        NAME(CL_INVALID_BINARY);
        NAME(CL_INVALID_BUILD_OPTIONS);
        NAME(CL_INVALID_PROGRAM);
        NAME(CL_INVALID_PROGRAM_EXECUTABLE);
        NAME(CL_INVALID_KERNEL_NAME);
        NAME(CL_INVALID_KERNEL);
        NAME(CL_INVALID_ARG_INDEX);
        NAME(CL_INVALID_ARG_VALUE);
        NAME(CL_INVALID_ARG_SIZE);
        NAME(CL_INVALID_KERNEL_ARGS);
        NAME(CL_INVALID_WORK_DIMENSION);
    case -9999:
        return "NVIDIA: memory was read or written past its end";
        NAME(CL_INVALID_WORK_GROUP_SIZE);
        NAME(CL_INVALID_WORK_ITEM_SIZE);
        NAME(CL_INVALID_GLOBAL_WORK_SIZE);
        NAME(CL_INVALID_EVENT);
        NAME(CL_INVALID_OPERATION);
        NAME(CL_INVALID_BUFFER_SIZE);
#undef NAME
    default:
        return "an error without a name";
    }
}

clv_status ocl_status(cl_int error)
{
    switch (error) {
    case CL_SUCCESS:
        return CLV_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
        return CLV_ERR_NO_MEMORY;
    case CL_INVALID_BUFFER_SIZE:
        return CLV_ERR_LIMIT;
    case CL_OUT_OF_RESOURCES: /* what drivers say after a fault */
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_CONTEXT:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
        return CLV_ERR_DEVICE_LOST;
    default: /* those without a name are a driver's own: faults in kernels */
        return error <= -1000 ? CLV_ERR_DEVICE_LOST : CLV_ERR_INTERNAL;
    }
}

static const char *remedy(clv_status status)
{
    switch (status) {
    case CLV_ERR_NO_MEMORY:
        return "; use a smaller model or close other programs";
    case CLV_ERR_LIMIT:
        return "; use smaller buffers";
    case CLV_ERR_DEVICE_LOST:
        return "; the device is lost, open it again or leave it out";
    default:
        return "";
    }
}

clv_status ocl_fail(const clv_host_api *host, cl_int error, const char *format,
                    ...)
{
    char what[320], text[512];
    clv_status status = ocl_status(error);
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%s: %s (%d)%s", what, ocl_error_name(error),
             (int)error, remedy(status));
    return host->set_error(host->host, status, error, text);
}

void ocl_log_words(const clv_host_api *host, const ocl_api *cl,
                   cl_program program, cl_device_id device, char *first,
                   size_t first_size)
{
    size_t size = 0;
    cl->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL,
                            &size);
    char *log = size > 1 && size < 1 << 24
                    ? host->alloc(host->host, size + 1, 64)
                    : NULL;
    if (log && !cl->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG,
                                        size, log, NULL)) {
        log[size] = 0;
        const char *at = strstr(log, "error");
        while (at && at > log && at[-1] != '\n')
            at--;
        at = at ? at : log;
        snprintf(first, first_size, "%.*s", (int)strcspn(at, "\n"), at);
        for (char *line = log, *end; *line; line = end) {
            end = line + strcspn(line, "\n");
            if (*end)
                *end++ = 0;
            host->log(host->host, CLV_LOG_DEBUG, NULL, 0, line);
        }
    }
    clv_free(host, log);
}

clv_status ocl_binary(const clv_host_api *host, const ocl_api *cl,
                      cl_program program, unsigned char **out, size_t *size)
{
    *out = NULL;
    *size = 0;
    if (cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size,
                           NULL) ||
        !*size)
        return CLV_OK;
    unsigned char *code = clv_new(host, *size);
    if (!code)
        return CLV_ERR_NO_MEMORY;
    if (!cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof code, &code,
                            NULL))
        *out = code;
    else
        clv_free(host, code);
    return CLV_OK;
}
