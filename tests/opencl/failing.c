/*
 * OpenCL whose calls fail: CLEAVE_TEST_FAILING="clWaitForEvents 5 -5" has the
 * fifth call of that function in the process, and all later ones, answer -5;
 * those that wait do so first, as a lost device does nothing any more. The rest
 * is the real loader's, which this is linked with.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* So that the linker keeps the loader. */
EXPORT void *const failing_keeps = (void *)clGetPlatformIDs;

/* Of one function; others never fail. */
static bool fails(const char *function, atomic_int *calls, cl_int *error)
{
    char name[64];
    int first, code;
    const char *text = getenv("CLEAVE_TEST_FAILING");
    if (!text || sscanf(text, "%63s %d %d", name, &first, &code) != 3 ||
        strcmp(name, function) != 0 || atomic_fetch_add(calls, 1) + 1 < first)
        return false;
    *error = code;
    return true;
}

#define FAILING(name, parameters, ...)                                         \
    EXPORT CL_API_ENTRY cl_int CL_API_CALL name parameters                     \
    {                                                                          \
        static atomic_int calls;                                               \
        cl_int error;                                                          \
        cl_int(CL_API_CALL *real) parameters;                                  \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                             \
        return fails(#name, &calls, &error) ? error : real(__VA_ARGS__);       \
    }

FAILING(clEnqueueNDRangeKernel,
        (cl_command_queue q, cl_kernel k, cl_uint n, const size_t *from,
         const size_t *global, const size_t *local, cl_uint n_waits,
         const cl_event *waits, cl_event *event),
        q, k, n, from, global, local, n_waits, waits, event)
FAILING(clBuildProgram,
        (cl_program p, cl_uint n, const cl_device_id *devices,
         const char *options, void(CL_CALLBACK *done)(cl_program, void *),
         void *data),
        p, n, devices, options, done, data)
FAILING(clFlush, (cl_command_queue q), q)

EXPORT CL_API_ENTRY cl_int CL_API_CALL clWaitForEvents(cl_uint n,
                                                       const cl_event *events)
{
    static atomic_int calls;
    cl_int error;
    cl_int(CL_API_CALL * real)(cl_uint, const cl_event *);
    *(void **)&real = dlsym(RTLD_NEXT, "clWaitForEvents");
    cl_int answer = real(n, events);
    return fails("clWaitForEvents", &calls, &error) ? error : answer;
}
