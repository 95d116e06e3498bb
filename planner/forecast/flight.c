#include "flight.h"
#include "player.h"
#include "../../core/base/error.h"
#include "../../core/base/grow.h"
#include "../../core/config/config.h"
#include "../../core/plan/accesses.h"
#include "../../core/plan/choice.h"

#include <math.h>
#include <stdlib.h>

/* Until a host polls no longer for what it has not been told the time of; as
 * core/exec/await.c. */
#define SPIN_NS 50000

/* A step of a run begins after these steps of each older one. */
typedef struct need {
    uint32_t step, device;
    uint64_t value;
    bool queued; /* it is enough that they are in the same queue */
} need;

/* What keeps a run from going on. */
typedef struct block {
    uint32_t run; /* NO_RUN: nothing does */
    uint32_t device;
    uint64_t value;
} block;
#define NO_RUN 0xffffffffu

typedef struct flying {
    uint32_t n_submitted; /* steps */
    bool waits;           /* the device for another one, once it has the step */
    block block;
    core_turn turn;
} flying;

typedef struct flight {
    planner_play play;
    const clv_plan *plan;
    need *needs; /* by step */
    uint32_t n_needs, needs_capacity;
    flying *runs; /* [n_runs] */
    uint32_t n_flight;
    uint32_t first, end; /* those that are under way */
    uint64_t *given;     /* [n_runs * n_queues] steps submitted */
    double *left_ns;     /* [n_queues] of runs that are under way */
    bool by_age;
    double host;
} flight;

/* ------------------------------------------------------------------------ */
/* Order of runs                                                             */

static bool meet(const core_bounds *a, const core_bounds *b, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (a->begin[i] >= b->end[i] || b->begin[i] >= a->end[i])
            return false;
    return true;
}

/* Whether the older run's access has to come before the younger one's. */
static bool in_order(const flight *f, const core_access *younger,
                     const core_access *older)
{
    const uint32_t rank = f->plan->graph->tensors[younger->state].rank;
    const bool own = older->ids != CLV_NO_TENSOR;
    if (younger->state != older->state || !(younger->write || older->write))
        return false;
    if (younger->write && (own || younger->ids != CLV_NO_TENSOR))
        return false;
    return meet(&younger->box, &older->box, rank);
}

/* Steps of a queue are done in order, so the last one counts. last: [n_steps *
 * n_queues] its value; 0: none. */
static clv_status find_last(const flight *f, uint64_t *last)
{
    core_access *list;
    uint32_t n;
    CLV_TRY(core_plan_accesses(f->plan, &list, &n));
    for (uint32_t i = 0, first = 0; i < n; i++) {
        uint64_t *of = last + (size_t)list[i].step * f->plan->n_queues;
        if (list[i].state != list[first].state)
            first = i;
        for (uint32_t j = first; j < n && list[j].state == list[i].state; j++) {
            const core_step *on = &f->plan->steps[list[j].step];
            if (on->signal > of[on->device] && in_order(f, &list[i], &list[j]))
                of[on->device] = on->signal;
        }
    }
    free(list);
    return CLV_OK;
}

static clv_status add_need(flight *f, uint32_t step, uint32_t on,
                           uint64_t value)
{
    const uint32_t device = f->plan->steps[step].device;
    if (!core_grow(&f->needs, &f->needs_capacity, f->n_needs + 1ull,
                   sizeof *f->needs))
        return core_no_memory("for a forecast");
    f->needs[f->n_needs++] =
        (need){.step = step,
               .device = on,
               .value = value,
               .queued = on == device && !f->plan->devices[device].staged};
    return CLV_OK;
}

/* By step. One run at a time needs nothing. */
static clv_status find_needs(flight *f)
{
    const uint32_t n = f->plan->n_queues;
    if (f->n_flight == 1)
        return CLV_OK;
    uint64_t *last = calloc((size_t)f->plan->n_steps * n + 1, sizeof *last);
    clv_status status =
        last ? find_last(f, last) : core_no_memory("for a forecast");
    for (uint32_t s = 0; s < f->plan->n_steps && !status; s++)
        for (uint32_t d = 0; d < n && !status; d++)
            if (last[(size_t)s * n + d])
                status = add_need(f, s, d, last[(size_t)s * n + d]);
    free(last);
    return status;
}

/* Whether a run begins only once older ones have ended, since they leave a
 * state in another memory than it is read in: core/exec/life.c. */
static bool is_serial(const clv_plan *plan)
{
    for (uint32_t u = 0; u < plan->n_state_uses; u++)
        for (uint32_t e = 0; e < plan->n_state_ends; e++) {
            const core_state_use *use = &plan->state_uses[u];
            const core_state_end *end = &plan->state_ends[e];
            if (use->state == end->state && use->memory != end->writer &&
                meet(&use->box, &end->box,
                     plan->graph->tensors[use->state].rank))
                return true;
        }
    return false;
}

