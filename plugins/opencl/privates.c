/* A program's private memory: scratch, and weights laid out anew, which the
 * programs of a device share. */
#include "image.h"
#include "program.h"

#include <string.h>

static clv_status make_private(clv_plugin_program *prog, uint32_t i,
                               ocl_private *out)
{
    const gpu_private *p = &prog->code->privates[i];
    const uint64_t size = p->size;
    clv_plugin_device *dev = prog->dev;
    cl_int error = CL_SUCCESS;
    if (p->storage == CLV_STORAGE_BUFFER)
        out->memory = dev->cl->CreateBuffer(dev->context, CL_MEM_READ_WRITE,
                                            size ? size : 1, NULL, &error);
    else
        error = ocl_image_create(dev, p, &out->memory, &out->behind);
    prog->privates[i] = out->memory;
    if (out->memory)
        return CLV_OK;
    return ocl_fail(dev->base.host, error,
                    "opencl: %.60s: %llu bytes for a "
                    "program",
                    dev->props->info.name, (unsigned long long)size);
}

static void place_of(const void *ctx, uint32_t tensor, uint64_t *buffer,
                     uint64_t *offset)
{
    const clv_plugin_program *prog = ctx;
    *buffer = (uint64_t)(uintptr_t)prog->places[tensor].buffer;
    *offset = prog->places[tensor].offset;
}

/* Those that another program has filled, or our own to be filled. */
static clv_status make_cached(clv_plugin_program *prog, uint32_t i)
{
    clv_plugin_device *dev = prog->dev;
    const clv_host_api *host = dev->base.host;
    clv_status status = gpu_cached_find(host, &dev->kept, prog->code, i,
                                        place_of, prog, &prog->kept[i]);
    if (status)
        return status;
    ocl_private *shared = prog->kept[i]->memory;
    if (shared) {
        prog->privates[i] = shared->memory;
        return CLV_OK;
    }
    prog->made[i] = true;
    prog->weights_size += prog->code->privates[i].size;
    const char *refused = host->option(host->host, "no_repack_memory");
    shared = refused && !strcmp(refused, "on") ? NULL
                                               : clv_new(host, sizeof *shared);
    prog->kept[i]->memory = shared;
    return shared ? make_private(prog, i, shared) : CLV_ERR_NO_MEMORY;
}

static void release(clv_plugin_device *dev, const ocl_private *p)
{
    if (p->memory)
        dev->cl->ReleaseMemObject(p->memory);
    if (p->behind)
        dev->cl->ReleaseMemObject(p->behind);
}

/* With the lock of what is kept. */
static void release_all(clv_plugin_program *prog)
{
    const clv_host_api *host = prog->base.host;
    clv_plugin_device *dev = prog->dev;
    for (uint32_t i = 0; prog->made && i < prog->code->n_privates; i++) {
        ocl_private *shared =
            prog->kept[i] ? gpu_cached_drop(host, &dev->kept, prog->kept[i])
                          : NULL;
        if (shared)
            release(dev, shared);
        clv_free(host, shared);
        release(dev, &prog->own[i]);
    }
    clv_free(host, prog->privates);
    clv_free(host, prog->own);
    clv_free(host, prog->kept);
    clv_free(host, prog->made);
    prog->privates = NULL;
    prog->own = NULL;
    prog->kept = NULL;
    prog->made = NULL;
}

static bool fills_ours(const clv_plugin_program *prog, const gpu_dispatch *d)
{
    for (uint32_t i = 0; i < prog->code->n_privates; i++)
        if (prog->made[i] && gpu_cached_filled_by(prog->code, d, i))
            return true;
    return false;
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

/* Weights are laid out anew, once, before the program is handed over. */
static clv_status set_up(clv_plugin_program *prog)
{
    const gpu_code *code = prog->code;
    clv_plugin_device *dev = prog->dev;
    cl_int error = CL_SUCCESS;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < code->n_setup && !error && !status; i++)
        if (fills_ours(prog, &code->setup[i]))
            status = set_up_one(prog, &code->setup[i], &error);
    if (!error && code->n_setup)
        error = dev->cl->Finish(dev->side);
    if (!error)
        return status;
    return ocl_noticed(dev, ocl_fail(dev->base.host, error,
                                     "opencl: %.60s: laying out weights",
                                     dev->props->info.name));
}

static clv_status fill_privates(clv_plugin_program *prog)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < prog->code->n_privates && !status; i++) {
        if (prog->code->privates[i].weights) {
            status = make_cached(prog, i);
        } else {
            prog->scratch_size += prog->code->privates[i].size;
            status = make_private(prog, i, &prog->own[i]);
        }
    }
    return status ? status : set_up(prog);
}

/* What is not whole is gone before another program can find it. */
clv_status ocl_privates_make(clv_plugin_program *prog)
{
    const clv_host_api *host = prog->base.host;
    const uint64_t n = prog->code->n_privates + UINT64_C(1);
    clv_plugin_device *dev = prog->dev;
    prog->privates = clv_new(host, n * sizeof *prog->privates);
    prog->own = clv_new(host, n * sizeof *prog->own);
    prog->kept = clv_new(host, n * sizeof *prog->kept);
    prog->made = clv_new(host, n * sizeof *prog->made);
    if (!prog->privates || !prog->own || !prog->kept || !prog->made) {
        clv_free(host, prog->made);
        prog->made = NULL;
        return CLV_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&dev->cached_lock);
    clv_status status = fill_privates(prog);
    if (status)
        release_all(prog);
    pthread_mutex_unlock(&dev->cached_lock);
    return status;
}

void ocl_privates_free(clv_plugin_program *prog)
{
    if (!prog->code)
        return;
    pthread_mutex_lock(&prog->dev->cached_lock);
    release_all(prog);
    pthread_mutex_unlock(&prog->dev->cached_lock);
}
