/*
 * What several runs of a plan take of which some are in flight together, one
 * after another: chunks of a text, each of which needs the rows that those
 * before it set.
 *
 * The host is played as core/exec/flight.h has it, with the choice of choice.h,
 * beside the devices of player.h. Rows that are set by indices of an input are
 * taken to be each run's own: later runs read them and none sets them again.
 */
#pragma once

#include "forecast.h"

/* symbols: [n_runs, plan->source->n_symbols]. n_flight: runs at once, from 1.
 * CLV_ERR_NOT_FOUND as planner_forecast_make(). */
clv_status planner_forecast_flight(const clv_plan *plan,
                                   const planner_costs *costs,
                                   const int64_t *symbols, uint32_t n_runs,
                                   uint32_t n_flight, double *makespan_ns);
