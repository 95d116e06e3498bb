#include "program.h"
#include "memory.h"
#include "untouched.h"

#include <cleave/plugin_program.h>

#include <string.h>

/* ------------------------------------------------------------------------ */
/* Running                                                                  */

cl_int ocl_program_dispatch(const clv_plugin_program *prog,
                            cl_command_queue queue, ocl_launch *launch,
                            const gpu_dispatch *d, const int64_t *symbols,
                            ocl_job *job, uint32_t command)
{
    const ocl_scene scene = {prog->places, prog->privates.memory, symbols};
    const gpu_kernel *k = &prog->code->kernels[d->kernel];
    size_t global[3], local[3];
    for (int i = 0; i < 3; i++) {
        local[i] = k->local[i] ? k->local[i] : 1;
        global[i] = (size_t)gpu_expr_value(&d->groups[i], symbols) * local[i];
        if (!global[i])
            return CL_SUCCESS;
    }
    cl_int error = ocl_launch_set(prog->dev, launch, k, d, &scene);
    if (error)
        return error;
    return prog->dev->cl->EnqueueNDRangeKernel(
        queue, launch->kernel, 3, NULL, global, local, 0, NULL,
        ocl_span_begin(job, command, d->node, k->name));
}

clv_status ocl_program_enqueue(clv_plugin_program *prog, cl_command_queue queue,
                               ocl_job *job, uint32_t command,
                               const clv_command *c)
{
    const gpu_code *code = prog->code;
    for (uint32_t i = 0; i < c->n_bindings; i++) {
        const clv_binding *b = &c->bindings[i];
        prog->places[b->tensor] =
            (ocl_place){ocl_buffer_of(b->buffer), b->offset};
    }
    for (uint32_t i = 0; i < code->n_dispatches; i++) {
        const gpu_dispatch *d = &code->dispatches[i];
        cl_int error = ocl_program_dispatch(prog, queue, &prog->launches[i], d,
                                            c->symbols, job, command);
        if (!error)
            continue;
        snprintf(job->message, sizeof job->message,
                 "opencl: node %u: kernel %.40s: %s (%d)", (unsigned)d->node,
                 code->kernels[d->kernel].name, ocl_error_name(error),
                 (int)error);
        return ocl_status(error);
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Compiling                                                                */

static clv_status make_kernels(clv_plugin_program *prog, const clv_compile *c)
{
    const gpu_code *code = prog->code;
    const clv_host_api *host = prog->base.host;
    clv_status status = CLV_OK;
    prog->programs =
        clv_new(host, (code->n_kernels + 1) * (uint64_t)sizeof *prog->programs);
    prog->launches = clv_new(host, (code->n_dispatches + 1) *
                                       (uint64_t)sizeof *prog->launches);
    if (!prog->programs || !prog->launches)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < code->n_kernels && !status; i++) {
        if (c->progress &&
            c->progress(c->progress_ctx, (float)i / (float)code->n_kernels))
            return clv_fail(host, CLV_ERR_CANCELLED,
                            "opencl: compiling was cancelled");
        status =
            ocl_kernel_make(prog->dev, &code->kernels[i], &prog->programs[i]);
    }
    for (uint32_t i = 0; i < code->n_dispatches && !status; i++) {
        const uint32_t k = code->dispatches[i].kernel;
        status = ocl_launch_make(prog->dev, &code->kernels[k],
                                 prog->programs[k], &prog->launches[i]);
    }
    return status;
}

static clv_status place_weights(clv_plugin_program *prog, const clv_compile *c)
{
    prog->places = clv_new(prog->base.host, prog->base.n_tensors *
                                                (uint64_t)sizeof *prog->places);
    if (!prog->places)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < c->n_weights; i++) {
        CLV_TRY(ocl_buffer_check_bound(c->weights[i].buffer));
        prog->places[c->weights[i].tensor] = (ocl_place){
            ocl_buffer_of(c->weights[i].buffer), c->weights[i].offset};
    }
    return CLV_OK;
}

static clv_status compile(clv_plugin_program *prog, const clv_compile *c,
                          uint64_t most)
{
    clv_plugin_device *dev = prog->dev;
    const clv_host_api *host = dev->base.host;
    CLV_TRY(clv_program_init(&prog->base, host, c));
    CLV_TRY(gpu_lower_tuned(&dev->tuner, c, most, &prog->code));
    CLV_TRY(gpu_note_untouched(prog->code, &prog->base));
    CLV_TRY(place_weights(prog, c));
    CLV_TRY(make_kernels(prog, c));
    return gpu_privates_make(&ocl_privates, host, prog, prog->code,
                             c->options != NULL, &dev->cache, &prog->privates);
}

static clv_status try_compile(clv_plugin_device *dev, const clv_compile *c,
                              uint64_t most, uint64_t *fitting,
                              clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    uint64_t begin = host->now_ns(host->host);
    clv_plugin_program *prog = clv_new(host, sizeof *prog);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->dev = dev;
    prog->base.host = host;
    clv_status status = compile(prog, c, most);
    prog->compile_ns = host->now_ns(host->host) - begin;
    *fitting = prog->privates.fitting;
    if (status)
        ocl_program_destroy(prog);
    else
        *out = prog;
    return status;
}

clv_status ocl_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out)
{
    clv_compile c;
    CLV_TRY(clv_queue_usable(dev));
    clv_read(&c, sizeof c, compile);
    return gpu_compile_repacked(dev, dev->label, &dev->target, &dev->cache, &c,
                                try_compile, out);
}

clv_status ocl_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info = {.memory_size = prog->privates.weights_size,
                             .scratch_size = prog->privates.scratch_size,
                             .compile_ns = prog->compile_ns,
                             .n_kernels = prog->code->n_kernels,
                             .untouched = prog->base.untouched,
                             .n_untouched = prog->base.n_untouched};
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

void ocl_program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    const clv_host_api *host = prog->base.host;
    for (uint32_t i = 0; prog->launches && i < prog->code->n_dispatches; i++)
        ocl_launch_free(prog->dev, &prog->launches[i]);
    gpu_privates_free(&ocl_privates, host, prog, prog->code, &prog->dev->cache,
                      &prog->privates);
    if (prog->code)
        gpu_code_free(host, prog->code);
    clv_free(host, prog->programs);
    clv_free(host, prog->launches);
    clv_free(host, prog->places);
    clv_program_destroy(prog);
}