/* ------------------------------------------------------------------------ */
/* What keeps a run from going on                                            */

static uint64_t reached(const flight *f, uint32_t run, uint32_t device)
{
    return planner_play_reached(&f->play, run, device);
}

static uint32_t held(const planner_lane *lane)
{
    return lane->submitted - lane->done;
}

/* The last run alone fills its queues, as somebody waits for it. */
static bool is_short(const flight *f)
{
    return f->end - f->first > 1 ||
           (f->n_flight > 1 && f->end < f->play.n_runs);
}

static block wait_of(flight *f, uint32_t run)
{
    flying *r = &f->runs[run];
    const core_step *step = &f->plan->steps[r->n_submitted];
    r->waits = false;
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &f->plan->waits[step->first_wait + i];
        if ((!wait->by_host && !is_short(f)) ||
            reached(f, run, wait->device) >= wait->value)
            continue;
        if (wait->by_host || held(&f->play.lanes[step->device]))
            return (block){run, wait->device, wait->value};
        r->waits = true;
    }
    return (block){.run = NO_RUN};
}

static block need_of(const flight *f, uint32_t run)
{
    const uint32_t step = f->runs[run].n_submitted;
    for (uint32_t i = 0; i < f->n_needs && f->needs[i].step <= step; i++) {
        const need *n = &f->needs[i];
        for (uint32_t on = f->first; on < run && n->step == step; on++) {
            const uint64_t has =
                n->queued ? f->given[on * f->plan->n_queues + n->device]
                          : reached(f, on, n->device);
            if (has < n->value)
                return (block){on, n->device, n->value};
        }
    }
    return (block){.run = NO_RUN};
}

static block room_of(const flight *f, uint32_t run)
{
    const uint32_t device = f->plan->steps[f->runs[run].n_submitted].device;
    const planner_lane *lane = &f->play.lanes[device];
    const uint32_t depth = lane->dev->info.queue_depth;
    uint32_t room = is_short(f) ? CORE_LINE_DEPTH : UINT32_MAX;
    room = depth && depth < room ? depth : room;
    if (held(lane) < room)
        return (block){.run = NO_RUN};
    const uint32_t item = f->play.items[lane->first + lane->done];
    const uint32_t on = item / f->plan->n_steps;
    return (block){on, device, reached(f, on, device) + 1};
}

static block end_of(const flight *f, uint32_t run)
{
    for (uint32_t d = 0; d < f->plan->n_queues; d++)
        if (reached(f, run, d) < f->plan->devices[d].n_steps)
            return (block){run, d, f->plan->devices[d].n_steps};
    return (block){.run = NO_RUN};
}

static bool is_submitted(const flight *f, uint32_t run)
{
    return f->runs[run].n_submitted == f->plan->n_steps;
}

static block block_of(flight *f, uint32_t run)
{
    if (is_submitted(f, run))
        return end_of(f, run);
    block b = wait_of(f, run);
    if (b.run == NO_RUN)
        b = need_of(f, run);
    return b.run == NO_RUN ? room_of(f, run) : b;
}

/* ------------------------------------------------------------------------ */
/* The choice                                                                */

/* As the executor knows it. */
static double step_ns(const flight *f, uint32_t s)
{
    const core_forecast *known = f->plan->forecast;
    return known ? known->steps[s].end_ns - known->steps[s].begin_ns : 0;
}

static uint32_t device_of(const flight *f, uint32_t run)
{
    return f->plan->steps[f->runs[run].n_submitted].device;
}

static const planner_lane *lane_of(const flight *f, uint32_t s)
{
    return &f->play.lanes[f->plan->steps[s].device];
}

static const planner_lane *critical_lane(const flight *f)
{
    uint32_t most = 0;
    for (uint32_t d = 1; d < f->plan->n_queues; d++)
        if (f->left_ns[d] > f->left_ns[most])
            most = d;
    return &f->play.lanes[most];
}

/* Whether that run's next step is what the block waits for. */
static bool is_for_next(const flight *f, const block *b)
{
    return !is_submitted(f, b->run) && device_of(f, b->run) == b->device &&
           f->given[b->run * f->plan->n_queues + b->device] < b->value &&
           b->value <= f->plan->steps[f->runs[b->run].n_submitted].signal;
}

