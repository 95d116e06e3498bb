#include "learn.h"

#include "../core/base/error.h"
#include "../core/base/hash.h"
#include "../core/config/config.h"
#include "../core/exec/exec.h"
#include "forecast/forecast.h"
#include "overheads.h"
#include "plan_cache.h"
#include "planner.h"
#include "prepare.h"
#include "profile/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Forecasts that are so near to a run are right. */
#define RIGHT 0.03

/* A forecast that was corrected by other runs, and is further from a run. */
#define WRONG 0.1

/* A forecast is checked after the first run with such symbols, and again
 * whenever there have been so many times as many. */
#define AGAIN 32

/* What is off by more than so many standard deviations is no chance: costs, and
 * what runs took, of which there is less to choose from. */
#define CHANCE 3
#define RUN_CHANCE 2

/* A run that takes so many times as long while devices record goes another way:
 * they may wait by the host then, and else for each other. */
#define ANOTHER_WAY 1.5

/* Costs that have changed by so much may make another plan better. */
#define CHANGED 0.05

/* Plans of one problem that are tried: at most, and until so many of them took
 * so much longer than the fastest. */
#define MOST_PLANS 6
#define MOST_WORSE 2
#define WORSE 1.03

/* ------------------------------------------------------------------------ */
/* Which plan it was                                                        */

uint64_t planner_problem_of(const clv_plan *plan)
{
    const uint64_t graph = core_graph_fingerprint(plan->source);
    uint64_t h = core_hash(CORE_HASH_SEED, &graph, sizeof graph);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const uint64_t dev = planner_profile_device_hash(plan->devices[d].dev);
        h = core_hash(h, &dev, sizeof dev);
    }
    for (uint32_t v = 0; v < plan->source->n_tensors; v++)
        h = core_tensor_mix_popularity(h, plan->source->values[v].weight);
    return h;
}

void planner_identify(clv_plan *plan)
{
    plan->problem = planner_problem_of(plan);
    plan->identity =
        core_hash(plan->problem, plan->pieces,
                  plan->pieces ? plan->n_pieces * sizeof *plan->pieces : 0);
    if (plan->file.read)
        plan->identity =
            core_hash(plan->identity, &plan->file.room, sizeof plan->file.room);
}

static planner_past describe(const clv_plan *plan, const int64_t *symbols)
{
    planner_past past = {.problem = plan->problem,
                         .plan = plan->identity,
                         .n_symbols = plan->source->n_symbols};
    for (uint32_t i = 0; i < past.n_symbols && i < PLANNER_PAST_SYMBOLS; i++)
        past.symbols[i] = symbols ? symbols[i] : plan->source->symbols[i].max;
    return past;
}

/* ------------------------------------------------------------------------ */
/* The forecast, corrected                                                  */

static bool forecast_ns(const clv_plan *plan, planner_profile *profile,
                        const int64_t *symbols, double *ns)
{
    const planner_costs costs = planner_costs_of(profile);
    core_forecast *forecast;
    if (planner_forecast_make(plan, &costs, symbols, &forecast))
        return false;
    *ns = forecast->makespan_ns;
    core_forecast_free(forecast);
    return *ns > 0;
}

/* Standard deviation of a run, as a part of it, at most: where times are
 * random, each step's is by itself. */
double planner_run_noise(const clv_plan *plan, const planner_profile *profile)
{
    double noise = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].n_steps)
            noise = fmax(noise,
                         planner_profile_noise(profile, plan->devices[d].dev) /
                             sqrt(plan->devices[d].n_steps));
    return noise;
}

/* Without what chance may have made of it. */
static double without_chance(double ratio, double chance)
{
    return ratio > 1 ? fmax(ratio - chance, 1) : fmin(ratio + chance, 1);
}

double planner_run_ratio(const clv_plan *plan, planner_profile *profile,
                         const int64_t *symbols)
{
    const planner_past run = describe(plan, symbols);
    planner_past past;
    double ns;
    if (run.n_symbols > PLANNER_PAST_SYMBOLS ||
        !planner_history_find(planner_profile_history(profile), plan->ctx,
                              run.plan, run.symbols, run.n_symbols, &past) ||
        !forecast_ns(plan, profile, past.symbols, &ns))
        return 0;
    const double runs = fmin(past.runs, PLANNER_PAST_TIMES);
    return without_chance(planner_past_median(&past) / ns,
                          RUN_CHANCE * plan->noise / sqrt(runs));
}

