/*
 * The OpenCL API, opened at run time, so that a plugin loads where there is no
 * loader and can say so. It drives devices for one plugin, and compiles kernels
 * for another.
 */
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <cleave/plugin_util.h>

#include <stdbool.h>

#define OCL_MAX_PLATFORMS 32
#define OCL_MAX_DEVICES 64 /* of all of them */

/* Questions of cl_khr_device_uuid and cl_nv_device_attribute_query. */
#define OCL_DEVICE_UUID 0x106A
#define OCL_NV_CAPABILITY_MAJOR 0x4000
#define OCL_NV_CAPABILITY_MINOR 0x4001

#define OCL_FUNCTIONS(F)                                                       \
    F(BuildProgram)                                                            \
    F(CreateBuffer)                                                            \
    F(CreateCommandQueue)                                                      \
    F(CreateContext)                                                           \
    F(CreateImage)                                                             \
    F(CreateKernel)                                                            \
    F(CreateProgramWithBinary)                                                 \
    F(CreateProgramWithSource)                                                 \
    F(CreateSubBuffer)                                                         \
    F(EnqueueBarrierWithWaitList)                                              \
    F(EnqueueCopyBuffer)                                                       \
    F(EnqueueCopyBufferRect)                                                   \
    F(EnqueueFillBuffer)                                                       \
    F(EnqueueMapBuffer)                                                        \
    F(EnqueueMigrateMemObjects)                                                \
    F(EnqueueMarkerWithWaitList)                                               \
    F(EnqueueNDRangeKernel)                                                    \
    F(EnqueueReadBuffer)                                                       \
    F(EnqueueReadBufferRect)                                                   \
    F(EnqueueUnmapMemObject)                                                   \
    F(EnqueueWriteBuffer)                                                      \
    F(EnqueueWriteBufferRect)                                                  \
    F(Finish)                                                                  \
    F(Flush)                                                                   \
    F(GetDeviceIDs)                                                            \
    F(GetDeviceInfo)                                                           \
    F(GetEventInfo)                                                            \
    F(GetEventProfilingInfo)                                                   \
    F(GetKernelWorkGroupInfo)                                                  \
    F(GetPlatformIDs)                                                          \
    F(GetPlatformInfo)                                                         \
    F(GetProgramBuildInfo)                                                     \
    F(GetProgramInfo)                                                          \
    F(GetSupportedImageFormats)                                                \
    F(ReleaseCommandQueue)                                                     \
    F(ReleaseContext)                                                          \
    F(ReleaseEvent)                                                            \
    F(ReleaseKernel)                                                           \
    F(ReleaseMemObject)                                                        \
    F(ReleaseProgram)                                                          \
    F(RetainEvent)                                                             \
    F(SetKernelArg)                                                            \
    F(WaitForEvents)

typedef struct ocl_api {
#define OCL_DECLARE(name) __typeof__(&cl##name) name;
    OCL_FUNCTIONS(OCL_DECLARE)
#undef OCL_DECLARE
} ocl_api;

/* The loader, opened by the first call and never closed: drivers leave threads
 * behind. NULL: there is none, and *reason says why. path: "" for the system's.
 */
const ocl_api *ocl_load(const char *path, const char **reason);

/* Of an NVIDIA device, as 10 times the major and the minor; 0: it is none. */
uint32_t ocl_compute_capability(const ocl_api *cl, cl_platform_id platform,
                                cl_device_id device);

/* Whether the words of a device's extensions have it. */
bool ocl_extension_among(const char *extensions, const char *name);

/* "CL_OUT_OF_RESOURCES" of -5; "OpenCL error -9999" of what has no name. */
const char *ocl_error_name(cl_int error);

/* What a failed call means for us. */
clv_status ocl_status(cl_int error);

/* set_error of a failed call: "what: CL_NAME; remedy". Returns its status. */
__attribute__((format(printf, 3, 4))) clv_status
ocl_fail(const clv_host_api *host, cl_int error, const char *format, ...);

/* The compiler's words, line by line to the host's log; the first that names an
 * error, or the first, to `first`. */
void ocl_log_words(const clv_host_api *host, const ocl_api *cl,
                   cl_program program, cl_device_id device, char *first,
                   size_t first_size);

/* The driver's code of a program for one device, for clv_free(); *out NULL: it
 * gives none. */
clv_status ocl_binary(const clv_host_api *host, const ocl_api *cl,
                      cl_program program, unsigned char **out, size_t *size);
