/* Predictions by what is known of the devices, in the context or the cache. */
#include "forecast/forecast.h"
#include "../core/base/error.h"
#include "learn.h"
#include "planner.h"

#include <stdlib.h>

static clv_status check_symbols(const clv_graph *graph, const int64_t *symbols,
                                uint32_t n)
{
    if (!symbols)
        return CLV_OK;
    if (n != graph->n_symbols)
        return clv_error(CLV_ERR_INVALID,
                         "clv_plan_predict: %u symbols given, "
                         "the graph has %u",
                         n, graph->n_symbols);
    for (uint32_t i = 0; i < n; i++)
        if (symbols[i] < graph->symbols[i].min ||
            symbols[i] > graph->symbols[i].max)
            return clv_error(CLV_ERR_INVALID,
                             "clv_plan_predict: symbol '%s' "
                             "is %lld, outside %lld..%lld",
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

clv_status planner_predict(const clv_plan *plan, const int64_t *symbols,
                           core_forecast **out)
{
    planner_profile *profile;
    *out = NULL;
    clv_status status = planner_profile_of(plan->ctx, &profile);
    if (status)
        return status;
    const planner_costs costs = planner_costs_of(profile);
    status = planner_forecast_make(plan, &costs, symbols, out);
    if (status != CLV_ERR_NOT_FOUND)
        return status;
    status = read_profiles(plan, profile);
    return status ? status : planner_forecast_make(plan, &costs, symbols, out);
}

clv_status clv_plan_predict(const clv_plan *plan, const int64_t *symbols,
                            uint32_t n_symbols, clv_prediction *out)
{
    core_forecast *forecast;
    if (!plan || !out)
        return clv_error(CLV_ERR_INVALID, "clv_plan_predict: no plan, or no "
                                          "room for the prediction");
    *out = (clv_prediction){0};
    clv_status status = check_symbols(plan->source, symbols, n_symbols);
    if (!status)
        status = planner_predict(plan, symbols, &forecast);
    if (status)
        return status;
    planner_profile *profile;
    status = planner_profile_of(plan->ctx, &profile);
    const double ratio = status ? 0 : planner_run_ratio(plan, profile, symbols);
    *out = (clv_prediction){forecast->makespan_ns * (ratio > 0 ? ratio : 1),
                            forecast->energy_nj};
    core_forecast_free(forecast);
    return status;
}
