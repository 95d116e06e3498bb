#include "program.h"
#include "memory.h"
#include "tune.h"

#include <cleave/plugin_program.h>

#include <string.h>

clv_status ocl_program_check(const clv_command *c)
{
    return clv_program_check(c);
}

/* ------------------------------------------------------------------------ */
/* Running                                                                  */

cl_int ocl_program_dispatch(const clv_plugin_program *prog,
                            cl_command_queue queue, ocl_launch *launch,
                            const gpu_dispatch *d, const int64_t *symbols,
                            ocl_job *job, uint32_t command)
{
    const ocl_scene scene = {prog->places, prog->privates, symbols};
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
    for (uint32_t i = 0; i < c->n_weights; i++)
        prog->places[c->weights[i].tensor] = (ocl_place){
            ocl_buffer_of(c->weights[i].buffer), c->weights[i].offset};
    return CLV_OK;
}

/* What op_caps does not take is not compiled. */
static clv_status check_nodes(clv_plugin_device *dev, const clv_subgraph *graph)
{
    const clv_host_api *host = dev->base.host;
    clv_status status = CLV_OK;
    gpu_target target;
    clv_op_caps *caps =
        clv_new(host, (graph->n_nodes + 1) * (uint64_t)sizeof *caps);
    if (!caps)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        caps[i].header = (clv_header){sizeof *caps, CLV_STRUCT_OP_CAPS, NULL};
    ocl_target(dev, &target);
    gpu_caps(&target, graph, caps, sizeof *caps);
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++)
        if (caps[i].answer != CLV_ANSWER_YES)
            status = clv_fail(host, CLV_ERR_UNSUPPORTED, "opencl: node %u: %s",
                              (unsigned)i, caps[i].reason);
    clv_free(host, caps);
    return status;
}

static clv_status compile(clv_plugin_program *prog, const clv_compile *c,
                          bool anew)
{
    clv_plugin_device *dev = prog->dev;
    gpu_target target;
    char *choices = NULL;
    clv_status status = clv_program_init(&prog->base, dev->base.host, c);
    if (!status)
        status = check_nodes(dev, c->graph);
    if (!status && !c->options)
        status = ocl_choose(dev, c, &choices);
    ocl_target(dev, &target);
    target.nvidia_ptx = target.nvidia_ptx && anew;
    target.plain_matrix = target.plain_matrix && anew;
    target.weights = anew ? target.weights : 0;
    target.choices = c->options ? c->options : choices;
    if (!status)
        status = gpu_lower(dev->base.host, &target, c->graph, &prog->code);
    clv_free(dev->base.host, choices);
    if (!status)
        status = place_weights(prog, c);
    if (!status)
        status = make_kernels(prog, c);
    return status ? status : ocl_privates_make(prog);
}

static clv_status try_compile(clv_plugin_device *dev, const clv_compile *c,
                              bool anew, clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    uint64_t begin = host->now_ns(host->host);
    clv_plugin_program *prog = clv_new(host, sizeof *prog);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->dev = dev;
    prog->base.host = host;
    clv_status status = compile(prog, c, anew);
    prog->compile_ns = host->now_ns(host->host) - begin;
    if (status)
        ocl_program_destroy(prog);
    else
        *out = prog;
    return status;
}

/* Matrix instructions and objects want a second copy of the weights, for which
 * there may be no room. */
clv_status ocl_program_compile(clv_plugin_device *dev, const clv_compile *c,
                               clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    gpu_target target;
    char line[200];
    clv_status status = ocl_check_lost(dev);
    if (status)
        return status;
    ocl_target(dev, &target);
    status = try_compile(dev, c, true, out);
    if (status != CLV_ERR_NO_MEMORY ||
        !(target.nvidia_ptx || target.plain_matrix || target.weights) ||
        ocl_check_lost(dev))
        return status;
    snprintf(line, sizeof line,
             "opencl: %.60s: no memory for weights laid out "
             "anew; products go without, as by opencl.matrix=off and "
             "opencl.weights=auto",
             dev->props->info.name);
    host->log(host->host, CLV_LOG_WARN, NULL, 0, line);
    return try_compile(dev, c, false, out);
}

clv_status ocl_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info = {.memory_size = prog->weights_size,
                             .scratch_size = prog->scratch_size,
                             .compile_ns = prog->compile_ns,
                             .n_kernels = prog->code->n_kernels};
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
    ocl_privates_free(prog);
    if (prog->code)
        gpu_code_free(host, prog->code);
    clv_free(host, prog->programs);
    clv_free(host, prog->launches);
    clv_free(host, prog->places);
    clv_program_destroy(prog);
}
