/*
 * What copies between memories take. A device without memory of its own copies
 * within the host's. One that has it copies into it and out of it as plans do:
 * from and to memory of the host, such as plans have their values in, if it
 * reaches that; else memory that both see.
 */
#include "measure_copies.h"
#include "../../core/base/error.h"
#include "../../core/context/context.h"
#include "../../core/device/answer.h"
#include "../../core/device/memory.h"
#include "../../core/device/submit.h"
#include "../../core/graph/tensor.h"
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COPY_SMALL 64u
#define COPY_LARGE ((uint64_t)4 << 20)
#define COPIES 8u
/* More than the caches of a processor. */
#define COPY_MANY ((uint64_t)256 << 20)
/* Of a copy of rows; each is a quarter of what lies between two. */
#define ROWS 256u
#define MAX_REPETITIONS 15u
#define TRIES 8
/* Of the device's memory, at most so much is copied to. */
#define MEMORY_PART 4

typedef struct planner_copier {
    clv_device *dev;
    core_timeline *timeline;
    uint64_t value;     /* of it after all that was submitted */
    core_buffer *own;   /* that is copied to, from, or within */
    clv_tensor *host;   /* that the device reaches, or NULL */
    core_buffer *both;  /* memory that both see, or NULL */
    core_buffer *other; /* of these two; NULL: copies are within */
    uint64_t offset;    /* there */
    uint64_t size;      /* of the largest copy, and of all rows with what is
                           between them */
    uint64_t reached;   /* bytes of the other memory; at least that */
    uint32_t n;         /* repetitions */
    bool noisy, out;
} planner_copier;

static clv_status reach_host(planner_copier *c)
{
    const int64_t bytes = (int64_t)c->reached;
    const core_object *object;
    CLV_TRY(clv_tensor_create(c->dev->ctx, CLV_DTYPE_I8, 1, &bytes, &c->host));
    memset(clv_tensor_data(c->host), 1, c->reached);
    CLV_TRY(core_tensor_object(c->host, c->dev, 1, CORE_HOLD_IMPORT, NULL,
                               &object));
    c->other = object->buffer;
    c->offset = object->offset;
    return CLV_OK;
}

static clv_status see_both(planner_copier *c)
{
    uint32_t type;
    CLV_TRY(core_device_can_exchange(c->dev));
    core_device_staging_type(c->dev, &type);
    CLV_TRY(core_buffer_alloc(c->dev, type, c->reached, &c->both));
    c->other = c->both;
    return CLV_OK;
}

static clv_status make_memory(planner_copier *c)
{
    const uint64_t room = clv_device_room(c->dev) / MEMORY_PART;
    uint32_t type;
    c->size = COPY_LARGE < room ? COPY_LARGE : room & ~(uint64_t)63;
    c->reached = c->reached > c->size ? c->reached : c->size;
    if (!core_device_has_local(c->dev, &type)) {
        CLV_TRY(core_device_copy_type(c->dev, 2 * c->size, 1, &type));
        return core_buffer_alloc(c->dev, type, 2 * c->size, &c->own);
    }
    CLV_TRY(core_device_alloc_local(c->dev, c->size, "copies", &c->own));
    return core_device_reaches_host(c->dev, c->reached) ? reach_host(c)
                                                        : see_both(c);
}

static void free_memory(planner_copier *c)
{
    core_buffer_free(c->both);
    clv_tensor_destroy(c->host);
    core_buffer_free(c->own);
    core_timeline_destroy(c->timeline);
}

/* One submit of n copies of so many rows, size bytes in all. */
static clv_status time_copies(planner_copier *c, uint32_t n, uint64_t size,
                              uint32_t n_rows, double *ns)
{
    core_command commands[COPIES];
    core_buffer *other = c->other ? c->other : c->own;
    const uint64_t at = c->other ? c->offset : c->size;
    double begin = 0, end = 0;
    for (uint32_t i = 0; i < n; i++)
        commands[i] = (core_command){.kind = CLV_COMMAND_COPY,
                                     .src = c->out ? c->own : other,
                                     .dst = c->out ? other : c->own,
                                     .src_offset = c->out ? 0 : at,
                                     .dst_offset = c->out ? at : 0,
                                     .size = size / n_rows,
                                     .n_rows = n_rows,
                                     .src_pitch = c->size / n_rows,
                                     .dst_pitch = c->size / n_rows};
    const core_point signal = {c->timeline, c->value + 1};
    const core_submit submit = {.commands = commands,
                                .n_commands = n,
                                .signals = &signal,
                                .n_signals = 1};
    CLV_TRY(planner_trial_now(c->dev, &begin));
    CLV_TRY(core_device_submit(c->dev, &submit));
    c->value++;
    CLV_TRY(core_timeline_wait(c->timeline, c->value, 0,
                               core_context_wait_ns(c->dev->ctx)));
    CLV_TRY(planner_trial_now(c->dev, &end));
    *ns = end - begin;
    return CLV_OK;
}