/* ------------------------------------------------------------------------ */
/* Costs                                                                    */

/* The samples of one device; equal workloads are one, with their mean. */
typedef struct observation {
    planner_sample *samples;
    uint32_t *counts;
    uint32_t n;
    double before_ns, after_ns, change_ns; /* by the costs so far, by the run,
                                              and the differences */
} observation;

static void add_part(observation *o, const planner_workload *workload,
                     double ns)
{
    uint32_t i = 0;
    while (i < o->n &&
           !planner_workload_equal(&o->samples[i].workload, workload))
        i++;
    if (i == o->n)
        o->samples[o->n++] = (planner_sample){.workload = *workload};
    o->samples[i].ns += ns;
    o->counts[i]++;
}

/* What the part would have taken alone: in the run, as in the forecast, others
 * may have slowed it down. */
static double alone(const core_forecast *f, uint32_t part, double ns)
{
    if (!f)
        return ns;
    const double span = f->parts[part].end_ns - f->parts[part].begin_ns;
    return span > f->costs_ns[part] && f->costs_ns[part] > 0
               ? ns * f->costs_ns[part] / span
               : ns;
}

/* Where times are random, what chance explains is not taken over. */
static void conclude(observation *o, planner_profile *profile, clv_device *dev)
{
    const double noise = CHANCE * planner_profile_noise(profile, dev);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        planner_sample *s = &o->samples[n];
        const uint32_t count = o->counts[i];
        planner_cost cost;
        *s = o->samples[i];
        o->counts[n++] = count;
        s->ns = fmax(s->ns / count, PLANNER_FREE_NS);
        if (!isfinite(s->ns)) {
            n--;
            continue;
        }
        if (!planner_profile_cost(profile, dev, &s->workload, &cost))
            continue;
        if (fabs(s->ns - cost.ns) < noise / sqrt(count) * cost.ns)
            s->ns = cost.ns;
        s->energy_nj = cost.ns > 0 ? cost.energy_nj * s->ns / cost.ns : 0;
        o->before_ns += count * cost.ns;
        o->after_ns += count * s->ns;
        o->change_ns += count * fabs(s->ns - cost.ns);
        if (noise > 0 && s->ns == cost.ns)
            n--;
    }
    o->n = n;
}

/* ns that the device worked in the latest run, by its records. */
static double worked_ns(const clv_exec *exec, uint32_t device)
{
    const clv_plan *plan = exec->plan;
    double sum = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++)
        if (plan->parts[p].device == device && !core_part_copies(plan, p))
            sum += exec->latest.part_ns[p];
    return sum;
}

/* Of the device that worked most. */
static double most_worked_ns(const clv_exec *exec)
{
    double most = 0;
    for (uint32_t d = 0; d < exec->plan->n_devices; d++)
        most = fmax(most, worked_ns(exec, d));
    return most;
}

/* Records take time, in work or between. As far as devices worked no longer
 * than a run takes without records (plain), it was between. So it is taken for
 * all devices alike, as one may wait for another's. */
static double work_scale(const clv_exec *exec, double plain)
{
    const double most = most_worked_ns(exec);
    return most > plain ? plain / most : 1;
}

/* scale: of the devices' records, which take time themselves. */
static clv_status learn_device(const clv_exec *exec, planner_profile *profile,
                               uint32_t device, double scale, observation *o)
{
    const clv_plan *plan = exec->plan;
    clv_device *dev = plan->devices[device].dev;
    double before = o->before_ns, after = o->after_ns;
    o->n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        planner_workload workload;
        if (plan->parts[p].device != device || core_part_copies(plan, p) ||
            core_plan_file_bytes(plan, p, NULL)) /* it waited for the file */
            continue;
        planner_workload_on(dev, plan->graph, plan->parts[p].node, NULL,
                            exec->latest.symbols, &workload);
        const planner_workload plain = planner_workload_plain(&workload);
        add_part(o, &plain,
                 alone(plan->forecast, p, scale * exec->latest.part_ns[p]) /
                     planner_profile_popularity(profile, dev, &workload));
    }
    if (!(worked_ns(exec, device) > 0)) /* the device does not tell */
        return CLV_OK;
    conclude(o, profile, dev);
    before = o->before_ns - before;
    after = o->after_ns - after;
    if (fabs(after - before) > WRONG * before)
        clv_log(plan->ctx, CLV_LOG_INFO,
                "device '%s' worked for %.3f ms, not for %.3f ms as predicted",
                dev->id, after / 1e6, before / 1e6);
    return planner_profile_learn(profile, dev, o->samples, o->n);
}

