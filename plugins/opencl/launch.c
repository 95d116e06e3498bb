#include "launch.h"
#include "source.h"

clv_status ocl_kernel_make(clv_plugin_device *dev, const gpu_kernel *k,
                           cl_program *program)
{
    size_t most = 0, items = 1;
    ocl_launch trial;
    clv_status status = ocl_source_build(dev, k->name, k->source, program);
    if (!status)
        status = ocl_launch_make(dev, k, *program, &trial);
    if (status)
        return status;
    for (int n = 0; n < 3; n++)
        items *= k->local[n] ? k->local[n] : 1;
    cl_int error = dev->cl->GetKernelWorkGroupInfo(trial.kernel, dev->props->id,
                                                   CL_KERNEL_WORK_GROUP_SIZE,
                                                   sizeof most, &most, NULL);
    ocl_launch_free(dev, &trial);
    /* Of a program that was loaded as PTX, as those of its cache are, NVIDIA's
     * driver answers 256 whatever the kernel says that its groups are, and runs
     * those. */
    if (!error && items > most && !dev->target.nvidia_ptx)
        return clv_fail(dev->base.host, CLV_ERR_INTERNAL,
                        "%s: kernel %.60s has groups of %zu, the "
                        "device runs %zu of it; name its variant, %.40s, in "
                        "opencl.disabled",
                        dev->label, k->name, items, most, k->variant);
    return CLV_OK;
}

clv_status ocl_launch_make(clv_plugin_device *dev, const gpu_kernel *k,
                           cl_program program, ocl_launch *launch)
{
    cl_int error = CL_SUCCESS;
    *launch = (ocl_launch){
        .bound = clv_new(dev->base.host,
                         (k->n_args + UINT64_C(1)) * sizeof *launch->bound)};
    if (!launch->bound)
        return CLV_ERR_NO_MEMORY;
    launch->kernel = dev->cl->CreateKernel(program, k->name, &error);
    if (launch->kernel)
        return CLV_OK;
    ocl_launch_free(dev, launch);
    return ocl_fail(dev->base.host, error, "opencl: kernel %.60s", k->name);
}

void ocl_launch_free(clv_plugin_device *dev, ocl_launch *launch)
{
    if (launch->kernel)
        dev->cl->ReleaseKernel(launch->kernel);
    clv_free(dev->base.host, launch->bound);
    *launch = (ocl_launch){.kernel = NULL};
}

/* ------------------------------------------------------------------------ */
/* Arguments                                                                */

static cl_int find_memory(const ocl_scene *scene, const gpu_arg *arg,
                          cl_mem *mem, cl_int *rest)
{
    if (arg->memory == GPU_MEMORY_PRIVATE) {
        *mem = scene->privates[arg->index].memory;
        *rest = (cl_int)arg->offset;
        return CL_SUCCESS;
    }
    const ocl_place *p = &scene->places[arg->index];
    return ocl_buffer_view(p->buffer, p->offset + arg->offset, mem, rest);
}

/* A program's private memory stays the same. */
static ocl_binding binding_of(const ocl_scene *scene, const gpu_arg *arg)
{
    if (arg->memory == GPU_MEMORY_PRIVATE)
        return (ocl_binding){UINT64_MAX, arg->offset};
    const ocl_place *p = &scene->places[arg->index];
    return (ocl_binding){p->buffer->serial, p->offset + arg->offset};
}

static cl_int set_memory(const ocl_api *cl, ocl_launch *launch,
                         const gpu_kernel *k, const gpu_dispatch *d,
                         const ocl_scene *scene)
{
    cl_int error = CL_SUCCESS;
    for (uint32_t i = 0; i < k->n_args && !error; i++) {
        const ocl_binding now = binding_of(scene, &d->args[i]);
        ocl_binding *bound = &launch->bound[i];
        cl_mem mem = NULL;
        cl_int rest = 0;
        if (now.serial == bound->serial && now.offset == bound->offset)
            continue;
        bound->serial = 0;
        error = find_memory(scene, &d->args[i], &mem, &rest);
        if (!error)
            error = cl->SetKernelArg(launch->kernel, i, sizeof mem, &mem);
        if (!error)
            error = cl->SetKernelArg(launch->kernel, k->n_args + i, sizeof rest,
                                     &rest);
        if (!error)
            *bound = now;
    }
    return error;
}

cl_int ocl_launch_set(clv_plugin_device *dev, ocl_launch *launch,
                      const gpu_kernel *k, const gpu_dispatch *d,
                      const ocl_scene *scene)
{
    const ocl_api *cl = dev->cl;
    cl_int error = set_memory(cl, launch, k, d, scene);
    for (uint32_t i = 0; i < k->n_params && !error; i++) {
        cl_int value = (cl_int)gpu_expr_value(&d->params[i], scene->symbols);
        if (launch->has_params && launch->params[i] == value)
            continue;
        error = cl->SetKernelArg(launch->kernel, 2 * k->n_args + i,
                                 sizeof value, &value);
        launch->params[i] = value;
    }
    launch->has_params = !error;
    return error;
}
