/*
 * What copies between memories take. A device without memory of its own copies
 * within the host's; one that has it copies into it, from memory that the host
 * sees, which the host has to fill first where the device cannot reach its own.
 */
#include "measure_copies.h"
#include "../../core/device/submit.h"

#include "../../core/device/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COPY_SMALL 64u
#define COPY_LARGE ((uint64_t)4 << 20)
#define COPIES 8u

typedef struct copier {
    core_trial *block; /* its first operand is copied to, or within */
    clv_device *dev;
    core_buffer *staging; /* NULL: copies are within the operand */
    char *mapped;
    uint32_t n; /* repetitions */
    double *values;
} copier;

static clv_status make_staging(copier *c, uint64_t size)
{
    uint32_t type;
    void *mapped = NULL;
    if (!core_device_has_local(c->dev, &type))
        return CLV_OK;
    clv_status status = core_device_can_exchange(c->dev);
    if (status)
        return status;
    core_device_staging_type(c->dev, &type);
    status = core_buffer_alloc(c->dev, type, size, &c->staging);
    if (!status)
        status = core_buffer_map(c->staging, CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                                 &mapped);
    c->mapped = mapped;
    return status;
}

static void free_staging(copier *c)
{
    if (c->mapped)
        core_buffer_unmap(c->staging);
    core_buffer_free(c->staging);
}

/* One submit of n copies of size bytes behind the block. */
static clv_status time_copies(copier *c, uint32_t n, uint64_t size, double *ns)
{
    core_command commands[COPIES];
    core_buffer *buf = c->block->bindings->buffer;
    double begin = 0, end = 0;
    for (uint32_t i = 0; i < n; i++)
        commands[i] =
            (core_command){.kind = CLV_COMMAND_COPY,
                           .src = c->staging ? c->staging : buf,
                           .dst = buf,
                           .src_offset = c->staging ? 0 : buf->size - size,
                           .dst_offset = buf->size - 2 * size,
                           .size = size};
    const core_point signal = {c->block->timeline, c->block->value + 1};
    const core_submit submit = {.commands = commands,
                                .n_commands = n,
                                .signals = &signal,
                                .n_signals = 1};
    clv_status status = planner_trial_now(c->dev, &begin);
    if (!status)
        status = core_device_submit(c->dev, &submit);
    if (!status) {
        c->block->value++;
        status = planner_trial_wait(c->block, 0);
    }
    if (!status)
        status = planner_trial_now(c->dev, &end);
    *ns = end - begin;
    return status;
}

static clv_status time_copy(copier *c, uint64_t size, double *out)
{
    for (uint32_t i = 0; i < c->n; i++) {
        double one, more;
        clv_status status = time_copies(c, 1, size, &one);
        if (!status)
            status = time_copies(c, COPIES, size, &more);
        if (status)
            return status;
        c->values[i] = (more - one) / (COPIES - 1);
    }
    *out = fmax(planner_undisturbed(c->values, c->n), 0);
    return CLV_OK;
}

/* The host's part, a byte. */
static double time_filling(copier *c, uint64_t size)
{
    char *from = malloc(size);
    if (!from)
        return 0;
    memset(from, 1, size);
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t begin = clv_now_ns();
        memcpy(c->mapped, from, size);
        c->values[i] = (double)(clv_now_ns() - begin);
    }
    free(from);
    return planner_undisturbed(c->values, c->n) / (double)size;
}

static clv_status time_both(copier *c, uint64_t size, planner_overheads *o)
{
    double small, large;
    clv_status status = time_copy(c, COPY_SMALL, &small);
    if (status == CLV_ERR_UNSUPPORTED)
        return CLV_OK;
    if (!status)
        status = time_copy(c, size, &large);
    if (status)
        return status;
    o->copy_byte = fmax((large - small) / (double)(size - COPY_SMALL), 0);
    o->copy = fmax(small - COPY_SMALL * o->copy_byte, 0);
    if (c->staging && !core_device_reaches_host(c->dev, 1) &&
        c->dev->info.clock == CLV_CLOCK_REAL)
        o->copy_byte += time_filling(c, size);
    return CLV_OK;
}

clv_status planner_measure_copies(core_trial *block, clv_device *dev,
                                  uint32_t n, double *values,
                                  planner_overheads *o)
{
    copier c = {.block = block, .dev = dev, .n = n, .values = values};
    uint64_t most = block->bindings->buffer->size / 4;
    uint64_t size = COPY_LARGE < most ? COPY_LARGE : most;
    clv_status status = make_staging(&c, size);
    if (!status)
        status = time_both(&c, size, o);
    free_staging(&c);
    return status;
}
