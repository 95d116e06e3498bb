#include "player.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>

/* Steps by device, each device's in their order. */
static void sort_steps(planner_play *play)
{
    const clv_plan *plan = play->plan;
    uint32_t at = 0;
    for (uint32_t d = 0; d < plan->n_queues; d++) {
        play->lanes[d].first = at;
        at += play->n_runs * plan->devices[d].n_steps;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++)
        play->items[play->lanes[plan->steps[s].device].first +
                    plan->steps[s].signal - 1] = s;
}

clv_status planner_play_begin_lanes(planner_play *play)
{
    const clv_plan *plan = play->plan;
    uint32_t n = plan->n_queues;
    play->lanes = calloc(n, sizeof *play->lanes);
    play->items =
        calloc((size_t)play->n_runs * plan->n_steps + 1, sizeof *play->items);
    play->reached = calloc((size_t)play->n_runs * n + 1, sizeof *play->reached);
    play->active = calloc(n, sizeof *play->active);
    play->rates = calloc(n, sizeof *play->rates);
    if (!play->lanes || !play->items || !play->reached || !play->active ||
        !play->rates)
        return core_no_memory("for a forecast");
    for (uint32_t d = 0; d < n; d++) {
        play->lanes[d].dev = plan->devices[d].dev;
        play->lanes[d].overheads =
            play->costs->overheads(play->costs->ctx, plan->devices[d].dev);
        if (!play->lanes[d].overheads && plan->devices[d].n_steps)
            return clv_error(CLV_ERR_NOT_FOUND,
                             "forecast: what submits and "
                             "waits of device '%s' cost is not known; measure "
                             "it with cleave profile",
                             plan->devices[d].dev->id);
    }
    if (plan->file.speed > 0)
        play->file_ahead = (double)plan->file.ahead / plan->file.speed;
    play->file_read = -play->file_ahead;
    sort_steps(play);
    return CLV_OK;
}

void planner_play_finish(planner_play *play)
{
    core_forecast_free(play->forecast);
    free(play->loads);
    free(play->lanes);
    free(play->items);
    free(play->reached);
    free(play->active);
    free(play->rates);
}

/* ------------------------------------------------------------------------ */
/* Speeds of devices that work at the same time                              */

static const planner_part_load *load_of(const planner_play *play,
                                        const planner_lane *lane)
{
    return lane->running && lane->part != CORE_NO_PART
               ? &play->loads[lane->part]
               : NULL;
}

/* What each of those gets that want more than a fair share: the others' demands
 * are met first, smallest first. INFINITY: all demands are met. */
static double fair_share(const double *rates, uint32_t n, double bandwidth)
{
    double left = bandwidth, level = 0;
    for (uint32_t wanting = n; wanting;) {
        double share = left / wanting, next = INFINITY;
        for (uint32_t i = 0; i < n; i++)
            if (rates[i] > level && rates[i] < next)
                next = rates[i];
        if (next > share)
            return share;
        for (uint32_t i = 0; i < n; i++)
            if (rates[i] == next) {
                left -= next;
                wanting--;
            }
        level = next;
    }
    return INFINITY;
}

static bool is_active(const planner_play *play, uint32_t n, clv_device *dev)
{
    uint32_t i = 0;
    while (i < n && play->active[i] != dev)
        i++;
    return i < n;
}

static void share_memory(planner_play *play)
{
    const planner_costs *costs = play->costs;
    uint32_t n_rates = 0, n = 0;
    for (uint32_t d = 0; d < play->plan->n_queues; d++) {
        const planner_part_load *load = load_of(play, &play->lanes[d]);
        if (!load || !(load->bytes_ns > 0))
            continue;
        play->rates[n_rates++] = load->bytes_ns;
        if (!is_active(play, n, play->lanes[d].dev)) /* by another queue */
            play->active[n++] = play->lanes[d].dev;
    }
    double bandwidth =
        n < 2 ? 0 : costs->bandwidth(costs->ctx, play->active, n);
    if (!(bandwidth > 0))
        return;
    double share = fair_share(play->rates, n_rates, bandwidth);
    for (uint32_t d = 0; d < play->plan->n_queues; d++) {
        const planner_part_load *load = load_of(play, &play->lanes[d]);
        if (load && load->bytes_ns > share)
            play->lanes[d].speed = share / load->bytes_ns;
    }
}

static const planner_part_load *computes(const planner_play *play, uint32_t d)
{
    const planner_part_load *load = load_of(play, &play->lanes[d]);
    return load && !load->copies ? load : NULL;
}

/* Cores that share units, power: whatever they compute. */
static void share_the_rest(planner_play *play)
{
    const planner_costs *costs = play->costs;
    uint32_t n = 0, index = 0;
    for (uint32_t d = 0; d < play->plan->n_queues; d++)
        if (computes(play, d))
            play->active[n++] = play->lanes[d].dev;
    for (uint32_t d = 0; d < play->plan->n_queues && n > 1; d++) {
        if (!computes(play, d))
            continue;
        double factor = costs->slowdown(costs->ctx, play->active, n, index++);
        if (factor > 1)
            play->lanes[d].speed = fmin(play->lanes[d].speed, 1 / factor);
    }
}

