#include "memory.h"
#include "answer.h"
#include "loss.h"
#include "relayout.h"
#include "submit.h"

#include <stdlib.h>
#include <string.h>

/* Both halves are a fourth of what passes: some drivers take 0.6 ms to make a
 * MiB of memory that the host sees. These are the bounds of one half, in bytes.
 */
#define HALF_SIZE (16u << 20)
#define LEAST_HALF_SIZE (1u << 20)
#define HALF_ALIGN 4096u
#define MAX_COMMANDS 64u /* of one submit */
/* Drivers take long for large fills. */
#define ZEROS_SIZE (64u << 20)

typedef enum direction { TO_DEVICE, PACKED, TO_HOST, ZEROS } direction;

/* The staging buffer of a device. */
typedef struct core_stage {
    clv_device *dev;
    core_timeline *timeline;
    core_buffer *buffer; /* NULL: only for zeros */
    char *mapped;
    uint64_t half;     /* bytes of each of its two halves */
    uint64_t value;    /* of the timeline after all that was submitted */
    uint64_t until[2]; /* a half is free once the timeline has this */
    uint32_t next;     /* half to use next */
    bool shared;       /* the device's, used under stage_mutex */
} core_stage;

typedef struct exchange {
    core_stage *stage;
    core_buffer *buf;
    direction dir;
    uint64_t base;
    uint64_t packed; /* bytes that lie in the buffer so far */
    char *host;
} exchange;

/* ------------------------------------------------------------------------ */
/* The stage                                                                 */

static void stage_free(core_stage *s)
{
    if (!s)
        return;
    if (s->mapped)
        core_buffer_unmap(s->buffer);
    core_buffer_free(s->buffer);
    core_timeline_destroy(s->timeline);
    free(s);
}

static clv_status stage_buffer(core_stage *s, uint64_t bytes)
{
    uint32_t type = 0;
    void *mapped = NULL;
    CLV_TRY(core_device_can_exchange(s->dev));
    core_device_staging_type(s->dev, &type);
    uint64_t most = s->dev->mem_types[type].max_size / 2;
    s->half = bytes / 8 > LEAST_HALF_SIZE ? bytes / 8 : LEAST_HALF_SIZE;
    s->half = s->half < HALF_SIZE ? s->half : HALF_SIZE;
    s->half = s->half < bytes ? s->half : bytes;
    s->half = (s->half + HALF_ALIGN - 1) & ~(uint64_t)(HALF_ALIGN - 1);
    s->half = s->half < most ? s->half : most;
    if (!s->half)
        return clv_error(CLV_ERR_LIMIT,
                         "device '%s' has not 2 bytes that the "
                         "host sees; leave it out of the plan's devices",
                         s->dev->id);
    clv_status status =
        core_buffer_alloc(s->dev, type, 2 * s->half, &s->buffer);
    if (!status)
        status = core_buffer_map(s->buffer, CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                                 &mapped);
    s->mapped = mapped;
    return status;
}

/* bytes: that pass in all; 0: only zeros. */
static clv_status stage_make(clv_device *dev, uint64_t bytes, core_stage **out)
{
    core_stage *s = calloc(1, sizeof *s);
    if (!s)
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory for copies");
    s->dev = dev;
    clv_status status = core_timeline_create(dev, 0, &s->timeline);
    if (!status && bytes)
        status = stage_buffer(s, bytes);
    if (status) {
        stage_free(s);
        return status;
    }
    *out = s;
    return CLV_OK;
}

void core_device_hold_staging(clv_device *dev, uint64_t bytes)
{
    pthread_mutex_lock(&dev->stage_mutex);
    if (!dev->stage_users++)
        dev->stage_bytes = bytes;
    pthread_mutex_unlock(&dev->stage_mutex);
}

bool core_device_holds_staging(clv_device *dev)
{
    pthread_mutex_lock(&dev->stage_mutex);
    const bool holds = dev->stage_users != 0;
    pthread_mutex_unlock(&dev->stage_mutex);
    return holds;
}

void core_device_release_staging(clv_device *dev)
{
    core_stage *last = NULL;
    pthread_mutex_lock(&dev->stage_mutex);
    if (!--dev->stage_users) {
        last = dev->stage;
        dev->stage = NULL;
    }
    pthread_mutex_unlock(&dev->stage_mutex);
    stage_free(last);
    core_device_release_relayout(dev);
}

