#include "submit.h"
#include "device.h"
#include "host.h"

#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

/* Memory of a job that is handed out piece by piece; a first pass with base
 * NULL only counts. */
typedef struct arena {
    char *base;
    uint64_t used;
} arena;

static void *take(arena *a, uint64_t n, uint64_t size)
{
    void *ptr = a->base ? a->base + a->used : NULL;
    a->used += (n * size + 15) & ~(uint64_t)15;
    return ptr;
}

static void read_command(const clv_submit *submit, uint32_t index,
                         clv_command *out)
{
    cpu_read(out, sizeof *out,
             (const char *)submit->commands +
                 (size_t)index * submit->command_stride);
}

static clv_status check_points(const clv_host_api *host,
                               const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_waits; i++)
        if (!submit->waits[i].timeline && !submit->waits[i].flag)
            return cpu_error(host, CLV_ERR_INVALID,
                             "cpu: wait %u has neither timeline nor flag word",
                             (unsigned)i);
    for (uint32_t i = 0; i < submit->n_signals; i++)
        if (!submit->signals[i].timeline ||
            submit->signals[i].value & CLV_FLAG_FAILED)
            return cpu_error(host, CLV_ERR_INVALID,
                             "cpu: signal %u has no timeline, or a value of "
                             "2^63 or more",
                             (unsigned)i);
    return CLV_OK;
}

static clv_status check_submit(const clv_host_api *host,
                               const clv_submit *submit)
{
    clv_status status = cpu_check_chain(host, &submit->header);
    if (status)
        return status;
    if ((submit->n_commands && !submit->commands) ||
        (submit->n_waits && !submit->waits) ||
        (submit->n_signals && !submit->signals))
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: the submit counts elements in an array that is "
                         "NULL");
    for (uint32_t i = 0; i < submit->n_commands; i++) {
        clv_command c;
        read_command(submit, i, &c);
        status = cpu_check_chain(host, &c.header);
        if (status)
            return status;
        if (c.kind < CLV_COMMAND_RUN || c.kind > CLV_COMMAND_FILL)
            return cpu_error(host, CLV_ERR_UNSUPPORTED,
                             "cpu: command %u is of unknown kind %u",
                             (unsigned)i, (unsigned)c.kind);
        if (c.kind == CLV_COMMAND_RUN &&
            (!c.program || (c.n_bindings && !c.bindings) ||
             (c.n_symbols && !c.symbols)))
            return cpu_error(host, CLV_ERR_INVALID,
                             "cpu: command %u runs no program, or its bindings "
                             "are NULL",
                             (unsigned)i);
    }
    return check_points(host, submit);
}

/* Lays out the job; the same both times. */
static cpu_job *lay_out(arena *a, const clv_submit *submit)
{
    cpu_job *job = take(a, 1, sizeof *job);
    cpu_command *commands = take(a, submit->n_commands, sizeof *commands);
    clv_timeline_point *waits = take(a, submit->n_waits, sizeof *waits);
    clv_timeline_point *signals = take(a, submit->n_signals, sizeof *signals);
    for (uint32_t i = 0; i < submit->n_commands; i++) {
        clv_command c;
        read_command(submit, i, &c);
        if (c.kind != CLV_COMMAND_RUN)
            continue;
        void **data = take(a, c.program->n_tensors, sizeof *data);
        int64_t *symbols = take(a, c.program->n_symbols, sizeof *symbols);
        if (!job)
            continue;
        commands[i].data = data;
        commands[i].symbols = symbols;
    }
    if (job) {
        job->commands = commands;
        job->waits = waits;
        job->signals = signals;
    }
    return job;
}

static clv_status resolve_symbols(const clv_host_api *host,
                                  const clv_command *c, int64_t *out)
{
    const clv_plugin_program *prog = c->program;
    if (c->n_symbols != prog->n_symbols)
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: %u symbol values for a program of %u",
                         (unsigned)c->n_symbols, (unsigned)prog->n_symbols);
    for (uint32_t i = 0; i < prog->n_symbols; i++) {
        const clv_symbol_range *range = &prog->symbols[i];
        out[i] = c->symbols[i];
        if (out[i] < range->min || out[i] > range->max)
            return cpu_error(host, CLV_ERR_INVALID,
                             "cpu: symbol %u is %" PRId64
                             ", the program was compiled for %" PRId64
                             " to %" PRId64,
                             (unsigned)i, out[i], range->min, range->max);
    }
    return CLV_OK;
}

