#include "runner.h"
#include "glsl.h"
#include "ptx.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MAX_KERNELS 256
#define MARGIN                                                                 \
    64 /* bytes below and above each tensor, that nobody may write             \
        */

typedef struct built {
    char *source;
    cl_program program;
    cl_kernel kernel;
} built;

struct runner {
    gpu_target target;
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    uint32_t shifted; /* the input of runner_shift() */
    built kernels[MAX_KERNELS];
    uint32_t n_kernels;
    char *glsl[MAX_KERNELS];
    uint32_t n_glsl;
};

runner *runner_open(gpu_target *target)
{
    cl_platform_id platform;
    cl_uint n = 0;
    cl_int status;
    runner *r = calloc(1, sizeof *r);
    assert_non_null(r);
    if (clGetPlatformIDs(1, &platform, &n) || !n ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &r->device, &n) || !n) {
        free(r);
        return NULL;
    }
    target->language = GPU_OPENCL_C;
    r->target = *target;
    r->shifted = UINT32_MAX;
    r->context = clCreateContext(NULL, 1, &r->device, NULL, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    r->queue = clCreateCommandQueue(r->context, r->device, 0, &status);
    assert_int_equal(status, CL_SUCCESS);
    return r;
}

void runner_set(runner *r, const gpu_target *target)
{
    r->target = *target;
    r->target.language = GPU_OPENCL_C;
}

void runner_shift(runner *r, uint32_t tensor)
{
    r->shifted = tensor;
}

/* Where a tensor begins in its buffer. */
static size_t begin_of(const runner *r, uint32_t tensor)
{
    return tensor == r->shifted ? MARGIN - 12 : MARGIN;
}

void runner_close(runner *r)
{
    for (uint32_t i = 0; i < r->n_kernels; i++) {
        clReleaseKernel(r->kernels[i].kernel);
        clReleaseProgram(r->kernels[i].program);
        free(r->kernels[i].source);
    }
    for (uint32_t i = 0; i < r->n_glsl; i++)
        free(r->glsl[i]);
    clReleaseCommandQueue(r->queue);
    clReleaseContext(r->context);
    free(r);
}

/* With its marked instructions, in place of what was built without them. */
static void open_program(runner *r, built *out)
{
    size_t size = 0;
    cl_int status, refused;
    const char *why = "";
    assert_int_equal(clGetProgramInfo(out->program, CL_PROGRAM_BINARY_SIZES,
                                      sizeof size, &size, NULL),
                     CL_SUCCESS);
    unsigned char *code = malloc(size + 1);
    assert_non_null(code);
    assert_int_equal(clGetProgramInfo(out->program, CL_PROGRAM_BINARIES,
                                      sizeof code, &code, NULL),
                     CL_SUCCESS);
    char *ptx = gpu_ptx_open(&test_host, (char *)code, size, &why);
    if (!ptx)
        fail_msg("%s", why);
    size = strlen(ptx) + 1;
    clReleaseProgram(out->program);
    out->program = clCreateProgramWithBinary(
        r->context, 1, &r->device, &size,
        (const unsigned char *[]){(unsigned char *)ptx}, &refused, &status);
    assert_int_equal(status | refused, CL_SUCCESS);
    assert_int_equal(
        clBuildProgram(out->program, 1, &r->device, "", NULL, NULL),
        CL_SUCCESS);
    clv_free(&test_host, ptx);
    free(code);
}

