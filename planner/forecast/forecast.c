#include "../../core/base/error.h"
#include "../../core/config/config.h"
#include "../../core/plan/choice.h"
#include "player.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* What the parts cost alone                                                 */

/* By the profile's copy of a few bytes, and of each byte more, that way. */
static clv_status cost_of_copy(const planner_play *play, uint32_t part,
                               const int64_t *symbols, planner_part_load *out)
{
    const clv_plan *plan = play->plan;
    const clv_node *node = &plan->graph->nodes[plan->parts[part].node];
    const planner_overheads *o =
        play->lanes[plan->parts[part].device].overheads;
    core_runs runs;
    clv_status status =
        core_plan_copy_runs(plan, node->inputs[0], symbols, &runs);
    double bytes = status ? 0 : (double)(runs.bytes * runs.n);
    bool streams = plan->graph->tensors[node->inputs[0]].usage ==
                   CLV_USAGE_WEIGHT; /* which lie without gaps */
    double n = streams ? 1 : (double)runs.n;
    *out = (planner_part_load){.copies = true};
    /* It is there, but for the first run after another plan's. */
    if (status || core_plan_is_kept(plan, node->outputs[0]))
        return status;
    const bool leaves =
        o->copy_byte_out > 0 && core_part_copies_out(plan, part);
    out->ns = (leaves ? o->copy_out : o->copy) + o->copy_row * fmax(n - 1, 0) +
              (leaves ? o->copy_byte_out : o->copy_byte) * bytes;
    out->bytes_ns = out->ns > 0 ? bytes / out->ns : 0;
    return CLV_OK;
}

static clv_status cost_of(const planner_play *play, uint32_t part,
                          const int64_t *symbols, planner_part_load *out)
{
    const clv_plan *plan = play->plan;
    const planner_costs *costs = play->costs;
    clv_device *dev = plan->devices[plan->parts[part].device].dev;
    planner_workload workload;
    planner_cost cost;
    if (core_part_copies(plan, part))
        return cost_of_copy(play, part, symbols, out);
    planner_workload_on(dev, plan->graph, plan->parts[part].node, NULL, symbols,
                        &workload);
    if (!costs->cost(costs->ctx, dev, &workload, &cost)) {
        char text[PLANNER_WORKLOAD_TEXT];
        return clv_error(CLV_ERR_NOT_FOUND,
                         "forecast: what '%s' takes for %s "
                         "is not known; measure it with cleave profile",
                         dev->id, planner_workload_text(&workload, text));
    }
    double alone = costs->bandwidth(costs->ctx, &dev, 1);
    const uint64_t file = core_plan_file_bytes(plan, part, symbols);
    double rate = cost.ns > 0 ? planner_workload_bytes(&workload) / cost.ns : 0;
    *out = (planner_part_load){
        .ns = fmax(0, cost.ns),
        .energy_nj = cost.energy_nj,
        .measured = cost.measured,
        .bytes_ns = plan->devices[plan->parts[part].device].local ? 0
                    : alone > 0 ? fmin(rate, alone)
                                : rate,
        .file_ns = plan->file.speed > 0 ? (double)file / plan->file.speed : 0,
    };
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* The host's side                                                           */

static clv_status wait_for(planner_play *play, uint32_t device, uint64_t value,
                           double *host)
{
    planner_play_until(play, *host);
    if (play->lanes[device].done >= value)
        return CLV_OK;
    if (!planner_play_reach(play, 0, device, value))
        return clv_error(CLV_ERR_INTERNAL, "forecast: the plan waits for a "
                                           "step that is never submitted");
    const planner_overheads *o = play->lanes[device].overheads;
    *host = fmax(*host, play->now) +
            (play->lanes[device].polled ? o->wait_poll : o->wait_block);
    return CLV_OK;
}

static clv_status wait_for_others(planner_play *play, uint32_t s, double *host)
{
    const core_step *step = &play->plan->steps[s];
    const double before = *host;
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &play->plan->waits[step->first_wait + i];
        clv_status status =
            wait->by_host ? wait_for(play, wait->device, wait->value, host)
                          : CLV_OK;
        if (status)
            return status;
    }
    play->forecast->host_waits[s] = (core_span){before, *host};
    return CLV_OK;
}

