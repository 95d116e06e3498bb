/*
 * Plans are made by costs (solve.c), from pieces that are given, or with each
 * node on the first device that takes it. docs/planning.md explains how.
 *
 * The rules of steps. lower/ makes steps and waits by them, core/exec
 * executes them, forecast/ plays them, and search/ predicts by them what a
 * choice will take. Who changes one changes all four; tests/core/test_rules.c
 * compares lowering, forecast and search, test_forecast_sim.c forecast and
 * execution.
 *
 *   - A step is one submission to a device: copies into its memory, one
 *     program, copies out of its memory. A device runs its steps in order.
 *   - A part begins a new step if it needs something of another device that the
 *     open step did not wait for; if it reads a view of a value that the open
 *     step wrote under another name; if another device needs a result of the
 *     open step for a node at the same or an earlier place in the source graph;
 *     if the program would be larger than the device allows; or if the step
 *     would read more weights from the file than are given up at once.
 *   - A step waits for each step of another device that touches the same memory
 *     if one of them writes it. Waits are for whole steps. A wait that another
 *     wait or the device's own order implies is left out.
 *   - A device that cannot wait for others by itself, or for which the host
 *     moves bytes between steps, has the host wait: before the submit, until
 *     the step that is waited for is done. That takes the host a little longer
 *     (wait_poll or wait_block), and nothing if the step was done already.
 *   - A submit takes the host submit, or submit_idle if the queue is empty. A
 *     queue that is full is first waited empty. A step begins when its submit
 *     has ended, the device is free and its own waits are over; its first part
 *     begins a dispatch later.
 *   - The host submits each device's steps in order. Between devices it submits
 *     that step first which can be submitted first.
 *   - A result is copied to another memory once: out, at the end of the step
 *     that made it, by its device if that has memory of its own; in, at the
 *     begin of the step that needs it, by the device that reads it.
 *   - At the end the host waits for all devices.
 *
 * The search leaves out what it cannot know: waits for memory that is used
 * again, copies of the graph's inputs, sizes of programs and queues, weights
 * that are read from the file, and contention for memory between nodes.
 */
#pragma once

#include "../core/plan/plan.h"
#include "candidates/candidates.h"

/* What core.plan asks for, of plans for so many devices. */
planner_strategy planner_strategy_of(const clv_context *ctx,
                                     uint32_t n_devices);

/* A plan from pieces that are given: the solver's, or saved ones. Checked like
 * any input: they cover the graph, and each device takes its own. pieces are
 * copied; device: into params->devices. */
clv_status planner_from_pieces(clv_context *ctx, clv_graph *graph,
                               const clv_plan_params *params,
                               const core_piece *pieces, uint32_t n_pieces,
                               clv_plan **out);

/* A plan of the pieces that json has. Its devices are those of params, which
 * lists them, also those without pieces. */
clv_status planner_from_json(clv_context *ctx, clv_graph *graph,
                             const clv_plan_params *params, const char *json,
                             uint64_t size, clv_plan **out);

/* The best plan for the devices of `plan`, which is not changed; caps as
 * planner_place(). CLV_ERR_NOT_FOUND: what some node costs is not known. */
clv_status planner_plan_by_costs(const clv_plan *plan, clv_graph *graph,
                                 const clv_op_caps *caps,
                                 planner_strategy strategy, clv_plan **out);

/* A forecast by the profiles of the plan's devices, in memory or in the cache;
 * nothing is measured. symbols as planner_forecast_make(); CLV_ERR_NOT_FOUND
 * where a cost is not known. */
clv_status planner_predict(const clv_plan *plan, const int64_t *symbols,
                           core_forecast **out);
/* plan->flight.ns. */
clv_status planner_predict_flight(clv_plan *plan);
/* Symbols of a run, n of them; NULL: the largest. who: begins the message. */
clv_status planner_check_symbols(const clv_graph *graph, const char *who,
                                 const int64_t *symbols, uint32_t n);
