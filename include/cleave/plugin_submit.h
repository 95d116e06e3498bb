/*
 * cleave/plugin_submit.h - submits, checked and copied, for backend plugins
 *
 * What plugin_queue.h does first with a submit, for plugins that have queues of
 * another kind. Not part of the ABI: functions that a plugin compiles into
 * itself, or does without.
 */
#ifndef CLEAVE_PLUGIN_SUBMIT_H_
#define CLEAVE_PLUGIN_SUBMIT_H_

#include <cleave/plugin_util.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a submit, read by clv_read(), is for a queue that there is, and has
 * what it counts, and commands that are known there. n_copying: of the device's
 * queues beside queue 0. Programs, buffers and bindings are not looked at. */
static inline clv_status clv_check_submit(const clv_host_api *host,
                                          const clv_submit *submit,
                                          uint32_t n_copying)
{
    int known = clv_chain_known(submit), runs = 0;
    int whole = (!submit->n_commands || submit->commands) &&
                (!submit->n_waits || submit->waits) &&
                (!submit->n_signals || submit->signals);
    for (uint32_t i = 0; whole && known && i < submit->n_commands; i++) {
        const clv_command *c = (const clv_command *)clv_at(
            submit->commands, i, submit->command_stride);
        known = clv_chain_known(c) && c->kind >= CLV_COMMAND_RUN &&
                c->kind <= CLV_COMMAND_FILL;
        runs |= c->kind == CLV_COMMAND_RUN;
        whole = c->kind != CLV_COMMAND_RUN ||
                (c->program && (!c->n_bindings || c->bindings) &&
                 (!c->n_symbols || c->symbols));
    }
    for (uint32_t i = 0; whole && i < submit->n_waits; i++)
        whole = submit->waits[i].timeline || submit->waits[i].flag;
    for (uint32_t i = 0; whole && i < submit->n_signals; i++)
        whole = submit->signals[i].timeline &&
                !(submit->signals[i].value & CLV_FLAG_FAILED);
    if (!known)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "the submit needs a command or an extension that is "
                        "not known here; use a newer plugin");
    if (!whole)
        return clv_fail(host, CLV_ERR_INVALID,
                        "the submit has a run without a program, a wait or "
                        "signal without a timeline, or for 2^63 and more, or "
                        "an array that is NULL");
    if (submit->queue > n_copying || (submit->queue && runs))
        return clv_fail(host, CLV_ERR_INVALID,
                        "a submit to queue %u; there are %u beside queue 0, "
                        "for copies and fills alone",
                        (unsigned)submit->queue, (unsigned)n_copying);
    return CLV_OK;
}

/* "run", "copy" or "fill", of a command that was checked. */
static inline const char *clv_command_name(uint32_t kind)
{
    return kind == CLV_COMMAND_RUN    ? "run"
           : kind == CLV_COMMAND_COPY ? "copy"
                                      : "fill";
}

/* A submit and copies of its arrays, in one block. */
typedef struct clv_queue_job {
    struct clv_queue_job *next;
    clv_submit submit;
} clv_queue_job;

/* The next piece of a block; with base NULL the pieces are only counted. */
static inline void *clv_queue_piece(char *base, uint64_t *used, uint64_t size)
{
    void *piece = base ? base + *used : NULL;
    *used += (size + 7) & ~(uint64_t)7;
    return piece;
}

static inline void *clv_queue_copy(char *base, uint64_t *used, const void *from,
                                   uint64_t size)
{
    void *to = clv_queue_piece(base, used, size);
    return to && size ? memcpy(to, from, (size_t)size) : to;
}

/* Lays the job out in base, or counts its bytes. */
static inline uint64_t clv_queue_copy_submit(char *base, const clv_submit *from)
{
    uint64_t used = 0;
    clv_queue_job *job =
        (clv_queue_job *)clv_queue_piece(base, &used, sizeof *job);
    clv_command *commands = (clv_command *)clv_queue_piece(
        base, &used, from->n_commands * sizeof *commands);
    const void *waits = clv_queue_copy(base, &used, from->waits,
                                       from->n_waits * sizeof *from->waits);
    const void *signals = clv_queue_copy(
        base, &used, from->signals, from->n_signals * sizeof *from->signals);
    for (uint32_t i = 0; i < from->n_commands; i++) {
        clv_command c;
        clv_read(&c, sizeof c, clv_at(from->commands, i, from->command_stride));
        uint32_t n_bindings = c.kind == CLV_COMMAND_RUN ? c.n_bindings : 0;
        uint32_t n_symbols = c.kind == CLV_COMMAND_RUN ? c.n_symbols : 0;
        c.bindings = (const clv_binding *)clv_queue_copy(
            base, &used, c.bindings, n_bindings * sizeof *c.bindings);
        c.symbols = (const int64_t *)clv_queue_copy(
            base, &used, c.symbols, n_symbols * sizeof *c.symbols);
        if (job)
            commands[i] = c;
    }
    if (job) {
        clv_read(&job->submit, sizeof job->submit, from);
        job->submit.commands = commands;
        job->submit.command_stride = sizeof *commands;
        job->submit.waits = (const clv_timeline_point *)waits;
        job->submit.signals = (const clv_timeline_point *)signals;
    }
    return used;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_SUBMIT_H_ */