/* Whether the host polls for what it waits for, as core/exec/sync.c. */
static void find_polled(planner_play *play)
{
    const clv_plan *plan = play->plan;
    const bool fast =
        core_config_choice(plan->ctx->config, "core.sync") == CORE_SYNC_FAST;
    const bool spare_core = core_plan_spare_core(plan);
    for (uint32_t d = 0; d < plan->n_queues; d++)
        play->lanes[d].polled =
            fast && (spare_core ||
                     plan->devices[d].dev->info.clock == CLV_CLOCK_VIRTUAL);
}

/* A full queue is waited for until it has room. */
static clv_status submit_step(planner_play *play, uint32_t s, double *host)
{
    planner_lane *lane = &play->lanes[play->plan->steps[s].device];
    uint32_t depth = lane->dev->info.queue_depth;
    clv_status status = wait_for_others(play, s, host);
    planner_play_until(play, *host);
    if (!status && depth && lane->submitted - lane->done >= depth)
        status =
            wait_for(play, play->plan->steps[s].device,
                     core_queue_room_at(lane->done, lane->submitted), host);
    if (status)
        return status;
    planner_play_submit(play, s, host);
    return CLV_OK;
}

/* Whether everything that the step needs is submitted, and the host need not
 * wait for it. */
static bool can_submit(const planner_play *play, uint32_t s)
{
    const core_step *step = &play->plan->steps[s];
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &play->plan->waits[step->first_wait + i];
        const planner_lane *lane = &play->lanes[wait->device];
        if (wait->value > (wait->by_host ? lane->done : lane->submitted))
            return false;
    }
    return true;
}

/* The step that can be submitted first; of several, the plan's first. Each
 * device's steps stay in their order. */
static clv_status choose_step(planner_play *play, double *host, uint32_t *out)
{
    const clv_plan *plan = play->plan;
    for (;;) {
        *out = CORE_NO_STEP;
        planner_play_until(play, *host);
        for (uint32_t d = 0; d < plan->n_queues; d++) {
            const planner_lane *lane = &play->lanes[d];
            if (lane->submitted == plan->devices[d].n_steps)
                continue;
            uint32_t s = play->items[lane->first + lane->submitted];
            if (s < *out && can_submit(play, s))
                *out = s;
        }
        if (*out != CORE_NO_STEP)
            return CLV_OK;
        if (!planner_play_event(play))
            return clv_error(CLV_ERR_INTERNAL, "forecast: steps wait for each "
                                               "other");
        *host = fmax(*host, play->now);
    }
}

/* order: NULL for the plan's; else it is chosen, and filled in. */
static clv_status play_through(planner_play *play, uint32_t *order)
{
    const clv_plan *plan = play->plan;
    double host = 0, submitted;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < plan->n_steps && !status; i++) {
        uint32_t s = i;
        if (order)
            status = choose_step(play, &host, &s);
        if (order && !status)
            order[i] = s;
        if (!status)
            status = submit_step(play, s, &host);
    }
    submitted = host;
    for (uint32_t d = 0; d < plan->n_queues && !status; d++)
        status = wait_for(play, d, plan->devices[d].n_steps, &host);
    play->forecast->last_wait = (core_span){submitted, host};
    play->forecast->makespan_ns = host;
    return status;
}

/* ------------------------------------------------------------------------ */

/* Work that is slowed down takes the same power for longer. */
static void add_energy(planner_play *play)
{
    core_forecast *f = play->forecast;
    double sum = 0;
    for (uint32_t i = 0; i < play->plan->n_parts; i++) {
        const planner_part_load *load = &play->loads[i];
        if (load->ns > 0 && !(load->energy_nj > 0))
            return;
        if (load->ns > 0)
            sum += load->energy_nj *
                   (f->parts[i].end_ns - f->parts[i].begin_ns) / load->ns;
    }
    f->energy_nj = sum;
}

static void add_certainty(planner_play *play)
{
    double all = 0, measured = 0;
    for (uint32_t i = 0; i < play->plan->n_parts; i++) {
        all += play->loads[i].ns;
        measured += play->loads[i].measured ? play->loads[i].ns : 0;
    }
    play->forecast->certain = all > 0 ? measured / all : 1;
}