static void take_turn(flight *f, uint32_t run)
{
    flying *r = &f->runs[run];
    const block *b = &r->block;
    const uint32_t s = r->n_submitted;
    const bool waits = b->run != NO_RUN && b->run != run;
    r->turn = (core_turn){
        .run = r,
        .ready = b->run == NO_RUN,
        .queue = lane_of(f, s),
        .ns = step_ns(f, s),
        .on = waits && is_for_next(f, b) ? &f->runs[b->run].turn : NULL,
        .candidate = {.waits = r->waits, .age = run}};
    if (s + 1 < f->plan->n_steps) {
        r->turn.then_queue = lane_of(f, s + 1);
        r->turn.then_ns = step_ns(f, s + 1);
    }
}

/* NULL: none can go on. Sets the block of each. */
static flying *choose(flight *f)
{
    core_turn *first = NULL, **last = &first;
    for (uint32_t r = f->first; r < f->end; r++) {
        f->runs[r].block = block_of(f, r);
        if (is_submitted(f, r))
            continue;
        take_turn(f, r);
        *last = &f->runs[r].turn;
        last = &f->runs[r].turn.next;
    }
    core_turn *best = core_turn_choose(first, critical_lane(f), f->by_age);
    return best ? best->run : NULL;
}

/* ------------------------------------------------------------------------ */
/* The host                                                                  */

static void begin_run(flight *f)
{
    for (uint32_t s = 0; s < f->plan->n_steps; s++)
        f->left_ns[f->plan->steps[s].device] += step_ns(f, s);
    f->end++;
}

static void submit(flight *f, uint32_t run)
{
    const uint32_t s = f->runs[run].n_submitted++;
    const uint32_t device = f->plan->steps[s].device;
    f->left_ns[device] -= step_ns(f, s);
    f->given[run * f->plan->n_queues + device]++;
    planner_play_submit(&f->play, run * f->plan->n_steps + s, &f->host);
}

static bool is_over(const flight *f, const block *b)
{
    return reached(f, b->run, b->device) >= b->value;
}

static bool any_over(const flight *f)
{
    for (uint32_t r = f->first; r < f->end; r++)
        if (f->runs[r].block.run != NO_RUN && is_over(f, &f->runs[r].block))
            return true;
    return false;
}

/* Until one of the runs can go on. */
static clv_status await(flight *f)
{
    const block *oldest = &f->runs[f->first].block;
    const double before = f->host;
    while (!any_over(f))
        if (!planner_play_event(&f->play))
            return clv_error(CLV_ERR_INTERNAL,
                             "forecast: runs wait for each other");
    f->host = fmax(f->host, f->play.now);
    if (!is_over(f, oldest))
        return CLV_OK; /* seen while the oldest is polled for */
    const planner_lane *lane = &f->play.lanes[oldest->device];
    const bool polled =
        f->end - f->first > 1 || lane->polled || f->host - before <= SPIN_NS;
    f->host +=
        polled ? lane->overheads->wait_poll : lane->overheads->wait_block;
    return CLV_OK;
}

static clv_status fly(flight *f)
{
    while (f->first < f->play.n_runs) {
        planner_play_until(&f->play, f->host);
        const flying *run = choose(f);
        if (f->first < f->end && is_submitted(f, f->first) &&
            f->runs[f->first].block.run == NO_RUN)
            f->first++;
        else if (run)
            submit(f, (uint32_t)(run - f->runs));
        else if (f->end < f->play.n_runs && f->end < f->first + f->n_flight)
            begin_run(f);
        else
            CLV_TRY(await(f));
    }
    return CLV_OK;
}

clv_status planner_forecast_flight(const clv_plan *plan,
                                   const planner_costs *costs,
                                   const int64_t *symbols, uint32_t n_runs,
                                   uint32_t n_flight, double *makespan_ns)
{
    flight f = {.play = {.plan = plan, .costs = costs, .n_runs = n_runs},
                .plan = plan,
                .n_flight = is_serial(plan) ? 1 : n_flight};
    f.by_age = core_config_choice(plan->ctx->config, "core.dispatch") ==
               CORE_DISPATCH_AGE;
    f.runs = calloc(n_runs + 1u, sizeof *f.runs);
    f.given = calloc((size_t)n_runs * plan->n_queues + 1, sizeof *f.given);
    f.left_ns = calloc(plan->n_queues + 1u, sizeof *f.left_ns);
    clv_status status = f.runs && f.given && f.left_ns
                            ? planner_play_begin(&f.play, symbols)
                            : core_no_memory("for a forecast");
    if (!status)
        status = find_needs(&f);
    if (!status)
        status = fly(&f);
    *makespan_ns = f.host;
    planner_play_finish(&f.play);
    free(f.needs);
    free(f.runs);
    free(f.given);
    free(f.left_ns);
    return status;
}