/* The device's shared one, with stage_mutex locked, or a new one. */
static clv_status stage_take(clv_device *dev, direction dir, uint64_t bytes,
                             core_stage **out)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&dev->stage_mutex);
    const bool shared = dev->stage_users && dir != ZEROS;
    if (shared && !dev->stage)
        status = stage_make(dev, dev->stage_bytes, &dev->stage);
    if (shared && !status) {
        dev->stage->shared = true;
        *out = dev->stage;
        return CLV_OK;
    }
    pthread_mutex_unlock(&dev->stage_mutex);
    return shared ? status : stage_make(dev, dir == ZEROS ? 0 : bytes, out);
}

/* One that failed is not used again. */
static void stage_give(core_stage *s, bool failed)
{
    clv_device *dev = s->dev;
    bool shared = s->shared;
    if (shared && failed)
        dev->stage = NULL;
    if (!shared || failed)
        stage_free(s);
    if (shared)
        pthread_mutex_unlock(&dev->stage_mutex);
}

/* ------------------------------------------------------------------------ */
/* Work                                                                      */

static clv_status submit(core_stage *s, const core_command *commands,
                         uint32_t n)
{
    const core_point signal = {s->timeline, ++s->value};
    const core_submit submit = {.commands = commands,
                                .n_commands = n,
                                .signals = &signal,
                                .n_signals = 1};
    clv_status status;
    /* Another user may have filled the queue. */
    while ((status = core_device_submit(s->dev, &submit)) == CLV_ERR_LIMIT) {
        status = core_device_settle(s->dev, core_context_wait_ns(s->dev->ctx));
        if (status)
            break;
    }
    s->until[s->next] = status ? 0 : s->value;
    return status;
}

/* Until the half is free. */
static clv_status await(core_stage *s, uint32_t half)
{
    uint64_t value = s->until[half];
    s->until[half] = 0;
    return value ? core_timeline_wait(s->timeline, value, 0,
                                      core_context_wait_ns(s->dev->ctx))
                 : CLV_OK;
}

/* p: what one submit moves. */
static void fill_or_empty(const exchange *x, const core_runs *p, bool to_host)
{
    char *staged = x->stage->mapped + x->stage->next * x->stage->half;
    for (uint64_t i = 0; i < p->n; i++, staged += p->bytes) {
        char *host = x->host + p->offset + i * p->pitch;
        memcpy(to_host ? host : staged, to_host ? staged : host, p->bytes);
    }
}

static uint32_t put_commands(const exchange *x, const core_runs *p,
                             core_command *out)
{
    const core_stage *s = x->stage;
    uint64_t from = s->next * s->half;
    if (x->dir == PACKED) {
        out[0] = (core_command){.kind = CLV_COMMAND_COPY,
                                .src = s->buffer,
                                .src_offset = from,
                                .dst = x->buf,
                                .dst_offset = x->packed,
                                .size = p->bytes * p->n};
        return 1;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const uint64_t at = x->base + p->offset + i * p->pitch;
        const uint64_t staged = x->dir == ZEROS ? 0 : from + i * p->bytes;
        const bool out_of = x->dir == TO_HOST;
        out[i] = (core_command){.kind = x->dir == ZEROS ? CLV_COMMAND_FILL
                                                        : CLV_COMMAND_COPY,
                                .src = out_of ? x->buf : s->buffer,
                                .src_offset = out_of ? at : staged,
                                .dst = out_of ? s->buffer : x->buf,
                                .dst_offset = out_of ? staged : at,
                                .size = p->bytes};
    }
    return (uint32_t)p->n;
}

static clv_status move(exchange *x, const core_runs *p)
{
    core_command commands[MAX_COMMANDS];
    core_stage *s = x->stage;
    uint64_t at = s->next * s->half, size = p->bytes * p->n;
    bool in = x->dir == TO_DEVICE || x->dir == PACKED;
    CLV_TRY(await(s, s->next));
    if (in) {
        fill_or_empty(x, p, false);
        CLV_TRY(core_buffer_flush(s->buffer, at, size));
    }
    CLV_TRY(submit(s, commands, put_commands(x, p, commands)));
    x->packed += size;
    if (in) {
        s->next ^= 1;
        return CLV_OK;
    }
    CLV_TRY(await(s, s->next));
    if (x->dir == TO_HOST) {
        CLV_TRY(core_buffer_invalidate(s->buffer, at, size));
        fill_or_empty(x, p, true);
    }
    return CLV_OK;
}

