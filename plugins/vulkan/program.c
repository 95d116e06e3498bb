#include "program.h"
#include "untouched.h"

clv_status vk_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                      clv_op_caps *out, uint32_t stride)
{
    CLV_TRY(clv_check_chain(dev->base.host, graph));
    gpu_caps(&dev->target, graph, out, stride);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Where tensors lie                                                         */

static vk_place find_place(const clv_binding *b)
{
    const vk_buffer *buf = vk_buffer_of(b->buffer);
    return (vk_place){.buffer = buf->block->buffer,
                      .address = buf->block->address,
                      .begin = buf->offset + b->offset,
                      .end = buf->offset + b->offset + b->size,
                      .limit = buf->block->size};
}

/* Memory of another device would crash the driver. */
static clv_status check_owner(const clv_plugin_program *prog,
                              const clv_binding *bindings, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (vk_buffer_of(bindings[i].buffer)->dev != prog->dev)
            return clv_fail(prog->base.host, CLV_ERR_INVALID,
                            "%s: tensor %u is bound to another device's memory",
                            prog->dev->label, (unsigned)bindings[i].tensor);
    return CLV_OK;
}

static clv_status place_weights(clv_plugin_program *prog, const clv_compile *c)
{
    const clv_host_api *host = prog->base.host;
    const uint64_t n = prog->base.n_tensors;
    prog->weights = clv_new(host, n * sizeof *prog->weights);
    prog->places = clv_new(host, n * sizeof *prog->places);
    if (!prog->weights || !prog->places)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < c->n_weights; i++)
        prog->weights[c->weights[i].tensor] = find_place(&c->weights[i]);
    memcpy(prog->places, prog->weights, n * sizeof *prog->places);
    return check_owner(prog, c->weights, c->n_weights);
}

clv_status vk_program_check(const clv_command *c)
{
    CLV_TRY(clv_program_check(c));
    return check_owner(c->program, c->bindings, c->n_bindings);
}

void vk_program_places(const clv_command *command, vk_place *places)
{
    const clv_plugin_program *prog = command->program;
    for (uint32_t i = 0; i < command->n_bindings; i++)
        if (!prog->weights[command->bindings[i].tensor].buffer)
            places[command->bindings[i].tensor] =
                find_place(&command->bindings[i]);
}

/* ------------------------------------------------------------------------ */
/* Compiling                                                                 */

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
                       uint64_t most)
{
    clv_plugin_device *dev = prog->dev;
    const clv_host_api *host = dev->base.host;
    CLV_TRY(clv_program_init(&prog->base, host, compile));
    CLV_TRY(place_weights(prog, compile));
    CLV_TRY(gpu_lower_tuned(&dev->tuner, compile, most, &prog->code));
    CLV_TRY(gpu_note_untouched(prog->code, &prog->base));
    CLV_TRY(make_kernels(prog, compile));
    return gpu_privates_make(&vk_privates, host, prog, prog->code,
                             compile->options != NULL, &dev->cache,
                             &prog->privates);
}

static clv_status try_make(clv_plugin_device *dev, const clv_compile *compile,
                           uint64_t most, uint64_t *fitting,
                           clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    uint64_t begin = host->now_ns(host->host);
    clv_plugin_program *prog = clv_new(host, sizeof *prog);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->base.host = host;
    prog->dev = dev;
    clv_status status = make(prog, compile, most);
    prog->compile_ns = host->now_ns(host->host) - begin;
    *fitting = prog->privates.fitting;
    if (status)
        vk_program_destroy(prog);
    else
        *out = prog;
    return status;
}

clv_status vk_program_compile(clv_plugin_device *dev,
                              const clv_compile *compile,
                              clv_plugin_program **out)
{
    clv_compile c;
    CLV_TRY(clv_queue_usable(dev));
    CLV_TRY(vk_validated(dev->inst));
    clv_read(&c, sizeof c, compile);
    return gpu_compile_repacked(dev, dev->label, &dev->target, &dev->cache, &c,
                                try_make, out);
}

clv_status vk_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    const gpu_code *code = prog->code;
    clv_program_info info = {.compile_ns = prog->compile_ns,
                             .n_kernels = code->n_kernels,
                             .memory_size = prog->privates.weights_size,
                             .scratch_size = prog->privates.scratch_size,
                             .untouched = prog->base.untouched,
                             .n_untouched = prog->base.n_untouched};
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
    vk_recording_finish(prog, &prog->part);
    for (uint32_t i = 0; prog->kernels && i < prog->code->n_kernels; i++)
        vk_kernel_put(dev, prog->kernels[i]);
    gpu_privates_free(&vk_privates, host, prog, prog->code, &dev->cache,
                      &prog->privates);
    if (prog->code)
        gpu_code_free(host, prog->code);
    clv_free(host, prog->kernels);
    clv_free(host, prog->weights);
    clv_free(host, prog->places);
    clv_program_destroy(prog);
}
