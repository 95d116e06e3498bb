/*
 * OpenCL that is faulty, as environment variables say. The rest is the real
 * loader's, which this is linked with.
 *
 * CLEAVE_TEST_FAILING="clWaitForEvents 5 -5" has the fifth call of that
 * function in the process, and all later ones, answer -5; those that wait do so
 * first, as a lost device does nothing any more. CLEAVE_TEST_WRONG=gemv,gemm:
 * kernels of these names do nothing. CLEAVE_TEST_SLOW=gemv: kernels of such
 * names take 20 times as long, as their events say. CLEAVE_TEST_CAPABILITY=9:
 * platforms are NVIDIA's, and devices of that major compute capability.
 * CLEAVE_TEST_PTX: a program's binary is PTX, and what is made of that again is
 * the program that it came from; marked assembly is left out.
 * CLEAVE_TEST_PTX=refused: nothing is made of it.
 * CLEAVE_TEST_PITCHES: of rectangles only those are taken whose rows begin and
 * end inside a pitch, and whose last pitch lies in the buffer, as by NVIDIA.
 * CLEAVE_TEST_POLLING: waits for events poll, and in the end it is told how
 * many of them had to wait.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Whether the variable names the kernel, itself or among others. */
static bool is_named(cl_kernel kernel, const char *variable)
{
    char name[128] = "";
    const char *wanted = getenv(variable);
    if (!wanted || !*wanted ||
        clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name,
                        NULL))
        return false;
    const size_t n = strlen(name);
    for (size_t length; *wanted; wanted += length + (wanted[length] == ',')) {
        length = strcspn(wanted, ",");
        if (length == n && !strncmp(wanted, name, n))
            return true;
    }
    return false;
}

/* Of cl_nv_device_attribute_query. */
#define NV_MAJOR 0x4000
#define NV_MINOR 0x4001

#define MAX_SLOW 4096
static _Atomic(cl_event) slow[MAX_SLOW]; /* the latest */
static atomic_uint n_slow;

EXPORT CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(
    cl_command_queue q, cl_kernel k, cl_uint n, const size_t *from,
    const size_t *global, const size_t *local, cl_uint n_waits,
    const cl_event *waits, cl_event *event)
{
    static atomic_int calls;
    cl_int error;
    cl_int(CL_API_CALL * real)(cl_command_queue, cl_kernel, cl_uint,
                               const size_t *, const size_t *, const size_t *,
                               cl_uint, const cl_event *, cl_event *);
    *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    if (fails("clEnqueueNDRangeKernel", &calls, &error))
        return error;
    if (is_named(k, "CLEAVE_TEST_WRONG"))
        return clEnqueueMarkerWithWaitList(q, n_waits, waits, event);
    error = real(q, k, n, from, global, local, n_waits, waits, event);
    if (!error && event && is_named(k, "CLEAVE_TEST_SLOW"))
        slow[atomic_fetch_add(&n_slow, 1) % MAX_SLOW] = *event;
    return error;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size,
                        void *value, size_t *size_out)
{
    cl_ulong begin, end;
    cl_int(CL_API_CALL * real)(cl_event, cl_profiling_info, size_t, void *,
                               size_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "clGetEventProfilingInfo");
    cl_int error = real(event, what, size, value, size_out);
    if (error || what != CL_PROFILING_COMMAND_START)
        return error;
    for (unsigned i = 0; i < MAX_SLOW; i++)
        if (slow[i] == event &&
            !real(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL)) {
            memcpy(&begin, value, sizeof begin);
            begin = end - 20 * (end - begin);
            memcpy(value, &begin, sizeof begin);
            break;
        }
    return CL_SUCCESS;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL
clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size,
                  void *value, size_t *size_out)
{
    static const char name[] = "NVIDIA, portable";
    cl_int(CL_API_CALL * real)(cl_platform_id, cl_platform_info, size_t, void *,
                               size_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "clGetPlatformInfo");
    if (what != CL_PLATFORM_NAME || !getenv("CLEAVE_TEST_CAPABILITY"))
        return real(platform, what, size, value, size_out);
    if (size_out)
        *size_out = sizeof name;
    if (value && size >= sizeof name)
        memcpy(value, name, sizeof name);
    return CL_SUCCESS;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device,
                                                       cl_device_info what,
                                                       size_t size, void *value,
                                                       size_t *size_out)
{
    const char *capability = getenv("CLEAVE_TEST_CAPABILITY");
    cl_int(CL_API_CALL * real)(cl_device_id, cl_device_info, size_t, void *,
                               size_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "clGetDeviceInfo");
    if (!capability || (what != NV_MAJOR && what != NV_MINOR))
        return real(device, what, size, value, size_out);
    const cl_uint answer =
        what == NV_MAJOR ? (cl_uint)strtoul(capability, NULL, 10) : 0;
    memcpy(value, &answer, sizeof answer);
    return CL_SUCCESS;
}