/* As many runs a submit as fit, or a part of one that is too long. */
static clv_status move_all(exchange *x, const core_runs *at)
{
    const uint64_t room = x->dir == ZEROS ? ZEROS_SIZE : x->stage->half;
    uint64_t fit = room / at->bytes;
    if (x->dir != PACKED && fit > MAX_COMMANDS)
        fit = MAX_COMMANDS;
    for (uint64_t run = 0, done = 0; run < at->n;) {
        const uint64_t rest = at->bytes - done, left = at->n - run;
        const core_runs p = {at->offset + run * at->pitch + done,
                             rest < room ? rest : room, at->pitch,
                             !fit         ? 1
                             : left < fit ? left
                                          : fit};
        CLV_TRY(move(x, &p));
        done += p.bytes;
        run += done == at->bytes ? p.n : 0;
        done %= at->bytes;
    }
    return CLV_OK;
}

/* The device does not use the buffers afterwards, also after a failure, unless
 * it had to be abandoned. */
static clv_status transfer(core_buffer *buf, uint64_t base, const core_runs *at,
                           void *host, direction dir)
{
    exchange x = {.buf = buf, .dir = dir, .base = base, .host = host};
    core_runs runs = *at;
    if (!runs.n || !runs.bytes)
        return CLV_OK;
    if (runs.n > 1 && runs.pitch == runs.bytes) {
        runs.bytes *= runs.n;
        runs.n = 1;
    }
    CLV_TRY(stage_take(buf->dev, dir, runs.bytes * runs.n, &x.stage));
    clv_status status = move_all(&x, &runs);
    for (uint32_t half = 0; half < 2 && !status; half++)
        status = await(x.stage, half);
    if (status)
        core_device_settle(buf->dev, core_context_wait_ns(buf->dev->ctx));
    stage_give(x.stage, status != CLV_OK);
    return status;
}

clv_status core_buffer_write(core_buffer *buf, uint64_t base,
                             const core_runs *at, const void *host)
{
    return transfer(buf, base, at, (void *)(uintptr_t)host, TO_DEVICE);
}

clv_status core_buffer_pack(core_buffer *buf, const core_runs *at,
                            const void *host)
{
    return transfer(buf, 0, at, (void *)(uintptr_t)host, PACKED);
}

/* To memory that the host sees. */
static clv_status fill_visible(core_buffer *buf, const core_runs *at,
                               const char *host)
{
    void *to;
    CLV_TRY(core_buffer_map(buf, CLV_ACCESS_WRITE, &to));
    for (uint64_t i = 0; i < at->n; i++)
        memcpy((char *)to + i * at->bytes, host + at->offset + i * at->pitch,
               at->bytes);
    const clv_status status = core_buffer_flush(buf, 0, buf->size);
    core_buffer_unmap(buf);
    return status;
}

clv_status core_device_copy(clv_device *dev, uint64_t align,
                            const core_runs *at, const void *host, bool visible,
                            core_buffer **out)
{
    const uint64_t size = at->bytes * at->n;
    core_buffer *buf;
    uint32_t type, local;
    clv_status status;
    CLV_TRY(core_device_copy_type(dev, size, align, &type));
    if (visible)
        core_device_staging_type(dev, &type);
    if (!visible && core_device_has_local(dev, &local)) {
        CLV_TRY(core_device_alloc_local(dev, size, "a weight", &buf));
        status = core_buffer_pack(buf, at, host);
    } else {
        CLV_TRY(core_buffer_alloc(dev, type, size, &buf));
        status = fill_visible(buf, at, host);
    }
    if (status)
        core_buffer_free(buf);
    else
        *out = buf;
    return status;
}

clv_status core_buffer_read(core_buffer *buf, uint64_t base,
                            const core_runs *at, void *host)
{
    return transfer(buf, base, at, host, TO_HOST);
}

/* By copies: fill commands write whole words only. */
static clv_status write_zeros(core_buffer *buf, uint64_t base, uint64_t size)
{
    static const char zeros[4096];
    for (uint64_t done = 0, n; done < size; done += n) {
        n = size - done < sizeof zeros ? size - done : sizeof zeros;
        const core_runs part = {0, n, n, 1};
        CLV_TRY(core_buffer_write(buf, base + done, &part, zeros));
    }
    return CLV_OK;
}

clv_status core_buffer_zero(core_buffer *buf, uint64_t base,
                            const core_runs *at)
{
    uint64_t pitch = at->n > 1 ? at->pitch : 0;
    if (!((base | at->offset | at->bytes | pitch) % 4))
        return transfer(buf, base, at, NULL, ZEROS);
    for (uint64_t i = 0; i < at->n; i++)
        CLV_TRY(write_zeros(buf, base + at->offset + i * at->pitch, at->bytes));
    return CLV_OK;
}