/* *changed: by how much of the time. */
static clv_status learn_costs(const clv_exec *exec, planner_profile *profile,
                              double scale, double *changed)
{
    const clv_plan *plan = exec->plan;
    observation o = {.samples = calloc(plan->n_parts + 1u, sizeof *o.samples),
                     .counts = calloc(plan->n_parts + 1u, sizeof *o.counts)};
    clv_status status =
        o.samples && o.counts ? CLV_OK : core_no_memory("for a profile");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++) {
        memset(o.counts, 0, (plan->n_parts + 1u) * sizeof *o.counts);
        if (plan->devices[d].n_steps)
            status = learn_device(exec, profile, d, scale, &o);
    }
    *changed = o.before_ns > 0 ? o.change_ns / o.before_ns : 1;
    free(o.samples);
    free(o.counts);
    return status;
}

/* ------------------------------------------------------------------------ */
/* The best plan so far                                                     */

/* Keeps the plan if it took less than the one that is kept, with symbols like
 * these. */
static void keep_best(const clv_plan *plan, planner_history *history,
                      const planner_past *run)
{
    planner_past mine, other;
    uint64_t best;
    bool better = planner_history_find(history, plan->ctx, plan->identity,
                                       run->symbols, run->n_symbols, &mine);
    if (better && planner_plan_cache_best(plan->ctx, plan->problem, &best))
        better = best != plan->identity &&
                 (!planner_history_find(history, plan->ctx, best, run->symbols,
                                        run->n_symbols, &other) ||
                  planner_past_median(&mine) < planner_past_median(&other));
    if (better)
        planner_plan_cache_keep_best(plan);
}

bool planner_has_tried_enough(const clv_plan *plan, planner_profile *profile,
                              const int64_t *symbols)
{
    const planner_past run = describe(plan, symbols);
    uint32_t n, n_worse;
    planner_history_count(planner_profile_history(profile), plan->ctx, &run,
                          WORSE, &n, &n_worse);
    return n >= MOST_PLANS || n_worse >= MOST_WORSE;
}

/* Whether another plan may be better: by costs that have changed, or, once
 * enough were tried, by what their runs took. */
static bool is_to_be_left(const clv_plan *plan, planner_profile *profile,
                          const int64_t *symbols, double changed)
{
    uint64_t best;
    if (plan->n_devices < 2)
        return false;
    if (!planner_has_tried_enough(plan, profile, symbols))
        return changed > CHANGED;
    return plan->flight.n == 1 &&
           planner_plan_cache_best(plan->ctx, plan->problem, &best) &&
           best != plan->identity;
}

/* ------------------------------------------------------------------------ */
/* After each run                                                           */

/* What a run with these symbols takes when devices record nothing; 0: not
 * known. *forecast: without correction. */
static double expected_ns(const clv_plan *plan, planner_profile *profile,
                          const int64_t *symbols, double *forecast)
{
    *forecast = 0;
    if (!forecast_ns(plan, profile, symbols, forecast))
        return 0;
    return *forecast * planner_run_ratio(plan, profile, symbols);
}

/* *changed: as learn_costs(), of the run, if that is more. */
static clv_status learn_overheads(const clv_exec *exec,
                                  planner_profile *profile, double scale,
                                  double *changed)
{
    const int64_t *symbols = exec->latest.symbols;
    double before, after;
    bool any;
    if (!forecast_ns(exec->plan, profile, symbols, &before))
        return CLV_OK;
    CLV_TRY(planner_overheads_learn(exec, profile, scale, &any));
    if (any && forecast_ns(exec->plan, profile, symbols, &after))
        *changed = fmax(*changed, fabs(after / before - 1));
    return CLV_OK;
}

