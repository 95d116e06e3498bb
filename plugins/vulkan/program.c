#include "program.h"

#include "tune.h"

clv_status vk_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                      clv_op_caps *out, uint32_t stride)
{
    if (!clv_chain_known(graph))
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "unknown extension");
    gpu_caps(&dev->target, graph, out, stride);
    return CLV_OK;
}

static clv_status make_kernels(clv_plugin_program *prog,
                               const clv_compile *compile)
{
    clv_plugin_device *dev = prog->dev;
    const gpu_code *code = prog->code;
    clv_status status = CLV_OK;
    prog->kernels =
        clv_new(dev->base.host, (code->n_kernels + 1) * sizeof *prog->kernels);
    if (!prog->kernels)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < code->n_kernels && !status; i++) {
        float fraction = (float)i / (float)code->n_kernels;
        if (compile->progress &&
            compile->progress(compile->progress_ctx, fraction))
            return clv_fail(dev->base.host, CLV_ERR_CANCELLED, "cancelled");
        status = vk_kernel_get(dev, &code->kernels[i], &prog->kernels[i]);
    }
    return status;
}

static clv_status make(clv_plugin_program *prog, const clv_compile *compile,
                       bool anew)
{
    clv_plugin_device *dev = prog->dev;
    gpu_target target = dev->target;
    char *choices = NULL;
    clv_status status = vk_program_bind(prog, compile);
    if (!status && !compile->options)
        status = vk_choose(dev, compile, &choices);
    target.choices = compile->options ? compile->options : choices;
    target.coop_matrix = target.coop_matrix && anew;
    target.plain_matrix = target.plain_matrix && anew;
    target.weights = anew ? target.weights : 0;
    if (!status)
        status =
            gpu_lower(dev->base.host, &target, compile->graph, &prog->code);
    clv_free(dev->base.host, choices);
    if (!status)
        status = make_kernels(prog, compile);
    return status ? status : vk_privates_make(prog);
}

static clv_status try_make(clv_plugin_device *dev, const clv_compile *compile,
                           bool anew, clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    uint64_t begin = host->now_ns(host->host);
    clv_plugin_program *prog = clv_new(host, sizeof *prog);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->dev = dev;
    clv_status status = make(prog, compile, anew);
    prog->compile_ns = host->now_ns(host->host) - begin;
    if (status)
        vk_program_destroy(prog);
    else
        *out = prog;
    return status;
}

/* Matrix instructions and objects want a second copy of the weights, for which
 * there may be no room. */
clv_status vk_program_compile(clv_plugin_device *dev,
                              const clv_compile *compile,
                              clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    const gpu_target *target = &dev->target;
    char line[200];
    clv_compile c;
    clv_status status = vk_alive(dev);
    if (!status)
        status = vk_validated(dev->inst);
    if (status)
        return status;
    clv_read(&c, sizeof c, compile);
    status = try_make(dev, &c, true, out);
    if (status != CLV_ERR_NO_MEMORY ||
        !(target->coop_matrix || target->plain_matrix || target->weights) ||
        vk_alive(dev))
        return status;
    snprintf(line, sizeof line,
             "vulkan:%.60s: no memory for weights laid out "
             "anew; products go without, as by vulkan.matrix=off and "
             "vulkan.weights=auto",
             dev->phys->id);
    host->log(host->host, CLV_LOG_WARN, NULL, 0, line);
    return try_make(dev, &c, false, out);
}

clv_status vk_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    const gpu_code *code = prog->code;
    clv_program_info info = {.compile_ns = prog->compile_ns,
                             .n_kernels = code->n_kernels,
                             .memory_size = vk_privates_size(prog, true),
                             .scratch_size = vk_privates_size(prog, false)};
    for (uint32_t i = 0; i < code->n_kernels; i++)
        info.memory_size += strlen(prog->kernels[i]->source);
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

void vk_program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    clv_plugin_device *dev = prog->dev;
    const clv_host_api *host = dev->base.host;
    for (uint32_t i = 0; i < VK_RECORDINGS; i++)
        vk_recording_finish(prog, &prog->recordings[i]);
    for (uint32_t i = 0; prog->kernels && i < prog->code->n_kernels; i++)
        vk_kernel_put(dev, prog->kernels[i]);
    vk_privates_free(prog);
    if (prog->code)
        gpu_code_free(host, prog->code);
    clv_free(host, prog->kernels);
    clv_free(host, prog->tensors);
    clv_free(host, prog->weights);
    clv_free(host, prog->places);
    clv_free(host, prog);
}
