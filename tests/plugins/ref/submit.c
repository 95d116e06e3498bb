#include "ref.h"

#include <inttypes.h>
#include <string.h>

void ref_job_free(ref_job *job)
{
    if (!job)
        return;
    const clv_host_api *host = job->host;
    for (uint32_t i = 0; job->commands && i < job->n_commands; i++) {
        clv_free(host, job->commands[i].data);
        clv_free(host, job->commands[i].bound);
    }
    for (uint32_t i = 0; job->waits && i < job->n_waits; i++)
        ref_timeline_destroy(job->waits[i].timeline);
    for (uint32_t i = 0; job->signals && i < job->n_signals; i++)
        ref_timeline_destroy(job->signals[i].timeline);
    clv_free(host, job->commands);
    clv_free(host, job->waits);
    clv_free(host, job->signals);
    clv_free(host, job);
}

static clv_status set_symbols(const clv_host_api *host, const clv_command *c,
                              ref_command *out)
{
    const clv_subgraph *g = c->program->graph;
    if (c->n_symbols != g->n_symbols || (c->n_symbols && !c->symbols))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": %" PRIu32 " symbols for a program of "
                                 "%" PRIu32,
                        c->n_symbols, g->n_symbols);
    for (uint32_t i = 0; i < g->n_symbols; i++) {
        out->symbols[i] = c->symbols[i];
        if (c->symbols[i] < g->symbols[i].min ||
            c->symbols[i] > g->symbols[i].max)
            return clv_fail(
                host, CLV_ERR_INVALID,
                REF_NAME ": symbol %" PRIu32 " is %" PRId64
                         ", the program is for %" PRId64 " to %" PRId64,
                i, c->symbols[i], g->symbols[i].min, g->symbols[i].max);
    }
    return CLV_OK;
}

static clv_status bind(const clv_plugin_device *dev, const clv_binding *b,
                       ref_command *out)
{
    const clv_host_api *host = dev->host;
    const clv_plugin_program *prog = out->program;
    if (b->tensor >= prog->graph->n_tensors ||
        prog->graph->tensors[b->tensor].usage == CLV_USAGE_WEIGHT)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a run binds tensor %" PRIu32
                                 ", which is none or a weight",
                        b->tensor);
    if (out->bound[b->tensor])
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a run binds tensor %" PRIu32 " twice",
                        b->tensor);
    out->bound[b->tensor] = true;
    const clv_tensor_desc *desc = &prog->graph->tensors[b->tensor];
    uint32_t align = clv_align(desc->dtype);
    if (dev->settings->pointer_align > align)
        align = dev->settings->pointer_align;
    ref_view view;
    if (!ref_view_make(desc, out->symbols, &view))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": tensor %" PRIu32 " has no size", b->tensor);
    uint64_t need = ref_view_extent(&view);
    if (!b->buffer || !ref_buffer_has(b->buffer, b->offset, b->size) ||
        b->size < need)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": tensor %" PRIu32 " needs %" PRIu64
                                 " bytes inside its buffer",
                        b->tensor, need);
    if (((uintptr_t)b->buffer->data + b->offset) % align)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": tensor %" PRIu32 " does not begin at a "
                                 "multiple of %" PRIu32 " bytes",
                        b->tensor, align);
    if (prog->written[b->tensor] && !(b->buffer->access & CLV_ACCESS_WRITE))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": tensor %" PRIu32 " is written, its memory "
                                 "is read-only",
                        b->tensor);
    if (!prog->hidden[b->tensor])
        out->data[b->tensor] = b->buffer->data + b->offset;
    return CLV_OK;
}