static clv_status learn_observed(clv_exec *exec, planner_profile *profile,
                                 const planner_past *run, clv_learned *out)
{
    const clv_plan *plan = exec->plan;
    planner_history *history = planner_profile_history(profile);
    double forecast, changed = 0;
    double plain = expected_ns(plan, profile, exec->latest.symbols, &forecast);
    if (!(plain > 0))
        plain = exec->latest.ns;
    keep_best(plan, history, run);
    const double scale = fmin(plain / exec->latest.ns, 1);
    CLV_TRY(learn_costs(exec, profile, work_scale(exec, plain), &changed));
    if (scale * ANOTHER_WAY > 1)
        CLV_TRY(learn_overheads(exec, profile, scale, &changed));
    if (is_to_be_left(plan, profile, exec->latest.symbols, changed)) {
        planner_plan_cache_forget(plan);
        *out = CLV_LEARNED_COSTS;
    }
    planner_history_save(history, plan->ctx);
    return CLV_OK;
}

/* Whether to have the devices record the next run: the plan has not been
 * observed, or its forecast does not fit this run. */
static bool is_to_be_observed(const clv_exec *exec, planner_profile *profile,
                              const planner_past *run, uint32_t runs)
{
    double forecast;
    planner_past past;
    for (uint32_t due = 1; due != runs; due *= AGAIN)
        if (due > runs / AGAIN)
            return false;
    if (!planner_history_find(planner_profile_history(profile), exec->plan->ctx,
                              run->plan, run->symbols, run->n_symbols, &past))
        return true;
    const double ns = expected_ns(exec->plan, profile, run->symbols, &forecast);
    return !(fabs(ns / exec->latest.ns - 1) <=
             WRONG + CHANCE * exec->plan->noise);
}

bool clv_plan_equal(const clv_plan *a, const clv_plan *b)
{
    return a && b && a->identity == b->identity;
}

/* Simulated devices are exact but where they are told not to be: from a run
 * that went as forecast nothing is learned. Only runs 1, 2, 4, 8 ... are
 * checked. */
static bool is_as_forecast(const clv_exec *exec, planner_profile *profile)
{
    const clv_plan *plan = exec->plan;
    double ns;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].n_steps &&
            plan->devices[d].dev->info.clock == CLV_CLOCK_REAL)
            return false;
    if (plan->noise > 0)
        return false;
    const uint64_t number = exec->latest.number;
    return (number & (number - 1)) ||
           !forecast_ns(plan, profile, exec->latest.symbols, &ns) ||
           fabs(ns / exec->latest.ns - 1) <= RIGHT;
}

clv_status clv_exec_learn(clv_exec *exec, clv_learned *out)
{
    *out = CLV_LEARNED_NOTHING;
    if (!exec)
        return clv_error(CLV_ERR_INVALID, "clv_exec_learn: the exec is NULL");
    const clv_plan *plan = exec->plan;
    const core_exec_run *latest = &exec->latest;
    if (core_config_choice(plan->ctx->config, "core.profile") ==
            CORE_PROFILE_OFF ||
        !(latest->ns > 0) || plan->source->n_symbols > PLANNER_PAST_SYMBOLS)
        return CLV_OK;
    planner_profile *profile;
    CLV_TRY(planner_profile_of(plan->ctx, &profile));
    if (latest->number == 1)
        CLV_TRY(planner_prepare_learn(exec, profile));
    const planner_past run = describe(plan, latest->symbols);
    if (latest->part_ns)
        return learn_observed(exec, profile, &run, out);
    if (is_as_forecast(exec, profile))
        return CLV_OK;
    planner_history *history = planner_profile_history(profile);
    const uint32_t runs = planner_history_runs(history, plan->ctx, &run) + 1;
    if (latest->number == 1) { /* it touches memory for the first time */
        if (runs == 1)
            *out = CLV_LEARNED_LITTLE;
        return CLV_OK;
    }
    exec->observe = is_to_be_observed(exec, profile, &run, runs);
    CLV_TRY(planner_history_add(history, plan->ctx, &run, latest->ns));
    if (exec->observe)
        *out = CLV_LEARNED_LITTLE;
    return CLV_OK;
}
