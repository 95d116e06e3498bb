#include "device_memory.h"

#include <string.h>

#define HOSTS (CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED)
/* Bytes and stretches of one exchange. */
#define STAGING_SIZE (16u << 20)
#define MAX_COMMANDS 64u
/* Drivers take long for large fills. */
#define ZEROS_SIZE (64u << 20)

bool core_device_has_local(const clv_device *dev, uint32_t *type)
{
    bool found = false;
    for (uint32_t i = 0; i < dev->n_mem_types; i++) {
        uint32_t flags = dev->mem_types[i].flags;
        if (!(flags & CLV_MEM_DEVICE_LOCAL))
            continue;
        if ((flags & HOSTS) == HOSTS)
            return false;
        /* What the host cannot see is not slowed down by being seen. */
        if (!found || (!(flags & CLV_MEM_HOST_VISIBLE) &&
                       (dev->mem_types[*type].flags & CLV_MEM_HOST_VISIBLE)))
            *type = i;
        found = true;
    }
    return found;
}

bool core_device_staging_type(const clv_device *dev, uint32_t *type)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < dev->n_mem_types; i++) {
        uint32_t flags = dev->mem_types[i].flags;
        uint32_t rank = 1 + 4 * !(flags & CLV_MEM_DEVICE_LOCAL) +
                        2 * !!(flags & CLV_MEM_CACHED) +
                        !!(flags & CLV_MEM_COHERENT);
        if (!(flags & CLV_MEM_HOST_VISIBLE) || rank <= best)
            continue;
        best = rank;
        *type = i;
    }
    return best;
}

bool core_device_reaches_host(const clv_device *dev, uint64_t size)
{
    uint32_t type;
    return core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, &type) &&
           (dev->mem_types[type].flags & CLV_MEM_COHERENT) &&
           size <= dev->mem_types[type].max_size;
}

clv_status core_device_can_exchange(const clv_device *dev)
{
    uint32_t type;
    if (core_device_staging_type(dev, &type))
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED, "device '%s' has memory of its own "
                     "and none that the host sees, so nothing can be copied "
                     "there; leave it out of the plan's devices", dev->id);
}