EXPORT CL_API_ENTRY cl_program CL_API_CALL
clCreateProgramWithSource(cl_context context, cl_uint n, const char **texts,
                          const size_t *sizes, cl_int *error)
{
    cl_program(CL_API_CALL * real)(cl_context, cl_uint, const char **,
                                   const size_t *, cl_int *);
    *(void **)&real = dlsym(RTLD_NEXT, "clCreateProgramWithSource");
    char *text = getenv("CLEAVE_TEST_PTX") ? strdup(texts[0]) : NULL;
    for (char *at = text; at && (at = strstr(at, "asm volatile(\"//@"));)
        memset(at, ' ', strcspn(at, "\n"));
    cl_program p =
        real(context, n, text ? (const char *[]){text} : texts, sizes, error);
    free(text);
    return p;
}

/* The PTX of a program: who has it, and where. */
static int write_ptx(char *text, size_t size, cl_program p)
{
    return snprintf(text, size, ".version 7.0\n.target sm_90\n//@%d %llu\n",
                    (int)getpid(), (unsigned long long)(uintptr_t)p);
}

/* The program stays for good, since its address is in the PTX. */
static cl_int answer_ptx(cl_program p, cl_program_info what, void *value,
                         size_t *size_out)
{
    char text[128];
    const size_t n = (size_t)write_ptx(text, sizeof text, p);
    if (what == CL_PROGRAM_BINARIES) {
        memcpy(*(unsigned char **)value, text, n);
        return clRetainProgram(p);
    }
    memcpy(value, &n, sizeof n);
    if (size_out)
        *size_out = sizeof n;
    return CL_SUCCESS;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetProgramInfo(cl_program p,
                                                        cl_program_info what,
                                                        size_t size,
                                                        void *value,
                                                        size_t *size_out)
{
    cl_int(CL_API_CALL * real)(cl_program, cl_program_info, size_t, void *,
                               size_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "clGetProgramInfo");
    if (getenv("CLEAVE_TEST_PTX") && value &&
        (what == CL_PROGRAM_BINARY_SIZES || what == CL_PROGRAM_BINARIES))
        return answer_ptx(p, what, value, size_out);
    return real(p, what, size, value, size_out);
}

EXPORT CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithBinary(
    cl_context context, cl_uint n, const cl_device_id *devices,
    const size_t *sizes, const unsigned char **codes, cl_int *status,
    cl_int *error)
{
    int process;
    unsigned long long at;
    cl_program(CL_API_CALL * real)(cl_context, cl_uint, const cl_device_id *,
                                   const size_t *, const unsigned char **,
                                   cl_int *, cl_int *);
    *(void **)&real = dlsym(RTLD_NEXT, "clCreateProgramWithBinary");
    if (!getenv("CLEAVE_TEST_PTX"))
        return real(context, n, devices, sizes, codes, status, error);
    *error = CL_INVALID_BINARY;
    if (sscanf((const char *)codes[0], ".version 8.0 .target sm_90a %d %llu",
               &process, &at) != 2 ||
        process != (int)getpid() ||
        !strcmp(getenv("CLEAVE_TEST_PTX"), "refused"))
        return NULL;
    cl_program p = (cl_program)(uintptr_t)at;
    *status = *error = clRetainProgram(p);
    return p;
}

FAILING(clBuildProgram,
        (cl_program p, cl_uint n, const cl_device_id *devices,
         const char *options, void(CL_CALLBACK *done)(cl_program, void *),
         void *data),
        p, n, devices, options, done, data)
FAILING(clFlush, (cl_command_queue q), q)

/* Whether the driver takes rows of such a side. mem: NULL for the host's. */
static bool fits(cl_mem mem, const size_t *origin, const size_t *region,
                 size_t pitch)
{
    size_t size = SIZE_MAX;
    if (!getenv("CLEAVE_TEST_PITCHES"))
        return true;
    if (mem)
        clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof size, &size, NULL);
    return origin[0] + region[0] <= pitch &&
           (origin[1] + region[1]) * pitch <= size;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clEnqueueReadBufferRect(
    cl_command_queue q, cl_mem mem, cl_bool blocking, const size_t *at,
    const size_t *host_at, const size_t *region, size_t pitch, size_t slice,
    size_t host_pitch, size_t host_slice, void *host, cl_uint n,
    const cl_event *waits, cl_event *event)
{
    __typeof__(&clEnqueueReadBufferRect) real;
    *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueReadBufferRect");
    return fits(mem, at, region, pitch) &&
                   fits(NULL, host_at, region, host_pitch)
               ? real(q, mem, blocking, at, host_at, region, pitch, slice,
                      host_pitch, host_slice, host, n, waits, event)
               : CL_INVALID_VALUE;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clEnqueueWriteBufferRect(
    cl_command_queue q, cl_mem mem, cl_bool blocking, const size_t *at,
    const size_t *host_at, const size_t *region, size_t pitch, size_t slice,
    size_t host_pitch, size_t host_slice, const void *host, cl_uint n,
    const cl_event *waits, cl_event *event)
{
    __typeof__(&clEnqueueWriteBufferRect) real;
    *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueWriteBufferRect");
    return fits(mem, at, region, pitch) &&
                   fits(NULL, host_at, region, host_pitch)
               ? real(q, mem, blocking, at, host_at, region, pitch, slice,
                      host_pitch, host_slice, host, n, waits, event)
               : CL_INVALID_VALUE;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clEnqueueCopyBufferRect(
    cl_command_queue q, cl_mem src, cl_mem dst, const size_t *from,
    const size_t *to, const size_t *region, size_t src_pitch, size_t src_slice,
    size_t dst_pitch, size_t dst_slice, cl_uint n, const cl_event *waits,
    cl_event *event)
{
    __typeof__(&clEnqueueCopyBufferRect) real;
    *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueCopyBufferRect");
    return fits(src, from, region, src_pitch) &&
                   fits(dst, to, region, dst_pitch)
               ? real(q, src, dst, from, to, region, src_pitch, src_slice,
                      dst_pitch, dst_slice, n, waits, event)
               : CL_INVALID_VALUE;
}

static atomic_uint n_waits, n_polled;

static void poll_for(cl_event event)
{
    cl_int status = CL_QUEUED;
    unsigned rounds = 0;
    while (!clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                           sizeof status, &status, NULL) &&
           status > CL_COMPLETE)
        rounds++;
    atomic_fetch_add(&n_waits, 1);
    atomic_fetch_add(&n_polled, rounds > 0);
}

__attribute__((destructor)) static void tell_waits(void)
{
    if (getenv("CLEAVE_TEST_POLLING"))
        fprintf(stderr, "%u of %u waits had to wait\n", n_polled, n_waits);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clWaitForEvents(cl_uint n,
                                                       const cl_event *events)
{
    static atomic_int calls;
    cl_int error;
    cl_int(CL_API_CALL * real)(cl_uint, const cl_event *);
    *(void **)&real = dlsym(RTLD_NEXT, "clWaitForEvents");
    for (cl_uint i = 0; i < n && getenv("CLEAVE_TEST_POLLING"); i++)
        poll_for(events[i]);
    cl_int answer = real(n, events);
    return fails("clWaitForEvents", &calls, &error) ? error : answer;
}