static void set_speeds(planner_play *play)
{
    for (uint32_t d = 0; d < play->plan->n_queues; d++)
        play->lanes[d].speed = 1;
    share_memory(play);
    share_the_rest(play);
}

/* ------------------------------------------------------------------------ */
/* Events                                                                    */

static uint32_t current_item(const planner_play *play, const planner_lane *lane)
{
    return play->items[lane->first + lane->done];
}

static bool waits_over(const planner_play *play, uint32_t item)
{
    const uint32_t run = item / play->plan->n_steps;
    const core_step *step = &play->plan->steps[item % play->plan->n_steps];
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &play->plan->waits[step->first_wait + i];
        if (!wait->by_host &&
            planner_play_reached(play, run, wait->device) < wait->value)
            return false;
    }
    return true;
}

/* When something happens on the lane; INFINITY: nothing by itself. */
static double next_on(const planner_play *play, const planner_lane *lane)
{
    if (lane->running)
        return play->now + lane->left / lane->speed;
    if (lane->done == lane->submitted)
        return INFINITY;
    const uint32_t item = current_item(play, lane);
    if (!waits_over(play, item))
        return INFINITY;
    return fmax(play->now, play->forecast->submits[item].end_ns);
}

static planner_lane *next_lane(const planner_play *play, double *at)
{
    planner_lane *next = NULL;
    *at = INFINITY;
    for (uint32_t d = 0; d < play->plan->n_queues; d++) {
        double ns = next_on(play, &play->lanes[d]);
        if (ns < *at) {
            *at = ns;
            next = &play->lanes[d];
        }
    }
    return next;
}

static void move_on(planner_play *play, double at)
{
    for (uint32_t d = 0; d < play->plan->n_queues; d++) {
        planner_lane *lane = &play->lanes[d];
        if (lane->running)
            lane->left = fmax(0, lane->left - (at - play->now) * lane->speed);
    }
    play->now = at;
}

static void begin_part(planner_play *play, planner_lane *lane, uint32_t part)
{
    const planner_part_load *load = &play->loads[part];
    lane->part = part;
    lane->left = load->ns;
    if (load->file_ns > 0) {
        play->file_read =
            fmax(play->file_read, play->now - play->file_ahead) + load->file_ns;
        lane->left = fmax(lane->left, play->file_read - play->now);
    }
    play->forecast->parts[part].begin_ns = play->now;
}

static void begin_step(planner_play *play, planner_lane *lane)
{
    lane->running = true;
    lane->part = CORE_NO_PART;
    lane->left = lane->overheads->dispatch;
    play->forecast->steps[current_item(play, lane)].begin_ns = play->now;
}

/* What ran on the lane has ended. */
static void end_part(planner_play *play, planner_lane *lane)
{
    const clv_plan *plan = play->plan;
    const uint32_t item = current_item(play, lane);
    const uint32_t run = item / plan->n_steps;
    const core_step *step = &plan->steps[item % plan->n_steps];
    const uint32_t first = run * plan->n_parts + step->first_part;
    uint32_t next = first;
    if (lane->part != CORE_NO_PART) {
        play->forecast->parts[lane->part].end_ns = play->now;
        next = lane->part + 1;
    }
    if (next < first + step->n_parts) {
        begin_part(play, lane, next);
        return;
    }
    core_span *span = &play->forecast->steps[item];
    span->end_ns = play->now;
    play->forecast->busy_ns[step->device] += span->end_ns - span->begin_ns;
    lane->running = false;
    lane->done++;
    play->reached[run * plan->n_queues + step->device]++;
}

static void happen(planner_play *play, planner_lane *lane, double at)
{
    move_on(play, at);
    if (lane->running)
        end_part(play, lane);
    else
        begin_step(play, lane);
    set_speeds(play);
}

void planner_play_until(planner_play *play, double ns)
{
    double at;
    for (planner_lane *lane; (lane = next_lane(play, &at)) && at <= ns;)
        happen(play, lane, at);
    if (ns > play->now)
        move_on(play, ns);
}

void planner_play_submit(planner_play *play, uint32_t item, double *host)
{
    const clv_plan *plan = play->plan;
    planner_lane *lane = &play->lanes[plan->steps[item % plan->n_steps].device];
    core_span *submit = &play->forecast->submits[item];
    submit->begin_ns = *host;
    *host += lane->submitted > lane->done ? lane->overheads->submit
                                          : lane->overheads->submit_idle;
    submit->end_ns = *host;
    play->items[lane->first + lane->submitted++] = item;
}

bool planner_play_event(planner_play *play)
{
    double at;
    planner_lane *lane = next_lane(play, &at);
    if (lane)
        happen(play, lane, at);
    return lane != NULL;
}

bool planner_play_reach(planner_play *play, uint32_t run, uint32_t device,
                        uint64_t value)
{
    while (planner_play_reached(play, run, device) < value)
        if (!planner_play_event(play))
            return false;
    return true;
}
