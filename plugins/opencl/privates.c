/* A program's private memory, in OpenCL. */
#include "image.h"
#include "program.h"

/* Less lies with others in memory that the driver has: to ask for each would
 * only take time. */
#define LARGE ((uint64_t)1 << 20)

static clv_status create(clv_plugin_program *prog, const gpu_private *code,
                         void *memory, uint64_t *size)
{
    clv_plugin_device *dev = prog->dev;
    ocl_private *p = memory;
    cl_int error = CL_SUCCESS;
    CLV_TRY(
        gpu_budget_take(dev->base.host, dev->label, &dev->budget, code->size));
    *size = p->taken = code->size;
    if (code->storage == CLV_STORAGE_BUFFER)
        p->memory = dev->cl->CreateBuffer(dev->context, CL_MEM_READ_WRITE,
                                          *size ? *size : 1, NULL, &error);
    else
        error = ocl_image_create(dev, code, &p->memory, &p->behind);
    if (p->memory && !dev->zero_copy && *size >= LARGE)
        error = ocl_allocate_now(dev, p->behind ? p->behind : p->memory);
    if (p->memory && !error)
        return CLV_OK;
    return ocl_fail(dev->base.host, error, "%s: %llu bytes for a program",
                    dev->label, (unsigned long long)*size);
}

static void destroy(clv_plugin_program *prog, void *memory)
{
    const ocl_private *p = memory;
    if (p->memory)
        prog->dev->cl->ReleaseMemObject(p->memory);
    if (p->behind)
        prog->dev->cl->ReleaseMemObject(p->behind);
    gpu_budget_give(&prog->dev->budget, p->taken);
}

static void place_of(const void *ctx, uint32_t tensor, uint64_t *buffer,
                     uint64_t *offset)
{
    const clv_plugin_program *prog = ctx;
    *buffer = (uint64_t)(uintptr_t)prog->places[tensor].buffer;
    *offset = prog->places[tensor].offset;
}

static clv_status set_up_one(clv_plugin_program *prog, const gpu_dispatch *d,
                             cl_int *error)
{
    ocl_launch launch;
    clv_status status =
        ocl_launch_make(prog->dev, &prog->code->kernels[d->kernel],
                        prog->programs[d->kernel], &launch);
    if (!status)
        *error = ocl_program_dispatch(prog, prog->dev->side, &launch, d, NULL,
                                      NULL, 0);
    ocl_launch_free(prog->dev, &launch);
    return status;
}

static clv_status set_up(clv_plugin_program *prog,
                         const gpu_dispatch *dispatches, uint32_t n)
{
    clv_plugin_device *dev = prog->dev;
    cl_int error = CL_SUCCESS;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < n && !error && !status; i++)
        status = set_up_one(prog, &dispatches[i], &error);
    if (!error)
        error = dev->cl->Finish(dev->side);
    if (!error)
        return status;
    return ocl_noticed(dev, ocl_fail(dev->base.host, error,
                                     "%s: repacking weights", dev->label));
}

const gpu_privates_plugin ocl_privates = {
    .size = sizeof(ocl_private),
    .create = create,
    .destroy = destroy,
    .place_of = place_of,
    .set_up = set_up,
};