static clv_status resolve_binding(const clv_host_api *host,
                                  const clv_plugin_program *prog,
                                  const clv_binding *binding, cpu_command *out)
{
    if (binding->tensor >= prog->n_tensors)
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: a binding is for tensor %u of %u",
                         (unsigned)binding->tensor, (unsigned)prog->n_tensors);
    const cpu_tensor *t = &prog->tensors[binding->tensor];
    if (!t->rank || t->usage == CLV_USAGE_WEIGHT)
        return CLV_OK;
    if (out->data[binding->tensor])
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: tensor %u of the program is bound twice",
                         (unsigned)binding->tensor);
    cpu_shape shape;
    cpu_tensor_shape(t, out->symbols, &shape);
    return cpu_bind(host, binding, cpu_shape_extent(&shape),
                    cpu_dtype_align(t->dtype), prog->written[binding->tensor],
                    &out->data[binding->tensor]);
}

static clv_status resolve_run(const clv_host_api *host, const clv_command *c,
                              cpu_command *out)
{
    const clv_plugin_program *prog = c->program;
    out->program = prog;
    clv_status status = resolve_symbols(host, c, out->symbols);
    if (status)
        return status;
    if (prog->n_tensors)
        memcpy(out->data, prog->weights, prog->n_tensors * sizeof *out->data);
    for (uint32_t i = 0; !status && i < c->n_bindings; i++)
        status = resolve_binding(host, prog, &c->bindings[i], out);
    for (uint32_t i = 0; !status && i < prog->n_tensors; i++)
        if (prog->tensors[i].rank && !out->data[i])
            status = cpu_error(host, CLV_ERR_INVALID,
                               "cpu: tensor %u of the program is not bound",
                               (unsigned)i);
    return status;
}

static clv_status resolve_transfer(const clv_host_api *host,
                                   const clv_command *c, cpu_command *out)
{
    bool copy = c->kind == CLV_COMMAND_COPY;
    if (!c->dst || !cpu_buffer_has(c->dst, c->dst_offset, c->size) ||
        (copy && (!c->src || !cpu_buffer_has(c->src, c->src_offset, c->size))))
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: %" PRIu64 " bytes from %" PRIu64 " to %" PRIu64
                         " are not inside the buffers of a %s",
                         c->size, c->src_offset, c->dst_offset,
                         copy ? "copy" : "fill");
    if (!(c->dst->access & CLV_ACCESS_WRITE))
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: the destination was imported read-only; import "
                         "it with write access");
    out->size = c->size;
    out->pattern = c->pattern;
    out->dst = c->dst->data + c->dst_offset;
    if (copy)
        out->src = c->src->data + c->src_offset;
    return CLV_OK;
}

static clv_status resolve(const clv_host_api *host, const clv_submit *submit,
                          cpu_job *job)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; !status && i < submit->n_commands; i++) {
        clv_command c;
        read_command(submit, i, &c);
        job->commands[i].kind = c.kind;
        status = c.kind == CLV_COMMAND_RUN
                     ? resolve_run(host, &c, &job->commands[i])
                     : resolve_transfer(host, &c, &job->commands[i]);
    }
    return status;
}

static void keep_points(clv_timeline_point *out, const clv_timeline_point *in,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = in[i];
        if (in[i].timeline)
            cpu_timeline_ref(in[i].timeline);
    }
}

clv_status cpu_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    const clv_host_api *host = dev->host;
    clv_submit s;
    cpu_read(&s, sizeof s, submit);
    clv_status status = cpu_device_usable(dev);
    if (!status)
        status = check_submit(host, &s);
    if (!status && s.correlation)
        status = cpu_trace_reserve(dev->trace);
    if (status)
        return status;
    arena a = {0};
    lay_out(&a, &s);
    a.base = cpu_alloc(host, a.used, alignof(max_align_t));
    if (!a.base)
        return cpu_no_memory(host, "a submit", a.used);
    a.used = 0;
    cpu_job *job = lay_out(&a, &s);
    status = resolve(host, &s, job);
    if (status) {
        cpu_free(host, job);
        return status;
    }
    job->correlation = s.correlation;
    job->n_commands = s.n_commands;
    job->n_waits = s.n_waits;
    job->n_signals = s.n_signals;
    keep_points(job->waits, s.waits, s.n_waits);
    keep_points(job->signals, s.signals, s.n_signals);
    cpu_queue_push(dev->queue, job);
    return CLV_OK;
}