static clv_status make_run(const clv_plugin_device *dev, const clv_command *c,
                           ref_command *out)
{
    const clv_host_api *host = dev->host;
    const clv_plugin_program *prog = c->program;
    if (!prog || prog->dev != dev || (c->n_bindings && !c->bindings))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a run without a program of this device, "
                                 "or without bindings");
    uint32_t n = prog->graph->n_tensors;
    out->program = c->program;
    out->data = clv_new(host, n * sizeof *out->data);
    out->bound = clv_new(host, n * sizeof *out->bound);
    if (!out->data || !out->bound)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        out->data[i] = prog->hidden[i] ? prog->hidden[i] : prog->weights[i];
    clv_status status = set_symbols(host, c, out);
    for (uint32_t i = 0; i < c->n_bindings && !status; i++)
        status = bind(dev, &c->bindings[i], out);
    for (uint32_t i = 0; i < n && !status; i++)
        if (!out->bound[i] && !prog->weights[i])
            status = clv_fail(host, CLV_ERR_INVALID,
                              REF_NAME ": tensor %" PRIu32 " is not bound", i);
    return status;
}

static clv_status make_move(const clv_host_api *host, const clv_command *c,
                            ref_command *out)
{
    bool copy = c->kind == CLV_COMMAND_COPY;
    if (!c->dst || !ref_buffer_has(c->dst, c->dst_offset, c->size) ||
        (copy && (!c->src || !ref_buffer_has(c->src, c->src_offset, c->size))))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a copy or fill past the end of a buffer, "
                                 "or without one");
    if (!(c->dst->access & CLV_ACCESS_WRITE))
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a copy or fill of read-only memory");
    out->dst = c->dst->data + c->dst_offset;
    out->src = copy ? c->src->data + c->src_offset : NULL;
    out->size = c->size;
    out->pattern = c->pattern;
    return CLV_OK;
}

static clv_status make_commands(const clv_plugin_device *dev,
                                const clv_submit *s, ref_job *job)
{
    for (uint32_t i = 0; i < s->n_commands; i++) {
        clv_command c;
        clv_read(&c, sizeof c, clv_at(s->commands, i, s->command_stride));
        job->commands[i].kind = c.kind;
        CLV_TRY(c.kind == CLV_COMMAND_RUN
                    ? make_run(dev, &c, &job->commands[i])
                    : make_move(dev->host, &c, &job->commands[i]));
    }
    return CLV_OK;
}

static clv_status new_job(const clv_host_api *host, const clv_submit *s,
                          ref_job **out)
{
    ref_job *job = clv_new(host, sizeof *job);
    if (!job)
        return CLV_ERR_NO_MEMORY;
    job->host = host;
    job->queue = s->queue;
    job->correlation = s->correlation;
    job->n_commands = s->n_commands;
    job->n_waits = s->n_waits;
    job->n_signals = s->n_signals;
    job->commands = clv_new(host, s->n_commands * sizeof *job->commands);
    job->waits = clv_new(host, s->n_waits * sizeof *job->waits);
    job->signals = clv_new(host, s->n_signals * sizeof *job->signals);
    if (!job->commands || !job->waits || !job->signals) {
        ref_job_free(job);
        return CLV_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->n_waits; i++) {
        job->waits[i] = s->waits[i];
        if (s->waits[i].timeline)
            ref_timeline_hold(s->waits[i].timeline);
    }
    for (uint32_t i = 0; i < s->n_signals; i++) {
        job->signals[i] = s->signals[i];
        ref_timeline_hold(s->signals[i].timeline);
    }
    *out = job;
    return CLV_OK;
}

clv_status ref_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_submit s;
    clv_read(&s, sizeof s, submit);
    ref_job *job = NULL;
    CLV_TRY(ref_check_device(dev));
    CLV_TRY(clv_check_submit(dev->host, &s, dev->settings->copy_queues));
    clv_status status = new_job(dev->host, &s, &job);
    if (!status)
        status = make_commands(dev, &s, job);
    if (!status) {
        job->fails = dev->n_submits + 1 == dev->settings->fail_after;
        status = ref_queue_push(dev, job);
    }
    if (status)
        ref_job_free(job);
    else
        dev->n_submits++;
    return status;
}