static void build(runner *r, const gpu_kernel *kernel, built *out)
{
    char log[8192] = "";
    cl_int status;
    out->source = strdup(kernel->source);
    const char *source = out->source;
    out->program =
        clCreateProgramWithSource(r->context, 1, &source, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    /* Marked instructions need their operands in registers. */
    const char *options = gpu_ptx_is_closed(source) ? "" : "-cl-opt-disable";
    if (clBuildProgram(out->program, 1, &r->device, options, NULL, NULL)) {
        clGetProgramBuildInfo(out->program, r->device, CL_PROGRAM_BUILD_LOG,
                              sizeof log, log, NULL);
        fail_msg("%s: %s\n%s", kernel->name, log, kernel->source);
    }
    if (gpu_ptx_is_closed(source))
        open_program(r, out);
    out->kernel = clCreateKernel(out->program, kernel->name, &status);
    assert_int_equal(status, CL_SUCCESS);
}

static cl_kernel find(runner *r, const gpu_kernel *kernel)
{
    for (uint32_t i = 0; i < r->n_kernels; i++)
        if (!strcmp(r->kernels[i].source, kernel->source))
            return r->kernels[i].kernel;
    assert_true(r->n_kernels < MAX_KERNELS);
    build(r, kernel, &r->kernels[r->n_kernels]);
    return r->kernels[r->n_kernels++].kernel;
}

typedef struct memory {
    cl_mem tensors[GRAPH_TENSORS], privates[GRAPH_TENSORS];
    cl_mem behind[GRAPH_TENSORS]; /* buffers of image buffers */
} memory;

static cl_mem new_buffer(runner *r, const void *data, size_t size)
{
    cl_int status;
    char *bytes = malloc(size + 2 * MARGIN);
    assert_non_null(bytes);
    memset(bytes, 0xa5, size + 2 * MARGIN);
    if (data)
        memcpy(bytes + MARGIN, data, size);
    cl_mem buffer =
        clCreateBuffer(r->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                       size + 2 * MARGIN, bytes, &status);
    assert_int_equal(status, CL_SUCCESS);
    free(bytes);
    return buffer;
}

/* An image, filled with what nobody may read as padding. */
static cl_mem new_image(runner *r, const gpu_private *p, cl_mem *behind)
{
    static const cl_mem_object_type types[] = {
        [CLV_STORAGE_IMAGE_BUFFER] = CL_MEM_OBJECT_IMAGE1D_BUFFER,
        [CLV_STORAGE_TEXTURE_2D] = CL_MEM_OBJECT_IMAGE2D,
        [CLV_STORAGE_TEXTURE_ARRAY] = CL_MEM_OBJECT_IMAGE2D_ARRAY,
        [CLV_STORAGE_TEXTURE_3D] = CL_MEM_OBJECT_IMAGE3D};
    const cl_image_format format = {
        CL_RGBA, p->dtype == CLV_DTYPE_F16   ? CL_HALF_FLOAT
                 : p->dtype == CLV_DTYPE_I32 ? CL_UNSIGNED_INT32
                                             : CL_FLOAT};
    const bool flat = p->storage == CLV_STORAGE_IMAGE_BUFFER;
    const bool layers = p->storage == CLV_STORAGE_TEXTURE_ARRAY;
    cl_int status = CL_SUCCESS;
    *behind = flat ? new_buffer(r, NULL, p->size) : NULL;
    const cl_image_desc desc = {.image_type = types[p->storage],
                                .image_width = p->extent[0],
                                .image_height = flat ? 0 : p->extent[1],
                                .image_depth =
                                    layers || flat ? 0 : p->extent[2],
                                .image_array_size = layers ? p->extent[2] : 0,
                                .buffer = *behind};
    const float nan[4] = {NAN, NAN, NAN, NAN}; /* or any bits */
    const size_t from[3] = {0},
                 size[3] = {p->extent[0], p->extent[1], p->extent[2]};
    cl_mem image = clCreateImage(r->context, CL_MEM_READ_WRITE, &format, &desc,
                                 NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    if (!flat)
        assert_int_equal(
            clEnqueueFillImage(r->queue, image, nan, from, size, 0, NULL, NULL),
            CL_SUCCESS);
    return image;
}

static void read_buffer(runner *r, cl_mem buffer, void *data, size_t size)
{
    char *bytes = malloc(size + 2 * MARGIN);
    assert_non_null(bytes);
    assert_int_equal(clEnqueueReadBuffer(r->queue, buffer, CL_TRUE, 0,
                                         size + 2 * MARGIN, bytes, 0, NULL,
                                         NULL),
                     CL_SUCCESS);
    for (size_t i = 0; i < MARGIN; i++) {
        assert_int_equal((unsigned char)bytes[i], 0xa5);
        assert_int_equal((unsigned char)bytes[MARGIN + size + i], 0xa5);
    }
    memcpy(data, bytes + MARGIN, size);
    free(bytes);
}

static void set_int(cl_kernel kernel, uint32_t index, int64_t value)
{
    cl_int small = (cl_int)value;
    assert_int_equal(small, value);
    assert_int_equal(clSetKernelArg(kernel, index, sizeof small, &small),
                     CL_SUCCESS);
}

static void dispatch(runner *r, const gpu_code *code, const gpu_dispatch *d,
                     const memory *m, const int64_t *symbols)
{
    const gpu_kernel *k = &code->kernels[d->kernel];
    cl_kernel kernel = find(r, k);
    size_t global[3], local[3];
    for (uint32_t i = 0; i < k->n_args; i++) {
        const gpu_arg *a = &d->args[i];
        const bool bound = a->memory == GPU_MEMORY_TENSOR;
        const cl_mem *buffer =
            bound ? &m->tensors[a->index] : &m->privates[a->index];
        assert_int_equal(clSetKernelArg(kernel, i, sizeof *buffer, buffer),
                         CL_SUCCESS);
        const size_t begin = bound ? begin_of(r, a->index) : MARGIN;
        set_int(kernel, k->n_args + i, (int64_t)(a->offset + begin));
    }
    for (uint32_t i = 0; i < k->n_params; i++)
        set_int(kernel, 2 * k->n_args + i,
                gpu_expr_value(&d->params[i], symbols));
    for (uint32_t i = 0; i < 3; i++) {
        local[i] = k->local[i];
        global[i] = (size_t)gpu_expr_value(&d->groups[i], symbols) * local[i];
        if (!global[i])
            return;
    }
    assert_int_equal(clEnqueueNDRangeKernel(r->queue, kernel, 3, NULL, global,
                                            local, 0, NULL, NULL),
                     CL_SUCCESS);
}

void runner_glsl(runner *r, const gpu_code *code)
{
    for (uint32_t i = 0; i < code->n_kernels; i++) {
        const gpu_kernel *k = &code->kernels[i];
        uint32_t known = 0;
        while (known < r->n_glsl && strcmp(r->glsl[known], k->source))
            known++;
        if (known < r->n_glsl)
            continue;
        const char *why = test_glsl_refusal(k->source);
        if (why)
            fail_msg("%s: %s\n%s", k->name, why, k->source);
        assert_true(r->n_glsl < MAX_KERNELS);
        r->glsl[r->n_glsl++] = strdup(k->source);
    }
}

/* The same graph's code in GLSL: that it compiles. */
static void check_glsl(runner *r, const graph *g)
{
    gpu_code *code = NULL;
    gpu_target target = r->target;
    target.language = GPU_GLSL;
    if (gpu_lower(&test_host, &target, &g->sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    runner_glsl(r, code);
    gpu_code_free(&test_host, code);
}

struct running {
    runner *r;
    const graph *g;
    const gpu_code *code;
    gpu_code *own; /* the code, to be freed */
    void *const *data;
    const size_t *size;
    memory m;
};

static void prepare(running *p)
{
    const gpu_code *code = p->code;
    assert_true(code->n_privates <= GRAPH_TENSORS);
    for (uint32_t i = 0; i < p->g->sub.n_tensors; i++)
        p->m.tensors[i] = new_buffer(p->r, p->data[i], p->size[i]);
    for (uint32_t i = 0; i < code->n_privates; i++)
        p->m.privates[i] =
            code->privates[i].storage
                ? new_image(p->r, &code->privates[i], &p->m.behind[i])
                : new_buffer(p->r, NULL, code->privates[i].size);
    for (uint32_t i = 0; i < code->n_setup; i++)
        dispatch(p->r, code, &code->setup[i], &p->m, NULL);
}

static void release(running *p)
{
    for (uint32_t i = 0; i < p->g->sub.n_tensors; i++)
        clReleaseMemObject(p->m.tensors[i]);
    for (uint32_t i = 0; i < p->code->n_privates; i++) {
        clReleaseMemObject(p->m.privates[i]);
        if (p->m.behind[i])
            clReleaseMemObject(p->m.behind[i]);
    }
}

running *runner_begin(runner *r, const graph *g, void *const *data,
                      const size_t *size)
{
    running *p = calloc(1, sizeof *p);
    assert_non_null(p);
    *p = (running){.r = r, .g = g, .data = data, .size = size};
    if (gpu_lower(&test_host, &r->target, &g->sub, &p->own))
        fail_msg("gpu_lower: %s", test_error());
    check_glsl(r, g);
    p->code = p->own;
    prepare(p);
    return p;
}

void runner_once(running *p, const int64_t *symbols)
{
    runner *r = p->r;
    const graph *g = p->g;
    for (uint32_t i = 0; i < g->sub.n_tensors; i++)
        if (g->tensors[i].usage != CLV_USAGE_WEIGHT)
            assert_int_equal(clEnqueueWriteBuffer(r->queue, p->m.tensors[i],
                                                  CL_TRUE, begin_of(r, i),
                                                  p->size[i], p->data[i], 0,
                                                  NULL, NULL),
                             CL_SUCCESS);
    for (uint32_t i = 0; i < p->code->n_dispatches; i++)
        dispatch(r, p->code, &p->code->dispatches[i], &p->m, symbols);
    assert_int_equal(clFinish(r->queue), CL_SUCCESS);
    for (uint32_t i = 0; i < g->sub.n_tensors; i++)
        if (g->tensors[i].usage == CLV_USAGE_OUTPUT ||
            g->tensors[i].usage == CLV_USAGE_STATE)
            read_buffer(r, p->m.tensors[i], p->data[i], p->size[i]);
}

void runner_end(running *p)
{
    release(p);
    gpu_code_free(&test_host, p->own);
    free(p);
}

void runner_code(runner *r, const graph *g, const gpu_code *code,
                 void *const *data, const size_t *size, const int64_t *symbols)
{
    running p = {.r = r, .g = g, .code = code, .data = data, .size = size};
    prepare(&p);
    runner_once(&p, symbols);
    release(&p);
}

void runner_run(runner *r, const graph *g, void *const *data,
                const size_t *size, const int64_t *symbols)
{
    running *p = runner_begin(r, g, data, size);
    runner_once(p, symbols);
    runner_end(p);
}
