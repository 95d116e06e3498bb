#include "run.h"
#include "device.h"
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PIECE ((uint64_t)1 << 20) /* bytes a thread copies at a time */

static clv_status check_command(void *ctx, const clv_command *c)
{
    clv_plugin_device *dev = ctx;
    return c->kind == CLV_COMMAND_RUN ? clv_program_check(c)
                                      : clv_buffer_check(dev->base.host, c);
}

/* The block's content is lost. */
static void *grow(clv_plugin_device *dev, int block, uint64_t size,
                  char *message)
{
    const clv_host_api *host = dev->base.host;
    cpu_scratch *s = &dev->scratch;
    if (size <= s->sizes[block])
        return s->blocks[block];
    clv_free(host, s->blocks[block]);
    s->blocks[block] = host->alloc(host->host, size, 64);
    s->sizes[block] = s->blocks[block] ? size : 0;
    if (!s->blocks[block])
        snprintf(message, CLV_MESSAGE_SIZE,
                 "cpu: no memory for scratch of %" PRIu64
                 " bytes; use shorter batches",
                 size);
    return s->blocks[block];
}

/* Of work that ends now. */
static void record(clv_plugin_device *dev, const clv_submit *submit,
                   uint32_t command, uint32_t node, const char *name,
                   uint64_t begin)
{
    clv_queue *queue = dev->base.queue;
    const uint64_t end = clv_queue_now();
    pthread_mutex_lock(&queue->lock);
    clv_trace_add(queue, submit, command, node, name, begin, end);
    pthread_mutex_unlock(&queue->lock);
}

static clv_status run_program(clv_plugin_device *dev, const clv_submit *submit,
                              uint32_t index, char *message)
{
    const clv_command *c = &submit->commands[index];
    const clv_plugin_program *prog = c->program;
    clv_program_resolve(c, prog->data);
    cpu_run run = {.kernels = dev->kernels,
                   .pool = dev->pool,
                   .tensors = prog->base.tensors,
                   .data = (void *const *)(void *)prog->data,
                   .symbols = c->symbols};
    uint64_t sizes[CPU_REGION_COUNT];
    cpu_program_regions(prog, &run, sizes);
    for (int i = 0; i < CPU_REGION_COUNT; i++) {
        run.regions[i] = grow(dev, i, sizes[i], message);
        if (!run.regions[i] && sizes[i])
            return CLV_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < prog->n_steps; i++) {
        const cpu_step *step = &prog->steps[i];
        uint64_t begin = submit->correlation ? clv_queue_now() : 0;
        step->op->run(&run, step);
        if (submit->correlation)
            record(dev, submit, index, step->node, step->name, begin);
    }
    return CLV_OK;
}

typedef struct transfer {
    char *dst;
    const char *src; /* NULL: a fill */
    uint64_t size;
    uint32_t pattern;
} transfer;

static void move_piece(void *ctx, uint32_t chunk, uint32_t worker)
{
    const transfer *t = ctx;
    uint64_t begin = chunk * PIECE, left = t->size - begin;
    uint64_t size = left < PIECE ? left : PIECE;
    char *dst = t->dst + begin;
    (void)worker;
    if (t->src) {
        memcpy(dst, t->src + begin, size);
        return;
    }
    for (; size >= sizeof t->pattern;
         size -= sizeof t->pattern, dst += sizeof t->pattern)
        memcpy(dst, &t->pattern, sizeof t->pattern);
    memcpy(dst, &t->pattern, size);
}

static void run_transfer(clv_plugin_device *dev, const clv_command *c)
{
    if (clv_copy_rows(c) > 1) {
        clv_buffer_move(c);
        return;
    }
    transfer t = {.dst = c->dst->data + c->dst_offset,
                  .size = c->size,
                  .pattern = c->pattern};
    if (c->kind == CLV_COMMAND_COPY)
        t.src = c->src->data + c->src_offset;
    uint64_t pieces = t.size / PIECE + (t.size % PIECE != 0);
    uintptr_t src = (uintptr_t)t.src, dst = (uintptr_t)t.dst;
    if (t.src && (src > dst ? src - dst : dst - src) < t.size)
        memmove(t.dst, t.src, t.size);
    else
        cpu_pool_run(dev->pool, (uint32_t)pieces, move_piece, &t);
}

static clv_status run_command(void *ctx, const clv_submit *submit,
                              uint32_t index, char message[CLV_MESSAGE_SIZE])
{
    clv_plugin_device *dev = ctx;
    const clv_command *c = &submit->commands[index];
    clv_status status = CLV_OK;
    uint64_t begin = submit->correlation ? clv_queue_now() : 0;
    if (c->kind == CLV_COMMAND_RUN)
        status = run_program(dev, submit, index, message);
    else
        run_transfer(dev, c);
    if (submit->correlation)
        record(dev, submit, index, CLV_NO_TENSOR, clv_command_name(c->kind),
               begin);
    return status;
}

const clv_queue_fns cpu_queue_fns = {check_command, run_command};

void cpu_scratch_free(const clv_host_api *host, cpu_scratch *scratch)
{
    for (int i = 0; i < CPU_REGION_COUNT; i++)
        clv_free(host, scratch->blocks[i]);
}
