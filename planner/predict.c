/* Predictions by what is known of the devices, in the context or the cache. */
#include "forecast/flight.h"
#include "../core/base/error.h"
#include "learn.h"
#include "planner.h"

#include <stdlib.h>

clv_status planner_check_symbols(const clv_graph *graph, const char *who,
                                 const int64_t *symbols, uint32_t n)
{
    if (!symbols)
        return CLV_OK;
    if (n != graph->n_symbols)
        return clv_error(CLV_ERR_INVALID,
                         "%s: %u symbols given, the graph has %u", who, n,
                         graph->n_symbols);
    for (uint32_t i = 0; i < n; i++)
        if (symbols[i] < graph->symbols[i].min ||
            symbols[i] > graph->symbols[i].max)
            return clv_error(CLV_ERR_INVALID,
                             "%s: symbol '%s' is %lld, outside %lld..%lld", who,
                             graph->symbol_names[i], (long long)symbols[i],
                             (long long)graph->symbols[i].min,
                             (long long)graph->symbols[i].max);
    return CLV_OK;
}

/* What the cache knows of the plan's devices. */
static clv_status read_profiles(const clv_plan *plan, planner_profile *profile)
{
    clv_device **devices = calloc(plan->n_devices + 1u, sizeof *devices);
    planner_profile_params params = {.devices = devices, .cached = true};
    if (!devices)
        return core_no_memory("for a forecast");
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].n_steps)
            devices[params.n_devices++] = plan->devices[d].dev;
    clv_status status = planner_profile_cover(profile, plan->source, &params);
    free(devices);
    return status;
}

/* What is forecast, and with what. */
typedef struct question {
    const clv_plan *plan;
    const int64_t *symbols;
    uint32_t n_runs, n_flight; /* n_flight 0: one run alone */
} question;

static clv_status forecast(const question *q, const planner_costs *costs,
                           core_forecast **out, double *ns)
{
    *out = NULL;
    if (q->n_flight)
        return planner_forecast_flight(q->plan, costs, q->symbols, q->n_runs,
                                       q->n_flight, ns);
    const clv_status status =
        planner_forecast_make(q->plan, costs, q->symbols, out);
    *ns = status ? 0 : (*out)->makespan_ns;
    return status;
}

/* Where costs are not in the context, they may be in the cache. */
static clv_status answer(const question *q, core_forecast **out, double *ns)
{
    planner_profile *profile;
    CLV_TRY(planner_profile_of(q->plan->ctx, &profile));
    const planner_costs costs = planner_costs_of(profile);
    clv_status status = forecast(q, &costs, out, ns);
    if (status != CLV_ERR_NOT_FOUND)
        return status;
    CLV_TRY(read_profiles(q->plan, profile));
    return forecast(q, &costs, out, ns);
}

clv_status planner_predict(const clv_plan *plan, const int64_t *symbols,
                           core_forecast **out)
{
    double ns;
    *out = NULL;
    return answer(&(question){.plan = plan, .symbols = symbols}, out, &ns);
}

clv_status planner_predict_flight(clv_plan *plan)
{
    const uint32_t n = plan->flight.n, n_symbols = plan->source->n_symbols;
    core_forecast *none;
    int64_t *largest = NULL;
    plan->flight.ns = 0;
    if (n == 1)
        return CLV_OK;
    if (!plan->flight.symbols &&
        !(largest = calloc((size_t)n * n_symbols + 1, sizeof *largest)))
        return core_no_memory("for a forecast");
    for (uint32_t i = 0; largest && i < n * n_symbols; i++)
        largest[i] = plan->source->symbols[i % n_symbols].max;
    const clv_status status = answer(
        &(question){plan, largest ? largest : plan->flight.symbols, n, n},
        &none, &plan->flight.ns);
    free(largest);
    return status;
}

/* As the forecast has it, but for what runs of the plan took. */
static clv_prediction correct(const clv_plan *plan, const int64_t *symbols,
                              double ns)
{
    planner_profile *profile;
    const clv_status status = planner_profile_of(plan->ctx, &profile);
    const double ratio = status ? 0 : planner_run_ratio(plan, profile, symbols);
    return (clv_prediction){.ns = ratio > 0 ? ns * ratio : ns,
                            .has_run = ratio > 0};
}

clv_status clv_plan_predict(const clv_plan *plan, const int64_t *symbols,
                            uint32_t n_symbols, clv_prediction *out)
{
    core_forecast *forecast;
    if (!plan || !out)
        return clv_error(CLV_ERR_INVALID, "clv_plan_predict: no plan, or no "
                                          "room for the prediction");
    *out = (clv_prediction){0};
    clv_status status = planner_check_symbols(plan->source, "clv_plan_predict",
                                              symbols, n_symbols);
    if (!status)
        status = planner_predict(plan, symbols, &forecast);
    if (status)
        return status;
    *out = correct(plan, symbols, forecast->makespan_ns);
    out->energy_nj = forecast->energy_nj;
    core_forecast_free(forecast);
    return CLV_OK;
}

clv_status clv_plan_predict_flight(const clv_plan *plan, const int64_t *symbols,
                                   uint32_t n_symbols, uint32_t n_runs,
                                   uint32_t n_flight, clv_prediction *out)
{
    core_forecast *none;
    double ns;
    if (!plan || !symbols || !n_runs || !n_flight || !out)
        return clv_error(CLV_ERR_INVALID,
                         "clv_plan_predict_flight: no plan, symbols, runs or "
                         "no room for the prediction");
    *out = (clv_prediction){0};
    for (uint32_t i = 0; i < n_runs; i++)
        CLV_TRY(planner_check_symbols(plan->source, "clv_plan_predict_flight",
                                      symbols + (size_t)i * n_symbols,
                                      n_symbols));
    CLV_TRY(answer(&(question){plan, symbols, n_runs, n_flight}, &none, &ns));
    *out = correct(plan, symbols + (n_runs - 1) * (size_t)n_symbols, ns);
    return CLV_OK;
}