clv_status core_device_alloc_local(clv_device *dev, uint64_t size,
                                   const char *what, core_buffer **out)
{
    uint32_t type = 0;
    core_device_has_local(dev, &type);
    clv_status status = core_buffer_alloc(dev, type, size, out);
    if (status == CLV_ERR_NO_MEMORY || status == CLV_ERR_LIMIT)
        clv_error_prefix(status, "device '%s': %llu bytes of its own memory "
                         "for %s; use a smaller model, context or batch, or "
                         "leave work to other devices", dev->id,
                         (unsigned long long)size, what);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Exchange                                                                  */

typedef enum direction { TO_DEVICE, TO_HOST, ZEROS } direction;

typedef struct exchange {
    core_buffer *buf, *staging; /* staging: NULL for ZEROS */
    core_timeline *timeline;
    uint64_t value, room;
    char *mapped;
    direction way;
    uint64_t base;
    char *host;
} exchange;

static clv_status begin(exchange *x, uint64_t bytes)
{
    clv_device *dev = x->buf->dev;
    uint32_t type = 0;
    clv_status status = core_timeline_create(dev, 0, &x->timeline);
    if (status || x->way == ZEROS) {
        x->room = ZEROS_SIZE;
        return status;
    }
    status = core_device_can_exchange(dev);
    if (status)
        return status;
    core_device_staging_type(dev, &type);
    x->room = bytes < STAGING_SIZE ? bytes : STAGING_SIZE;
    if (x->room > dev->mem_types[type].max_size)
        x->room = dev->mem_types[type].max_size;
    status = core_buffer_alloc(dev, type, x->room, &x->staging);
    void *mapped = NULL;
    if (!status)
        status = core_buffer_map(x->staging, CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                                 &mapped);
    x->mapped = mapped;
    return status;
}

static void finish(exchange *x)
{
    if (x->mapped)
        core_buffer_unmap(x->staging);
    core_buffer_free(x->staging);
    core_timeline_destroy(x->timeline);
}

static uint64_t limit_ns(const clv_device *dev)
{
    double s = clv_config_get_float(dev->ctx->config, "core.wait_timeout");
    return s > 0 ? (uint64_t)(s * 1e9) : UINT64_MAX;
}

/* Submits and waits. Whatever happens, nothing touches the buffers afterwards,
 * unless the device had to be abandoned. */
static clv_status run(exchange *x, const core_command *commands, uint32_t n)
{
    clv_device *dev = x->buf->dev;
    const core_point signal = {x->timeline, ++x->value};
    const core_submit submit = {.commands = commands, .n_commands = n,
                                .signals = &signal, .n_signals = 1};
    clv_status status;
    /* Others may fill the queue: they are waited for. */
    while ((status = core_device_submit(dev, &submit)) == CLV_ERR_LIMIT) {
        status = core_device_settle(dev, limit_ns(dev));
        if (status)
            return status;
    }
    if (status)
        return status;
    status = core_timeline_wait(x->timeline, x->value, 0, limit_ns(dev));
    if (status)
        core_device_settle(dev, limit_ns(dev));
    return status;
}

/* What one submit moves: n stretches. */
typedef struct piece {
    uint64_t offset, bytes, pitch;
    uint32_t n;
} piece;

static void pack(const exchange *x, const piece *p, bool to_host)
{
    for (uint32_t i = 0; i < p->n; i++) {
        char *host = x->host + p->offset + i * p->pitch;
        char *staged = x->mapped + i * p->bytes;
        memcpy(to_host ? host : staged, to_host ? staged : host, p->bytes);
    }
}

static clv_status move(exchange *x, const piece *p)
{
    core_command commands[MAX_COMMANDS];
    for (uint32_t i = 0; i < p->n; i++) {
        uint64_t at = x->base + p->offset + i * p->pitch;
        core_command *c = &commands[i];
        if (x->way == ZEROS)
            *c = (core_command){.kind = CLV_COMMAND_FILL, .dst = x->buf,
                                .dst_offset = at, .size = p->bytes};
        else if (x->way == TO_DEVICE)
            *c = (core_command){.kind = CLV_COMMAND_COPY, .src = x->staging,
                                .src_offset = i * p->bytes, .dst = x->buf,
                                .dst_offset = at, .size = p->bytes};
        else
            *c = (core_command){.kind = CLV_COMMAND_COPY, .src = x->buf,
                                .src_offset = at, .dst = x->staging,
                                .dst_offset = i * p->bytes, .size = p->bytes};
    }
    uint64_t size = p->bytes * p->n;
    clv_status status = CLV_OK;
    if (x->way == TO_DEVICE) {
        pack(x, p, false);
        status = core_buffer_flush(x->staging, 0, size);
    }
    if (!status)
        status = run(x, commands, p->n);
    if (!status && x->way == TO_HOST) {
        status = core_buffer_invalidate(x->staging, 0, size);
        if (!status)
            pack(x, p, true);
    }
    return status;
}

static clv_status move_all(exchange *x, const core_runs *at)
{
    clv_status status = CLV_OK;
    for (uint64_t run = 0; run < at->n && !status;) {
        piece p = {at->offset + run * at->pitch, at->bytes, at->pitch, 1};
        uint64_t fit = x->room / at->bytes;
        uint64_t left = at->n - run;
        if (fit) {
            fit = fit < MAX_COMMANDS ? fit : MAX_COMMANDS;
            p.n = (uint32_t)(left < fit ? left : fit);
            status = move(x, &p);
            run += p.n;
            continue;
        }
        for (uint64_t done = 0; done < at->bytes && !status;) {
            uint64_t rest = at->bytes - done;
            p.offset = at->offset + run * at->pitch + done;
            p.bytes = rest < x->room ? rest : x->room;
            status = move(x, &p);
            done += p.bytes;
        }
        run++;
    }
    return status;
}

static clv_status transfer(core_buffer *buf, uint64_t base,
                           const core_runs *at, void *host, direction way)
{
    exchange x = {.buf = buf, .way = way, .base = base, .host = host};
    core_runs runs = *at;
    if (!runs.n || !runs.bytes)
        return CLV_OK;
    if (runs.n > 1 && runs.pitch == runs.bytes) {
        runs.bytes *= runs.n;
        runs.n = 1;
    }
    clv_status status = begin(&x, runs.bytes * runs.n);
    if (!status)
        status = move_all(&x, &runs);
    finish(&x);
    return status;
}

clv_status core_buffer_write(core_buffer *buf, uint64_t base,
                             const core_runs *at, const void *host)
{
    return transfer(buf, base, at, (void *)(uintptr_t)host, TO_DEVICE);
}

clv_status core_buffer_read(core_buffer *buf, uint64_t base,
                            const core_runs *at, void *host)
{
    return transfer(buf, base, at, host, TO_HOST);
}

clv_status core_buffer_zero(core_buffer *buf, uint64_t base,
                            const core_runs *at)
{
    core_runs runs = *at;
    /* Fills are whole words. */
    if ((base | runs.offset | runs.bytes | (runs.n > 1 ? runs.pitch : 0)) % 4) {
        static const char zeros[4096];
        for (uint64_t i = 0; i < runs.n; i++)
            for (uint64_t done = 0; done < runs.bytes;) {
                uint64_t n = runs.bytes - done;
                n = n < sizeof zeros ? n : sizeof zeros;
                const core_runs part = {0, n, n, 1};
                clv_status status = core_buffer_write(
                    buf, base + runs.offset + i * runs.pitch + done, &part,
                    zeros);
                if (status)
                    return status;
                done += n;
            }
        return CLV_OK;
    }
    return transfer(buf, base, at, NULL, ZEROS);
}
