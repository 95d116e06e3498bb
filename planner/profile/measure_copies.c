/*
 * What copies between memories take. A device without memory of its own copies
 * within the host's. One that has it copies into it and out of it as plans do:
 * from and to memory of the host, such as plans have their values in, if it
 * reaches that; else through memory that both see, which the host fills or
 * empties.
 */
#include "measure_copies.h"
#include "../../core/device/memory.h"
#include "../../core/device/submit.h"
#include "../../core/graph/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COPY_SMALL 64u
#define COPY_LARGE ((uint64_t)4 << 20)
#define COPIES 8u

typedef struct copier {
    core_trial *block; /* its first operand is copied to, from, or within */
    clv_device *dev;
    clv_tensor *host;     /* that the device reaches, or NULL */
    core_buffer *staging; /* else memory that both see, or NULL */
    char *mapped;
    core_buffer *other; /* of the two; NULL: copies are within */
    uint64_t offset;    /* there */
    uint32_t n;         /* repetitions */
    bool noisy, out;
    double *values;
} copier;

static clv_status reach_host(copier *c, uint64_t size)
{
    const int64_t bytes = (int64_t)size;
    const core_object *object;
    CLV_TRY(clv_tensor_create(c->dev->ctx, CLV_DTYPE_I8, 1, &bytes, &c->host));
    memset(clv_tensor_data(c->host), 1, size);
    CLV_TRY(core_tensor_object(c->host, c->dev, 1, CORE_HOLD_IMPORT, NULL,
                               &object));
    c->other = object->buffer;
    c->offset = object->offset;
    return CLV_OK;
}

static clv_status make_staging(copier *c, uint64_t size)
{
    uint32_t type;
    void *mapped = NULL;
    if (!core_device_has_local(c->dev, &type))
        return CLV_OK;
    if (core_device_reaches_host(c->dev, size))
        return reach_host(c, size);
    clv_status status = core_device_can_exchange(c->dev);
    if (status)
        return status;
    core_device_staging_type(c->dev, &type);
    status = core_buffer_alloc(c->dev, type, size, &c->staging);
    if (!status)
        status = core_buffer_map(c->staging, CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                                 &mapped);
    c->mapped = mapped;
    c->other = c->staging;
    return status;
}

static void free_staging(copier *c)
{
    if (c->mapped)
        core_buffer_unmap(c->staging);
    core_buffer_free(c->staging);
    clv_tensor_destroy(c->host);
}

/* One submit of n copies of size bytes behind the block. */
static clv_status time_copies(copier *c, uint32_t n, uint64_t size, double *ns)
{
    core_command commands[COPIES];
    core_buffer *buf = c->block->bindings->buffer;
    core_buffer *other = c->other ? c->other : buf;
    const uint64_t at = c->other ? c->offset : buf->size - size;
    const uint64_t own = buf->size - 2 * size;
    double begin = 0, end = 0;
    for (uint32_t i = 0; i < n; i++)
        commands[i] = (core_command){.kind = CLV_COMMAND_COPY,
                                     .src = c->out ? buf : other,
                                     .dst = c->out ? other : buf,
                                     .src_offset = c->out ? own : at,
                                     .dst_offset = c->out ? at : own,
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
    *out = fmax(planner_typical(c->noisy, c->values, c->n), 0);
    return CLV_OK;
}

/* The host's part, a byte. */
static double time_host(copier *c, uint64_t size)
{
    char *own = malloc(size);
    if (!own)
        return 0;
    memset(own, 1, size);
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t begin = clv_now_ns();
        memcpy(c->out ? own : c->mapped, c->out ? c->mapped : own, size);
        c->values[i] = (double)(clv_now_ns() - begin);
    }
    free(own);
    return planner_undisturbed(c->values, c->n) / (double)size;
}

/* *few: of a copy of few bytes; *byte: of each more. */
static clv_status time_way(copier *c, uint64_t size, double *few, double *byte)
{
    double small, large;
    clv_status status = time_copy(c, COPY_SMALL, &small);
    if (status == CLV_ERR_UNSUPPORTED)
        return CLV_OK;
    if (!status)
        status = time_copy(c, size, &large);
    if (status)
        return status;
    *byte = fmax((large - small) / (double)(size - COPY_SMALL), 0);
    *few = fmax(small - COPY_SMALL * *byte, 0);
    if (c->mapped && c->dev->info.clock == CLV_CLOCK_REAL)
        *byte += time_host(c, size);
    return CLV_OK;
}

static clv_status time_ways(copier *c, uint64_t size, planner_overheads *o)
{
    CLV_TRY(time_way(c, size, &o->copy, &o->copy_byte));
    c->out = true;
    return c->other ? time_way(c, size, &o->copy_out, &o->copy_byte_out)
                    : CLV_OK;
}

clv_status planner_measure_copies(core_trial *block, uint32_t n, bool noisy,
                                  double *values, planner_overheads *out)
{
    const uint64_t most = block->bindings->buffer->size / 4;
    const uint64_t size = COPY_LARGE < most ? COPY_LARGE : most;
    copier c = {.block = block,
                .dev = block->dev,
                .n = n,
                .noisy = noisy,
                .values = values};
    clv_status status = make_staging(&c, size);
    if (!status)
        status = time_ways(&c, size, out);
    free_staging(&c);
    return status;
}
