/*
 * What a plan will take: its steps, waits and submits played through as the
 * executor would, with the times of a profile. More exact than the search,
 * which does not know the steps yet: devices share the memory's bandwidth while
 * their work overlaps, and waits for memory that is used again count.
 */
#pragma once

#include "../plan/plan.h"
#include "costs.h"

typedef struct core_span {
    double begin_ns, end_ns; /* since the run began */
} core_span;

struct core_forecast {
    double makespan_ns;    /* until the host goes on after the last wait */
    double energy_nj;      /* of the work; 0: unknown */
    core_span *parts;      /* [plan->n_parts] */
    double *costs_ns;      /* [plan->n_parts] of the part alone */
    core_span *steps;      /* [plan->n_steps] on the device, with dispatch */
    core_span *submits;    /* [plan->n_steps] of the host */
    core_span *host_waits; /* [plan->n_steps] before the submit */
    core_span last_wait;   /* of the host, for everything to end */
    double *busy_ns;       /* [plan->n_devices] */
};

/* symbols: NULL for their upper bounds. CLV_ERR_NOT_FOUND: the cost of some
 * part is not known. */
clv_status core_forecast_make(const clv_plan *plan, const core_costs *costs,
                              const int64_t *symbols,
                              struct core_forecast **out);
void core_forecast_free(struct core_forecast *forecast); /* NULL is legal */