static clv_status time_copy(planner_copier *c, uint64_t size, uint32_t n_rows,
                            double *out)
{
    double one[MAX_REPETITIONS], more[MAX_REPETITIONS];
    for (uint32_t i = 0; i < c->n; i++) {
        CLV_TRY(time_copies(c, 1, size, n_rows, &one[i]));
        CLV_TRY(time_copies(c, COPIES, size, n_rows, &more[i]));
    }
    const double further = planner_above(c->noisy, more, one, c->n);
    *out = fmax(further, 0) / (COPIES - 1);
    return CLV_OK;
}

/* *few: of a copy of few bytes; *byte: of each more. Where the machine does
 * other things, so that large copies seem to take no longer, it is tried again,
 * and they stay as they are at last. */
static clv_status time_way(planner_copier *c, double *few, double *byte)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        double small, large;
        clv_status status = time_copy(c, COPY_SMALL, 1, &small);
        if (status == CLV_ERR_UNSUPPORTED)
            return CLV_OK;
        CLV_TRY(status);
        CLV_TRY(time_copy(c, c->size, 1, &large));
        if (!(large > small))
            continue;
        *byte = (large - small) / (double)(c->size - COPY_SMALL);
        *few = fmax(small - COPY_SMALL * *byte, 0);
        return CLV_OK;
    }
    return CLV_OK;
}

/* What each row costs behind the first; a copy, where each is one. */
static clv_status time_rows(planner_copier *c, planner_overheads *o)
{
    const uint64_t size = c->size / 4 / ROWS * ROWS;
    double ns;
    o->copy_row = o->copy;
    if (!(c->dev->info.flags & CLV_DEVICE_COPIES_ROWS) || !size)
        return CLV_OK;
    CLV_TRY(time_copy(c, size, ROWS, &ns));
    ns -= o->copy + o->copy_byte * (double)size;
    o->copy_row = fmax(ns, 0) / (ROWS - 1);
    return CLV_OK;
}

static clv_status time_ways(planner_copier *c, planner_overheads *o)
{
    CLV_TRY(time_way(c, &o->copy, &o->copy_byte));
    if (o->copy_byte > 0)
        CLV_TRY(time_rows(c, o));
    c->out = true;
    return c->other ? time_way(c, &o->copy_out, &o->copy_byte_out) : CLV_OK;
}

clv_status planner_measure_copies(clv_device *dev, uint32_t n, bool noisy,
                                  planner_overheads *out)
{
    planner_copier c = {.dev = dev,
                        .n = n < MAX_REPETITIONS ? n : MAX_REPETITIONS,
                        .noisy = noisy};
    clv_status status = core_timeline_create(dev, 0, &c.timeline);
    if (!status)
        status = make_memory(&c);
    if (!status && c.size > COPY_SMALL)
        status = time_ways(&c, out);
    free_memory(&c);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Beside other work                                                         */

clv_status planner_copier_create(clv_device *dev, bool many,
                                 planner_copier **out)
{
    planner_copier *c = calloc(1, sizeof *c);
    if (!c)
        return core_no_memory("to measure copies");
    *c = (planner_copier){.dev = dev, .reached = many ? COPY_MANY : 0};
    clv_status status = core_timeline_create(dev, 0, &c->timeline);
    if (!status)
        status = make_memory(c);
    if (!status && (!c->other || c->size <= COPY_SMALL))
        status = core_device_error(dev, CLV_ERR_UNSUPPORTED,
                                   "it copies nothing from the host's memory");
    if (status)
        planner_copier_destroy(c);
    else
        *out = c;
    return status;
}

void planner_copier_destroy(planner_copier *copier)
{
    if (copier)
        free_memory(copier);
    free(copier);
}

uint64_t planner_copier_bytes(const planner_copier *copier)
{
    return copier->size;
}

clv_status planner_copier_submit(planner_copier *c, uint32_t n,
                                 uint64_t correlation)
{
    const uint64_t places = c->reached / c->size;
    const core_point signal = {c->timeline, c->value + 1};
    core_command *commands = calloc(n + 1u, sizeof *commands);
    if (!commands)
        return core_no_memory("to measure copies");
    for (uint32_t i = 0; i < n; i++)
        commands[i] =
            (core_command){.kind = CLV_COMMAND_COPY,
                           .src = c->other,
                           .dst = c->own,
                           .src_offset = c->offset + i % places * c->size,
                           .size = c->size,
                           .n_rows = 1};
    const core_submit submit = {.commands = commands,
                                .n_commands = n,
                                .signals = &signal,
                                .n_signals = 1,
                                .correlation = correlation};
    clv_status status = core_device_submit(c->dev, &submit);
    c->value += !status;
    free(commands);
    return status;
}

clv_status planner_copier_wait(planner_copier *c)
{
    return core_timeline_wait(c->timeline, c->value, 0,
                              core_context_wait_ns(c->dev->ctx));
}