static clv_status allocate(const clv_plan *plan, size_t n_runs,
                           core_forecast **out)
{
    core_forecast *f = calloc(1, sizeof *f);
    const size_t n_parts = n_runs * plan->n_parts + 1;
    const size_t n_steps = n_runs * plan->n_steps + 1;
    *out = f;
    if (!f)
        return core_no_memory("for a forecast");
    f->parts = calloc(n_parts, sizeof *f->parts);
    f->costs_ns = calloc(n_parts, sizeof *f->costs_ns);
    f->steps = calloc(n_steps, sizeof *f->steps);
    f->submits = calloc(n_steps, sizeof *f->submits);
    f->host_waits = calloc(n_steps, sizeof *f->host_waits);
    f->busy_ns = calloc(plan->n_queues + 1u, sizeof *f->busy_ns);
    return f->parts && f->costs_ns && f->steps && f->submits && f->host_waits &&
                   f->busy_ns
               ? CLV_OK
               : core_no_memory("for a forecast");
}

clv_status planner_play_begin(planner_play *play, const int64_t *symbols)
{
    const clv_plan *plan = play->plan;
    const uint32_t n = plan->n_parts, n_symbols = plan->source->n_symbols;
    planner_part_load *loads =
        calloc((size_t)play->n_runs * n + 1, sizeof *loads);
    play->loads = loads;
    CLV_TRY(allocate(plan, play->n_runs, &play->forecast));
    if (!loads)
        return core_no_memory("for a forecast");
    CLV_TRY(planner_play_begin_lanes(play));
    for (uint32_t r = 0; r < play->n_runs; r++)
        for (uint32_t i = 0; i < n; i++) {
            CLV_TRY(cost_of(play, i,
                            symbols ? symbols + (size_t)r * n_symbols : NULL,
                            &loads[r * n + i]));
            play->forecast->costs_ns[r * n + i] = loads[r * n + i].ns;
        }
    find_polled(play);
    return CLV_OK;
}

static clv_status make(const clv_plan *plan, const planner_costs *costs,
                       const int64_t *symbols, uint32_t *order,
                       core_forecast **out)
{
    planner_play play = {.plan = plan, .costs = costs, .n_runs = 1};
    clv_status status = planner_play_begin(&play, symbols);
    if (!status)
        status = play_through(&play, order);
    if (!status)
        add_energy(&play);
    if (!status)
        add_certainty(&play);
    *out = status ? NULL : play.forecast;
    play.forecast = status ? play.forecast : NULL;
    planner_play_finish(&play);
    return status;
}

clv_status planner_forecast_make(const clv_plan *plan,
                                 const planner_costs *costs,
                                 const int64_t *symbols, core_forecast **out)
{
    return make(plan, costs, symbols, NULL, out);
}

/* ------------------------------------------------------------------------ */
/* The order of submission                                                   */

static bool bytes_of(const void *ctx, const clv_device *dev,
                     const planner_workload *workload, planner_cost *out)
{
    (void)ctx, (void)dev;
    *out = (planner_cost){.ns = planner_workload_bytes(workload)};
    return true;
}

static const planner_overheads *copies_only(const void *ctx,
                                            const clv_device *dev)
{
    static const planner_overheads a_byte = {.copy_byte = 1};
    (void)ctx, (void)dev;
    return &a_byte;
}

static double no_limit(const void *ctx, clv_device *const *devs, uint32_t n)
{
    (void)ctx, (void)devs, (void)n;
    return 0;
}

static double no_slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                          uint32_t index)
{
    (void)ctx, (void)devs, (void)n, (void)index;
    return 1;
}

clv_status planner_forecast_order(const clv_plan *plan,
                                  const planner_costs *costs, uint32_t *order)
{
    static const planner_costs by_bytes = {NULL, bytes_of, copies_only,
                                           no_limit, no_slowdown};
    core_forecast *forecast;
    clv_status status = make(plan, costs, NULL, order, &forecast);
    if (status == CLV_ERR_NOT_FOUND)
        status = make(plan, &by_bytes, NULL, order, &forecast);
    core_forecast_free(forecast);
    return status;
}
