/*
 * What submits, the begin of programs and waits take. Blocks of work
 * that are long against all of these keep the device busy where it has to be.
 */
#include "common_workloads.h"
#include "measure_copies.h"
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Submits and waits                                                         */

#define BLOCK_NS 2e6 /* of work that a host can wait for */
#define PROGRAMS 16u /* submitted one behind the other */
#define REPETITIONS 15u
#define SPIN_NS ((uint64_t)1 << 62)

/* Trials on one device: a block, a short program, the same node often. */
typedef struct rig {
    planner_meter *meter;
    clv_device *dev;
    double block_ns; /* of the block's only node */
    core_trial *block, *once, *often;
    double values[REPETITIONS];
    uint32_t n;   /* how many are wanted: one where all are equal */
    bool noisy;   /* a simulated device whose times are random */
    bool records; /* the device tells when its work ran */
} rig;

static clv_status make_trial(rig *r, const planner_workload *workload,
                             uint32_t nodes, uint32_t part, core_trial **out)
{
    const planner_trial_params params = {
        .workload = workload, .nodes = nodes, .part = part, .parts = 2};
    return planner_trial_create(r->meter, r->dev, &params, out);
}

/* It shares the pool with the short programs: half of what fits alone may. */
static clv_status make_block(rig *r, planner_workload *block)
{
    clv_status status = make_trial(r, block, 1, 0, &r->block);
    if (status != CLV_ERR_LIMIT || block->out < 2)
        return status;
    block->out /= 2;
    r->block_ns /= 2;
    return make_trial(r, block, 1, 0, &r->block);
}

static clv_status rig_make(rig *r)
{
    planner_workload block, small;
    double ns;
    clv_status status = planner_common_workloads(
        r->meter, r->dev, false, BLOCK_NS, NULL, &block, &r->block_ns);
    if (!status)
        status = planner_common_workloads(r->meter, r->dev, false, 0, NULL,
                                          &small, NULL);
    if (!status)
        status = make_block(r, &block);
    if (!status)
        status = make_trial(r, &small, 1, 1, &r->once);
    if (!status)
        status = make_trial(r, &small, PROGRAMS, 1, &r->often);
    if (!status)
        status = planner_trial_time(r->block, 0, &ns, NULL);
    if (!status)
        status = planner_trial_time(r->once, 0, &ns, NULL);
    return status ? status : planner_trial_time(r->often, 0, &ns, NULL);
}

static void rig_finish(rig *r)
{
    planner_trial_destroy(r->often);
    planner_trial_destroy(r->once);
    planner_trial_destroy(r->block);
}

/* Host time of a submit, the device being busy with the block or not. */
static clv_status time_submit(rig *r, bool busy, double *out)
{
    for (uint32_t i = 0; i < r->n; i++) {
        double begin = 0, end = 0;
        clv_status status = busy ? planner_trial_submit(r->block, 0) : CLV_OK;
        if (!status)
            status = planner_trial_now(r->dev, &begin);
        if (!status)
            status = planner_trial_submit(r->once, 0);
        if (!status)
            status = planner_trial_now(r->dev, &end);
        if (!status)
            status = planner_trial_wait(r->once, 0);
        if (status)
            return status;
        r->values[i] = end - begin;
    }
    *out = planner_typical(r->noisy, r->values, r->n);
    return CLV_OK;
}

/* From the submit of the block to the end of the last of `programs` behind
 * it. */
static clv_status time_queue(const rig *r, core_trial *trial, uint32_t programs,
                             double *ns)
{
    double begin = 0, end = 0;
    clv_status status = planner_trial_now(r->dev, &begin);
    if (!status)
        status = planner_trial_submit(r->block, 0);
    for (uint32_t i = 0; i < programs && !status; i++)
        status = planner_trial_submit(trial, 0);
    if (!status)
        status = planner_trial_wait(trial, 0);
    if (!status)
        status = planner_trial_now(r->dev, &end);
    *ns = end - begin;
    return status;
}

/* Programs that the queue takes behind the block. */
static uint32_t queued_programs(const rig *r)
{
    uint32_t depth = r->dev->info.queue_depth;
    return depth && depth <= PROGRAMS ? depth - 1 : PROGRAMS;
}

/* Between the end of a program and the first node of the next one, which was
 * there by then. */
static clv_status recorded_dispatch(rig *r, uint32_t programs, double *out)
{
    double gaps[REPETITIONS * PROGRAMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        planner_trial_span spans[PROGRAMS + 1] = {{.correlation = 1}};
        clv_status status = planner_trial_submit(r->block, 1);
        for (uint32_t p = 1; p <= programs && !status; p++) {
            spans[p].correlation = p + 1;
            status = planner_trial_submit(r->once, p + 1);
        }
        if (!status)
            status = planner_trial_wait(programs ? r->once : r->block, 0);
        if (!status)
            status = planner_trial_spans(r->dev, spans, programs + 1);
        if (status)
            return status;
        for (uint32_t p = 1; p <= programs; p++)
            gaps[n++] = spans[p].node - spans[p - 1].end;
        if (!programs) /* never one behind the other */
            gaps[n++] = spans->node - spans->begin;
    }
    *out = fmax(planner_typical(r->noisy, gaps, n), 0);
    return CLV_OK;
}

