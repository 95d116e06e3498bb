#include "answer.h"
#include "loss.h"
#include "subgraph.h"
#include "submit.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

struct core_submit_scratch {
    clv_command *commands;
    clv_binding *bindings;
    clv_timeline_point *points;
    uint8_t *seen; /* tensors bound so far, of the program looked at */
    uint32_t n_commands, n_bindings, n_points, n_seen; /* capacities */
};

void core_submit_scratch_destroy(core_submit_scratch *s)
{
    if (!s)
        return;
    free(s->commands);
    free(s->bindings);
    free(s->points);
    free(s->seen);
    free(s);
}

static clv_status reserve(clv_device *dev, const core_submit *submit)
{
    uint64_t n_bindings = 0, n_seen = 0;
    for (uint32_t i = 0; i < submit->n_commands; i++) {
        const core_command *c = &submit->commands[i];
        if (c->kind != CLV_COMMAND_RUN)
            continue;
        n_bindings += c->n_bindings;
        if (c->program && c->program->n_tensors > n_seen)
            n_seen = c->program->n_tensors;
    }
    if (!dev->scratch)
        dev->scratch = calloc(1, sizeof *dev->scratch);
    core_submit_scratch *s = dev->scratch;
    uint64_t n_points = (uint64_t)submit->n_waits + submit->n_signals;
    if (!s ||
        !core_grow(&s->commands, &s->n_commands, submit->n_commands,
                   sizeof *s->commands) ||
        !core_grow(&s->bindings, &s->n_bindings, n_bindings,
                   sizeof *s->bindings) ||
        !core_grow(&s->points, &s->n_points, n_points, sizeof *s->points) ||
        !core_grow(&s->seen, &s->n_seen, n_seen, sizeof *s->seen))
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory for a submit of %u commands",
                                 submit->n_commands);
    return CLV_OK;
}

static clv_status check_inside(const clv_device *dev, const core_buffer *buf,
                               uint64_t offset, uint64_t size, uint32_t access,
                               const char *what)
{
    if (!buf || buf->dev != dev)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "%s is no buffer of this device", what);
    if (offset > buf->size || size > buf->size - offset)
        return core_device_error(
            dev, CLV_ERR_INVALID,
            "%s needs bytes %llu + %llu of a buffer of %llu", what,
            (unsigned long long)offset, (unsigned long long)size,
            (unsigned long long)buf->size);
    if (access & ~buf->access)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "%s would be written but is read-only memory",
                                 what);
    return CLV_OK;
}

static clv_status check_binding(clv_device *dev, const core_program *prog,
                                const core_binding *b, const int64_t *symbols,
                                uint8_t *seen)
{
    if (b->tensor >= prog->n_tensors || !prog->binds[b->tensor] ||
        seen[b->tensor])
        return core_device_error(
            dev, CLV_ERR_INVALID,
            "tensor %u is unknown, a weight, one that the program does not "
            "touch or bound twice",
            b->tensor);
    seen[b->tensor] = 1;
    const clv_tensor_desc *desc = &prog->tensors[b->tensor];
    uint32_t access = desc->usage == CLV_USAGE_INPUT
                          ? CLV_ACCESS_READ
                          : CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    uint64_t need;
    CLV_TRY(
        check_inside(dev, b->buffer, b->offset, b->size, access, "a binding"));
    CLV_TRY(core_desc_size(desc, symbols, &need));
    if (b->size >= need)
        return CLV_OK;
    return core_device_error(dev, CLV_ERR_INVALID,
                             "tensor %u needs %llu bytes, its binding has %llu",
                             b->tensor, (unsigned long long)need,
                             (unsigned long long)b->size);
}

static clv_status check_run(clv_device *dev, const core_command *c,
                            uint8_t *seen)
{
    const core_program *prog = c->program;
    if (!prog || prog->dev != dev)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "a run without a program of this device");
    if (c->n_bindings != prog->n_bound)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "%u tensors are bound, the program needs %u",
                                 c->n_bindings, prog->n_bound);
    for (uint32_t i = 0; i < prog->n_symbols; i++)
        if (c->symbols[i] < prog->symbols[i].min ||
            c->symbols[i] > prog->symbols[i].max)
            return core_device_error(
                dev, CLV_ERR_INVALID,
                "symbol %u is %lld, the program was compiled for %lld..%lld", i,
                (long long)c->symbols[i], (long long)prog->symbols[i].min,
                (long long)prog->symbols[i].max);
    memset(seen, 0, prog->n_tensors);
    for (uint32_t i = 0; i < c->n_bindings; i++)
        CLV_TRY(check_binding(dev, prog, &c->bindings[i], c->symbols, seen));
    return CLV_OK;
}

/* From the first byte of rows to the last; UINT64_MAX: they overlap, or are too
 * many to count. */
static uint64_t span_of(const core_command *c, uint64_t pitch)
{
    const uint64_t more = c->size && c->n_rows > 1 ? c->n_rows - 1 : 0;
    if (more && (pitch < c->size || pitch > (UINT64_MAX - c->size) / more))
        return UINT64_MAX;
    return more * pitch + c->size;
}

