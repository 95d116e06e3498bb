#include "run.h"
#include "host.h"
#include "machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PIECE ((uint64_t)1 << 20) /* bytes a thread copies at a time */

static bool grow_region(cpu_runner *r, int region, uint64_t size)
{
    if (size <= r->sizes[region])
        return true;
    cpu_free(r->host, r->regions[region]);
    r->sizes[region] = 0;
    r->regions[region] = r->host->alloc(r->host->host, size, 64);
    if (!r->regions[region])
        return false;
    r->sizes[region] = size;
    return true;
}

static clv_status run_program(cpu_runner *r, const cpu_job *job, uint32_t index,
                              char *message, size_t size)
{
    const cpu_command *command = &job->commands[index];
    const clv_plugin_program *prog = command->program;
    cpu_run run = {.kernels = r->kernels,
                   .pool = r->pool,
                   .tensors = prog->tensors,
                   .data = command->data,
                   .symbols = command->symbols};
    uint64_t sizes[CPU_REGION_COUNT];
    cpu_program_regions(prog, &run, sizes);
    for (int i = 0; i < CPU_REGION_COUNT; i++) {
        if (!grow_region(r, i, sizes[i])) {
            snprintf(message, size,
                     "cpu: no memory for scratch of %" PRIu64
                     " bytes; use shorter batches",
                     sizes[i]);
            return CLV_ERR_NO_MEMORY;
        }
        run.regions[i] = r->regions[i];
    }
    for (uint32_t i = 0; i < prog->n_steps; i++) {
        const cpu_step *step = &prog->steps[i];
        uint64_t begin = job->correlation ? cpu_now() : 0;
        step->op->run(&run, step);
        if (job->correlation)
            cpu_trace_add(r->trace, job->correlation, index, step->node,
                          step->op->name, begin, cpu_now());
    }
    return CLV_OK;
}

static void copy_piece(void *ctx, uint32_t chunk, uint32_t worker)
{
    const cpu_command *c = ctx;
    uint64_t begin = chunk * PIECE, left = c->size - begin;
    (void)worker;
    memcpy(c->dst + begin, c->src + begin, left < PIECE ? left : PIECE);
}

static void fill_piece(void *ctx, uint32_t chunk, uint32_t worker)
{
    const cpu_command *c = ctx;
    uint64_t begin = chunk * PIECE, left = c->size - begin;
    char *dst = c->dst + begin;
    (void)worker;
    for (left = left < PIECE ? left : PIECE; left >= sizeof c->pattern;
         left -= sizeof c->pattern, dst += sizeof c->pattern)
        memcpy(dst, &c->pattern, sizeof c->pattern);
    memcpy(dst, &c->pattern, left);
}

static void run_transfer(cpu_runner *r, cpu_command *c)
{
    bool copy = c->kind == CLV_COMMAND_COPY;
    uint64_t pieces = c->size / PIECE + (c->size % PIECE != 0);
    uintptr_t src = (uintptr_t)c->src, dst = (uintptr_t)c->dst;
    bool overlap = copy && (src > dst ? src - dst : dst - src) < c->size;
    if (overlap)
        memmove(c->dst, c->src, c->size);
    else
        cpu_pool_run(r->pool, (uint32_t)pieces, copy ? copy_piece : fill_piece,
                     c);
}

clv_status cpu_run_job(cpu_runner *runner, const cpu_job *job, char *message,
                       size_t size)
{
    static const char *const names[] = {[CLV_COMMAND_RUN] = "run",
                                        [CLV_COMMAND_COPY] = "copy",
                                        [CLV_COMMAND_FILL] = "fill"};
    clv_status status = CLV_OK;
    for (uint32_t i = 0; !status && i < job->n_commands; i++) {
        cpu_command *command = &job->commands[i];
        uint64_t begin = job->correlation ? cpu_now() : 0;
        if (command->kind == CLV_COMMAND_RUN)
            status = run_program(runner, job, i, message, size);
        else
            run_transfer(runner, command);
        if (job->correlation)
            cpu_trace_add(runner->trace, job->correlation, i, CLV_NO_TENSOR,
                          names[command->kind], begin, cpu_now());
    }
    return status;
}

void cpu_runner_finish(cpu_runner *runner)
{
    for (int i = 0; i < CPU_REGION_COUNT; i++)
        cpu_free(runner->host, runner->regions[i]);
}