/* Without records: many programs of one node against one of as many. */
static clv_status compared_dispatch(rig *r, uint32_t programs, double *out)
{
    double apart[REPETITIONS], together[REPETITIONS], alone[REPETITIONS];
    *out = 0;
    if (programs <= 1)
        return CLV_OK;
    for (uint32_t i = 0; i < r->n; i++) {
        CLV_TRY(time_queue(r, r->once, programs, &apart[i]));
        CLV_TRY(time_queue(r, r->often, 1, &together[i]));
        CLV_TRY(time_queue(r, r->once, 1, &alone[i]));
    }
    /* together: PROGRAMS nodes; of them only `programs` count. */
    const double nodes = planner_above(r->noisy, together, alone, r->n);
    const double each = planner_above(r->noisy, apart, alone, r->n);
    *out = fmax(each / (programs - 1) - nodes / (PROGRAMS - 1), 0);
    return CLV_OK;
}

static clv_status time_dispatch(rig *r, double *out)
{
    uint32_t programs = queued_programs(r);
    return r->records ? recorded_dispatch(r, programs, out)
                      : compared_dispatch(r, programs, out);
}

/* How the device and the host come together at both ends of the block. */
typedef struct ends {
    double begin; /* from before the submit to the first node */
    double wait;  /* from the end of work to the host going on */
} ends;

static clv_status time_ends(rig *r, uint64_t spin_ns, ends *out)
{
    double begins[REPETITIONS];
    for (uint32_t i = 0; i < r->n; i++) {
        planner_trial_span span = {.correlation = i + 1};
        double begin = 0, end = 0;
        clv_status status = planner_trial_now(r->dev, &begin);
        if (!status)
            status = planner_trial_submit(r->block, span.correlation);
        if (!status)
            status = planner_trial_wait(r->block, spin_ns);
        if (!status)
            status = planner_trial_now(r->dev, &end);
        if (!status && r->records)
            status = planner_trial_spans(r->dev, &span, 1);
        if (status)
            return status;
        begins[i] = span.node ? span.node - begin : 0;
        r->values[i] = span.end ? end - span.end : end - begin - r->block_ns;
    }
    out->begin = planner_typical(r->noisy, begins, r->n);
    out->wait = fmax(planner_typical(r->noisy, r->values, r->n), 0);
    return CLV_OK;
}

/* A device that tells when work ran says what a submit to an idle one takes
 * until it is at work. Else the begin can only be what the host spends on it,
 * and the end all that remains. */
static clv_status time_waits(rig *r, planner_overheads *o)
{
    ends poll, block;
    clv_status status = time_ends(r, SPIN_NS, &poll);
    if (!status)
        status = time_ends(r, 0, &block);
    if (status)
        return status;
    o->wait_poll = poll.wait;
    o->wait_block = block.wait;
    if (poll.begin > 0) {
        o->submit_idle = fmax(o->submit_idle, poll.begin - o->dispatch);
    } else {
        o->wait_poll = fmax(o->wait_poll - o->submit_idle - o->dispatch, 0);
        o->wait_block = fmax(o->wait_block - o->submit_idle - o->dispatch, 0);
    }
    return CLV_OK;
}

clv_status planner_measure_overheads(planner_meter *meter, clv_device *dev,
                                     planner_overheads *out)
{
    rig r = {.meter = meter, .dev = dev, .n = REPETITIONS};
    planner_trial_span none = {0};
    *out = (planner_overheads){0};
    r.records = planner_trial_spans(dev, &none, 0) == CLV_OK;
    clv_status status = rig_make(&r);
    if (!status)
        status = planner_trial_is_noisy(r.block, &r.noisy);
    if (dev->info.clock == CLV_CLOCK_VIRTUAL && !r.noisy)
        r.n = 1;
    if (!status)
        status = time_submit(&r, false, &out->submit_idle);
    out->submit = out->submit_idle; /* a queue of one is never busy */
    if (!status && queued_programs(&r))
        status = time_submit(&r, true, &out->submit);
    if (!status)
        status = time_dispatch(&r, &out->dispatch);
    if (!status)
        status = time_waits(&r, out);
    if (!status)
        status = planner_measure_copies(dev, r.n, r.noisy, out);
    rig_finish(&r);
    return status ? clv_error_prefix(status, "overheads of '%s'", dev->id)
                  : CLV_OK;
}