static clv_status check_move(const clv_device *dev, const core_command *c)
{
    if (c->n_rows > 1 && (c->kind != CLV_COMMAND_COPY ||
                          !(dev->info.flags & CLV_DEVICE_COPIES_ROWS)))
        return core_device_error(dev, CLV_ERR_UNSUPPORTED,
                                 "a copy of %llu rows; send each by itself",
                                 (unsigned long long)c->n_rows);
    CLV_TRY(check_inside(dev, c->dst, c->dst_offset, span_of(c, c->dst_pitch),
                         CLV_ACCESS_WRITE, "a destination"));
    if (c->kind == CLV_COMMAND_COPY)
        return check_inside(dev, c->src, c->src_offset,
                            span_of(c, c->src_pitch), CLV_ACCESS_READ,
                            "a source");
    if ((c->dst_offset | c->size) % sizeof c->pattern)
        return core_device_error(
            dev, CLV_ERR_INVALID,
            "a fill of bytes %llu + %llu is not whole words",
            (unsigned long long)c->dst_offset, (unsigned long long)c->size);
    return CLV_OK;
}

static clv_status put_commands(clv_device *dev, const core_submit *submit)
{
    core_submit_scratch *s = dev->scratch;
    clv_binding *next = s->bindings;
    for (uint32_t i = 0; i < submit->n_commands; i++) {
        const core_command *c = &submit->commands[i];
        clv_command *to = &s->commands[i];
        *to = (clv_command)CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
        to->kind = c->kind;
        if (c->kind == CLV_COMMAND_RUN && submit->queue)
            return core_device_error(dev, CLV_ERR_INVALID,
                                     "queue %u copies and fills alone; submit "
                                     "runs to queue 0",
                                     submit->queue);
        if (c->kind == CLV_COMMAND_RUN) {
            CLV_TRY(check_run(dev, c, s->seen));
            to->program = c->program->handle;
            to->bindings = next;
            to->n_bindings = c->n_bindings;
            to->symbols = c->symbols;
            to->n_symbols = c->program->n_symbols;
            for (uint32_t b = 0; b < c->n_bindings; b++)
                *next++ = (clv_binding){.tensor = c->bindings[b].tensor,
                                        .buffer = c->bindings[b].buffer->handle,
                                        .offset = c->bindings[b].offset,
                                        .size = c->bindings[b].size};
        } else if (c->kind == CLV_COMMAND_COPY || c->kind == CLV_COMMAND_FILL) {
            CLV_TRY(check_move(dev, c));
            to->src = c->kind == CLV_COMMAND_COPY ? c->src->handle : NULL;
            to->dst = c->dst->handle;
            to->src_offset = c->src_offset;
            to->dst_offset = c->dst_offset;
            to->size = c->size;
            to->pattern = c->pattern;
            to->n_rows = c->n_rows;
            to->src_pitch = c->src_pitch;
            to->dst_pitch = c->dst_pitch;
        } else {
            return core_device_error(dev, CLV_ERR_INVALID,
                                     "there is no command kind %u", c->kind);
        }
    }
    return CLV_OK;
}

static clv_status put_points(clv_device *dev, const core_submit *submit)
{
    clv_timeline_point *to = dev->scratch->points;
    for (uint32_t i = 0; i < submit->n_waits; i++) {
        const core_timeline *tl = submit->waits[i].timeline;
        bool own = tl->dev == dev;
        if (!own && !(dev->info.flags & CLV_DEVICE_FLAG_WAIT))
            return core_device_error(dev, CLV_ERR_UNSUPPORTED,
                                     "it cannot wait for device '%s'; wait on "
                                     "the host before the submit",
                                     tl->dev->id);
        *to++ =
            (clv_timeline_point){own ? tl->handle : NULL, own ? NULL : tl->flag,
                                 submit->waits[i].value};
    }
    for (uint32_t i = 0; i < submit->n_signals; i++) {
        const core_timeline *tl = submit->signals[i].timeline;
        if (tl->dev != dev)
            return core_device_error(
                dev, CLV_ERR_INVALID,
                "it cannot signal a timeline of device '%s'", tl->dev->id);
        *to++ =
            (clv_timeline_point){tl->handle, NULL, submit->signals[i].value};
    }
    return CLV_OK;
}

static clv_status submit_locked(clv_device *dev, const core_submit *submit)
{
    if (submit->queue > dev->info.copy_queues)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "there is no queue %u; it has %u for copies",
                                 submit->queue, dev->info.copy_queues);
    CLV_TRY(reserve(dev, submit));
    CLV_TRY(put_commands(dev, submit));
    CLV_TRY(put_points(dev, submit));
    clv_submit s = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    s.commands = dev->scratch->commands;
    s.n_commands = submit->n_commands;
    s.command_stride = sizeof *dev->scratch->commands;
    s.waits = dev->scratch->points;
    s.n_waits = submit->n_waits;
    s.signals = dev->scratch->points + submit->n_waits;
    s.n_signals = submit->n_signals;
    s.correlation = submit->correlation;
    s.queue = submit->queue;
    return CORE_CALL(dev, submit, dev->handle, &s);
}

clv_status core_device_submit(clv_device *dev, const core_submit *submit)
{
    CLV_TRY(core_device_usable(dev));
    pthread_mutex_lock(&dev->mutex);
    clv_status st = submit_locked(dev, submit);
    pthread_mutex_unlock(&dev->mutex);
    return st;
}
