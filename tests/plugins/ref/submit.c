#include "ref.h"

#include <inttypes.h>
#include <string.h>

void ref_job_free(ref_job *job)
{
    if (!job)
        return;
    const clv_host_api *host = job->host;
    for (uint32_t i = 0; job->commands && i < job->n_commands; i++) {
        ref_free(host, job->commands[i].data);
        ref_free(host, job->commands[i].bound);
    }
    for (uint32_t i = 0; job->waits && i < job->n_waits; i++)
        ref_timeline_destroy(job->waits[i].timeline);
    for (uint32_t i = 0; job->signals && i < job->n_signals; i++)
        ref_timeline_destroy(job->signals[i].timeline);
    ref_free(host, job->commands);
    ref_free(host, job->waits);
    ref_free(host, job->signals);
    ref_free(host, job);
}

static clv_status check_counts(const clv_host_api *host, const clv_submit *s)
{
    if ((s->n_commands && !s->commands) || (s->n_waits && !s->waits) ||
        (s->n_signals && !s->signals))
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": a submit whose arrays are NULL");
    for (uint32_t i = 0; i < s->n_waits; i++)
        if (!s->waits[i].timeline && !s->waits[i].flag)
            return ref_error(host, CLV_ERR_INVALID,
                             REF_NAME ": wait %" PRIu32 " is for nothing", i);
    for (uint32_t i = 0; i < s->n_signals; i++)
        if (!s->signals[i].timeline || s->signals[i].value & CLV_FLAG_FAILED)
            return ref_error(host, CLV_ERR_INVALID,
                             REF_NAME ": signal %" PRIu32 " has no timeline, "
                                      "or a value of 2^63 or more",
                             i);
    return CLV_OK;
}

static clv_status set_symbols(const clv_host_api *host, const clv_command *c,
                              ref_command *out)
{
    const ref_graph *g = &c->program->graph;
    if (c->n_symbols != g->n_symbols || (c->n_symbols && !c->symbols))
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": %" PRIu32 " symbols for a program of "
                                  "%" PRIu32,
                         c->n_symbols, g->n_symbols);
    for (uint32_t i = 0; i < g->n_symbols; i++) {
        out->symbols[i] = c->symbols[i];
        if (c->symbols[i] < g->symbols[i].min ||
            c->symbols[i] > g->symbols[i].max)
            return ref_error(
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
    if (b->tensor >= prog->graph.n_tensors ||
        prog->graph.tensors[b->tensor].usage == CLV_USAGE_WEIGHT)
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": a run binds tensor %" PRIu32
                                  ", which is none or a weight",
                         b->tensor);
    if (out->bound[b->tensor])
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": a run binds tensor %" PRIu32 " twice",
                         b->tensor);
    out->bound[b->tensor] = true;
    const clv_tensor_desc *desc = &prog->graph.tensors[b->tensor];
    uint32_t align = ref_dtype_align(desc->dtype);
    if (dev->settings->pointer_align > align)
        align = dev->settings->pointer_align;
    ref_view view;
    if (!ref_view_make(desc, out->symbols, &view))
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": tensor %" PRIu32 " has no size",
                         b->tensor);
    uint64_t need = ref_view_extent(&view);
    if (!b->buffer || !ref_buffer_has(b->buffer, b->offset, b->size) ||
        b->size < need)
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": tensor %" PRIu32 " needs %" PRIu64
                                  " bytes inside its buffer",
                         b->tensor, need);
    if (((uintptr_t)b->buffer->data + b->offset) % align)
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": tensor %" PRIu32 " does not begin at a "
                                  "multiple of %" PRIu32 " bytes",
                         b->tensor, align);
    if (prog->written[b->tensor] && !(b->buffer->access & CLV_ACCESS_WRITE))
        return ref_error(host, CLV_ERR_INVALID,
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
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": a run without a program of this device, "
                                  "or without bindings");
    uint32_t n = prog->graph.n_tensors;
    out->program = c->program;
    out->data = ref_alloc(host, n, sizeof *out->data);
    out->bound = ref_alloc(host, n, sizeof *out->bound);
    if (!out->data || !out->bound)
        return ref_no_memory(host, "a run");
    for (uint32_t i = 0; i < n; i++)
        out->data[i] = prog->hidden[i] ? prog->hidden[i] : prog->weights[i];
    clv_status status = set_symbols(host, c, out);
    for (uint32_t i = 0; i < c->n_bindings && !status; i++)
        status = bind(dev, &c->bindings[i], out);
    for (uint32_t i = 0; i < n && !status; i++)
        if (!out->bound[i] && !prog->weights[i])
            status = ref_error(host, CLV_ERR_INVALID,
                               REF_NAME ": tensor %" PRIu32 " is not bound", i);
    return status;
}

static clv_status make_move(const clv_host_api *host, const clv_command *c,
                            ref_command *out)
{
    bool copy = c->kind == CLV_COMMAND_COPY;
    if (!c->dst || !ref_buffer_has(c->dst, c->dst_offset, c->size) ||
        (copy && (!c->src || !ref_buffer_has(c->src, c->src_offset, c->size))))
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": a copy or fill past the end of a buffer, "
                                  "or without one");
    if (!(c->dst->access & CLV_ACCESS_WRITE))
        return ref_error(host, CLV_ERR_INVALID,
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
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < s->n_commands && !status; i++) {
        clv_command c;
        ref_read(&c, sizeof c,
                 (const char *)s->commands + (size_t)i * s->command_stride);
        status = ref_check_chain(dev->host, &c.header);
        if (status)
            return status;
        job->commands[i].kind = c.kind;
        if (c.kind == CLV_COMMAND_RUN)
            status = make_run(dev, &c, &job->commands[i]);
        else if (c.kind == CLV_COMMAND_COPY || c.kind == CLV_COMMAND_FILL)
            status = make_move(dev->host, &c, &job->commands[i]);
        else
            status = ref_error(dev->host, CLV_ERR_UNSUPPORTED,
                               REF_NAME ": commands of kind %" PRIu32 " are "
                                        "not known",
                               c.kind);
    }
    return status;
}

static clv_status new_job(const clv_host_api *host, const clv_submit *s,
                          ref_job **out)
{
    ref_job *job = ref_alloc(host, 1, sizeof *job);
    if (!job)
        return ref_no_memory(host, "a submit");
    job->host = host;
    job->correlation = s->correlation;
    job->n_commands = s->n_commands;
    job->n_waits = s->n_waits;
    job->n_signals = s->n_signals;
    job->commands = ref_alloc(host, s->n_commands, sizeof *job->commands);
    job->waits = ref_alloc(host, s->n_waits, sizeof *job->waits);
    job->signals = ref_alloc(host, s->n_signals, sizeof *job->signals);
    if (!job->commands || !job->waits || !job->signals) {
        ref_job_free(job);
        return ref_no_memory(host, "a submit");
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
    ref_read(&s, sizeof s, submit);
    clv_status status = ref_check_device(dev);
    if (!status)
        status = ref_check_chain(dev->host, &s.header);
    if (!status)
        status = check_counts(dev->host, &s);
    ref_job *job = NULL;
    if (!status)
        status = new_job(dev->host, &s, &job);
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
