/*
 * From a graph to a plan: which devices, by costs or not, and everything that
 * follows from the pieces.
 */
#include "learn.h"
#include "planner.h"
#include "../core/device/loss.h"
#include "../core/device/caps.h"

#include "../core/base/error.h"
#include "../core/config/config.h"
#include "../core/plugin/loader.h"

#include "candidates/room.h"
#include "limits.h"
#include "lower/lower.h"
#include "lower/stream.h"
#include "memory/file_weights.h"
#include "memory/memory.h"
#include "prepare.h"
#include "profile/profile.h"
#include "profile/accepts.h"
#include "profile/file_room.h"
#include "profile/variants.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>

/* All devices of the context but the lost ones; their list is for free(). */
static clv_status devices_left(const clv_context *ctx, clv_device ***list,
                               uint32_t *count)
{
    core_id_list lost = {.text = ""};
    uint32_t n = 0;
    if (!ctx->n_devices)
        return core_loader_no_device(ctx);
    clv_device **left = calloc(ctx->n_devices, sizeof *left);
    if (!left)
        return core_no_memory("for a plan");
    for (uint32_t i = 0; i < ctx->n_devices; i++) {
        if (core_device_lost(ctx->devices[i]))
            core_id_list_add(&lost, ctx->devices[i]->id);
        else
            left[n++] = ctx->devices[i];
    }
    *list = left;
    *count = n;
    return n ? CLV_OK
             : clv_error(CLV_ERR_DEVICE_LOST,
                         "no device is left to run on, "
                         "%s: lost; open a new context to use it again",
                         lost.text);
}

/* Nothing says how long real work takes in virtual time. */
static clv_status check_clocks(const clv_plan_params *params)
{
    const clv_device *first = params->devices[0];
    for (uint32_t i = 1; i < params->n_devices; i++) {
        const clv_device *dev = params->devices[i];
        bool is_virtual = dev->info.clock == CLV_CLOCK_VIRTUAL;
        if (is_virtual != (first->info.clock == CLV_CLOCK_VIRTUAL))
            return clv_error(CLV_ERR_INVALID,
                             "plan: device '%s' works in real time and "
                             "simulated '%s' in virtual time, so they cannot "
                             "share a plan; list only one of the two kinds in "
                             "core.devices",
                             is_virtual ? first->id : dev->id,
                             is_virtual ? dev->id : first->id);
    }
    return CLV_OK;
}

static clv_status check_devices(const clv_context *ctx,
                                const clv_plan_params *params)
{
    for (uint32_t i = 0; i < params->n_devices; i++) {
        if (!params->devices[i] || params->devices[i]->ctx != ctx)
            return clv_error(CLV_ERR_INVALID,
                             "plan: device %u is none of this "
                             "context",
                             i);
        if (core_device_lost(params->devices[i]))
            return clv_error(CLV_ERR_DEVICE_LOST,
                             "plan: device '%s' is lost; "
                             "leave it out",
                             params->devices[i]->id);
        for (uint32_t j = 0; j < i; j++)
            if (params->devices[i] == params->devices[j])
                return clv_error(CLV_ERR_INVALID,
                                 "plan: device '%s' is listed "
                                 "twice",
                                 params->devices[i]->id);
    }
    return params->n_devices ? check_clocks(params)
                             : core_loader_no_device(ctx);
}

static clv_status check_graph(const clv_graph *graph)
{
    clv_status status = clv_graph_check(graph);
    if (status)
        return status;
    if (!graph->n_nodes)
        return clv_error(CLV_ERR_INVALID, "plan: the graph has no nodes");
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == CLV_OP_SET_ROWS)
            return CLV_OK;
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        if (graph->tensors[i].usage == CLV_USAGE_OUTPUT)
            return CLV_OK;
    return clv_error(CLV_ERR_INVALID, "plan: the graph has no effect; mark its "
                                      "results with clv_graph_output()");
}

/* What device d answers for every node of the graph: caps[d * n_nodes + i]. */
static clv_status ask_devices(const clv_plan *plan, const clv_graph *graph,
                              clv_op_caps **out)
{
    clv_subgraph view = core_graph_view(graph);
    uint32_t n = graph->n_nodes;
    clv_op_caps *caps = calloc((size_t)plan->n_devices * n, sizeof *caps);
    if (!caps)
        return core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        clv_device *dev = plan->devices[d].dev;
        if (core_device_lost(dev))
            continue; /* all its answers stay a no */
        clv_status status = core_device_caps(dev, &view, caps + (size_t)d * n);
        if (status) {
            free(caps);
            return status;
        }
    }
    *out = caps;
    return CLV_OK;
}

/* Values can take the place of those of other plans. Those of a device without
 * memory of its own lie among all others in the host's. */
static uint64_t given_by(const clv_plan_params *params, uint32_t device)
{
    const clv_device *dev = params->devices[device];
    return params->workspace
               ? clv_workspace_size(params->workspace,
                                    core_device_is_windowed(dev) ? NULL : dev)
               : 0;
}

/* What a device's own values take already is no room of its memory any more. */
static uint64_t room_of(const clv_graph *graph, const clv_plan_params *params,
                        uint32_t device)
{
    clv_device *dev = params->devices[device];
    const uint64_t room = planner_room(graph, dev);
    const uint64_t given =
        core_device_is_windowed(dev) ? given_by(params, device) : 0;
    return room > given ? room - given : 0;
}

/* What the plan before takes, and how much of that others can use. */
static void come_after(core_plan_device *of, const clv_plan *before)
{
    for (uint32_t d = 0; d < before->n_devices; d++) {
        const core_plan_device *its = &before->devices[d];
        if (its->dev != of->dev)
            continue;
        const uint64_t taken = planner_limits_bytes(before, d);
        const uint64_t values = core_device_is_windowed(of->dev)
                                    ? before->memory.size
                                    : its->memory.size;
        if (of->room != UINT64_MAX)
            of->room -= taken < of->room ? taken : of->room;
        if (taken && values > of->given)
            of->given = values;
        of->states = planner_limits_states(before, d);
    }
    of->after = before;
}

static clv_status take_flight(clv_plan *plan, const clv_plan_params *params)
{
    const uint32_t n = params->n_flight ? params->n_flight : 1;
    const uint32_t n_symbols = plan->source->n_symbols;
    plan->flight.n = n;
    if (n > CLV_PLAN_MAX_FLIGHT)
        return clv_error(CLV_ERR_INVALID,
                         "plan: %u runs at once; n_flight is at most %u", n,
                         CLV_PLAN_MAX_FLIGHT);
    if (n == 1 || !params->flight_symbols)
        return CLV_OK;
    for (uint32_t i = 0; i < n; i++)
        CLV_TRY(planner_check_symbols(
            plan->source, "plan",
            params->flight_symbols + (size_t)i * n_symbols, n_symbols));
    const size_t count = (size_t)n * n_symbols;
    plan->flight.symbols = calloc(count + 1, sizeof *plan->flight.symbols);
    if (!plan->flight.symbols)
        return core_no_memory("for a plan");
    memcpy(plan->flight.symbols, params->flight_symbols,
           count * sizeof *plan->flight.symbols);
    return CLV_OK;
}

static clv_status make_plan(clv_context *ctx, clv_graph *graph,
                            const clv_plan_params *params, clv_plan **out)
{
    clv_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return core_no_memory("for a plan");
    plan->ctx = ctx;
    plan->source = plan->graph = graph;
    plan->node_work = planner_node_work;
    plan->devices = calloc(params->n_devices, sizeof *plan->devices);
    plan->choices = calloc(graph->n_nodes, sizeof *plan->choices);
    if (!plan->devices || !plan->choices) {
        clv_plan_destroy(plan);
        return core_no_memory("for a plan");
    }
    plan->n_devices = plan->n_queues = params->n_devices;
    for (uint32_t i = 0; i < params->n_devices; i++) {
        clv_device *dev = params->devices[i];
        core_plan_device *of = &plan->devices[i];
        *of = (core_plan_device){.dev = dev,
                                 .room = room_of(graph, params, i),
                                 .given = given_by(params, i),
                                 .states = atomic_load(&dev->state_bytes),
                                 .reserve = params->reserve,
                                 .reserve_values = params->reserve_values,
                                 .kept = CLV_NO_TENSOR};
        if (params->after)
            come_after(of, params->after);
    }
    const clv_status status = take_flight(plan, params);
    if (status)
        clv_plan_destroy(plan);
    else
        *out = plan;
    return status;
}

/* Turns the pieces into the graph that is run, if any node is cut. */
static clv_status cut_graph(clv_plan *plan)
{
    bool any = planner_find_local(plan); /* copies go into a graph of ours */
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        core_choice *choice = &plan->choices[plan->pieces[i].node];
        if (!choice->n_pieces++)
            choice->first_piece = i;
        any |= choice->n_pieces > 1 || !core_piece_is_whole(&plan->pieces[i]) ||
               plan->pieces[i].streamed || plan->pieces[i].variant;
    }
    if (!any)
        return CLV_OK;
    clv_status status =
        core_cut_make(plan->source, plan->pieces, plan->n_pieces, &plan->cut);
    bool *local = calloc(plan->n_devices + 1u, sizeof *local);
    for (uint32_t d = 0; local && d < plan->n_devices; d++)
        local[d] = plan->devices[d].local;
    if (!status)
        status = local ? core_cut_pack(&plan->cut, local)
                       : core_no_memory("for a plan");
    if (!status)
        plan->graph = plan->cut.graph;
    free(local);
    return status;
}

/* caps[i]: of node i of the graph that is run, by its own device. */
static clv_status own_answers(const clv_plan *plan, const clv_op_caps *all,
                              clv_op_caps *caps)
{
    uint32_t n = plan->graph->n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = plan->parts[i].device;
        const clv_device *dev = plan->devices[d].dev;
        char reason[PLANNER_REASON_SIZE], text[64];
        caps[i] = all[(size_t)d * n + i];
        if (planner_accepts(plan->graph, &plan->graph->nodes[i], dev, &caps[i],
                            reason))
            continue;
        core_plan_node_text(plan, i, text, sizeof text);
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "device '%s' does not take its "
                         "piece of node %u (%s): %s",
                         dev->id, plan->cut.graph ? plan->cut.sources[i] : i,
                         text, reason);
    }
    return CLV_OK;
}

/* The names of the pieces' variants; caps as own_answers() has them. */
static clv_status name_variants(clv_plan *plan, const clv_op_caps *caps)
{
    for (uint32_t i = 0; i < plan->graph->n_nodes; i++) {
        const core_piece *piece = core_plan_piece_of(plan, i);
        if (!piece || !piece->variant)
            continue;
        if (!plan->names)
            plan->names = calloc(plan->n_pieces, sizeof *plan->names);
        if (!plan->names)
            return core_no_memory("for a plan");
        memcpy(&plan->names[piece - plan->pieces],
               core_caps_variant(&caps[i], piece->variant)->name,
               sizeof *plan->names);
    }
    return CLV_OK;
}

/* Whether plans for other runs with the same states are likely to use them on
 * the same devices: where nodes are divided in this one, they may not be in
 * another, and states would change their layout all the time. */
static bool agrees(const clv_plan *plan)
{
    for (uint32_t p = 1; p < plan->n_parts; p++)
        if (plan->parts[p].device != plan->parts[0].device)
            return planner_strategy_of(plan->ctx, plan->n_devices) ==
                   PLANNER_STRATEGY_FIRST;
    return true;
}

/* Everything that follows from the pieces. all: answers for the source graph,
 * or NULL. */
static clv_status derive(clv_plan *plan, const clv_op_caps *all)
{
    clv_op_caps *asked = NULL, *caps = NULL;
    planner_streams streams = {0};
    bool preferred = false;
    clv_status status = cut_graph(plan);
    if (!status)
        status = planner_streams_find(plan, &streams);
    if (!status && (plan->cut.graph || !all))
        status = ask_devices(plan, plan->graph, &asked);
    if (status) {
        planner_streams_finish(&streams);
        return status;
    }
    uint32_t n = plan->graph->n_nodes;
    caps = calloc(n, sizeof *caps);
    plan->parts = calloc(n, sizeof *plan->parts);
    plan->places = calloc(plan->graph->n_tensors, sizeof *plan->places);
    if (!caps || !plan->parts || !plan->places)
        status = core_no_memory("for a plan");
    for (uint32_t i = 0; i < n && !status; i++)
        plan->parts[i] =
            (core_part){.node = i,
                        .device = plan->cut.graph ? plan->cut.devices[i]
                                                  : plan->pieces[i].device};
    plan->n_parts = n;
    for (uint32_t v = 0; v < plan->graph->n_tensors && !status; v++)
        plan->places[v].original = v;
    if (!status)
        status = own_answers(plan, asked ? asked : all, caps);
    if (!status)
        status = name_variants(plan, caps);
    if (!status)
        status = planner_layouts(plan, caps, agrees(plan), &preferred);
    if (!status && (planner_find_local(plan) || preferred))
        status = planner_transfers(plan, &streams, &caps);
    if (!status) {
        planner_alignment(plan, caps);
        status = planner_file_weights(plan, planner_file_room(plan));
    }
    if (!status)
        status = planner_steps(plan);
    if (!status)
        status = planner_memory(plan, caps);
    if (!status)
        status = planner_waits(plan);
    planner_streams_finish(&streams);
    free(caps);
    free(asked);
    return status;
}

static clv_status take_pieces(clv_plan *plan, const core_piece *pieces,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (pieces[i].node >= plan->source->n_nodes ||
            pieces[i].device >= plan->n_devices ||
            (i && pieces[i].node < pieces[i - 1].node))
            return clv_error(CLV_ERR_INVALID,
                             "plan: piece %u names a node or "
                             "device that is not there, or is out of order",
                             i);
    if (n < plan->source->n_nodes)
        return clv_error(CLV_ERR_INVALID,
                         "plan: %u pieces do not cover %u "
                         "nodes",
                         n, plan->source->n_nodes);
    plan->pieces = calloc(n, sizeof *plan->pieces);
    if (!plan->pieces)
        return core_no_memory("for a plan");
    memcpy(plan->pieces, pieces, n * sizeof *pieces);
    plan->n_pieces = n;
    return CLV_OK;
}

/* What a run takes, if the costs of all parts are known. */
static clv_status predict(clv_plan *plan)
{
    planner_profile *profile;
    CLV_TRY(planner_profile_of(plan->ctx, &profile));
    if (plan->file.read)
        plan->file.speed = planner_file_speed(plan);
    clv_status status = planner_predict(plan, NULL, &plan->forecast);
    planner_identify(plan);
    plan->noise = planner_run_noise(plan, profile);
    if (!status)
        status = planner_predict_flight(plan);
    if (!status) {
        plan->run_ratio = planner_run_ratio(plan, profile, NULL);
        CLV_TRY(planner_prepare_predict(plan, profile, &plan->prepare_ns));
    }
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        core_plan_device *d = &plan->devices[i];
        core_profile_top(profile, d->dev, &d->top_bytes, &d->top_flops);
    }
    return status == CLV_ERR_NOT_FOUND ? CLV_OK : status;
}

/* pieces: NULL for each node on the first device that takes it. */
static clv_status fill_plan(clv_plan *plan, const core_piece *pieces,
                            uint32_t n_pieces)
{
    clv_op_caps *all = NULL;
    clv_status status;
    if (pieces) {
        status = take_pieces(plan, pieces, n_pieces);
    } else {
        status = ask_devices(plan, plan->source, &all);
        if (!status)
            status = planner_place(plan, all);
    }
    if (!status)
        status = derive(plan, all);
    if (!status)
        status = predict(plan);
    free(all);
    return status;
}

/* A plan without decisions. */
static clv_status begin(clv_context *ctx, clv_graph *graph,
                        const clv_plan_params *params, clv_plan **out)
{
    clv_plan_params all = {
        .workspace = params ? params->workspace : NULL,
        .reserve = params ? params->reserve : 0,
        .reserve_values = params ? params->reserve_values : 0,
        .after = params ? params->after : NULL,
        .n_flight = params ? params->n_flight : 0,
        .flight_symbols = params ? params->flight_symbols : NULL};
    clv_device **left = NULL;
    *out = NULL;
    clv_status status = check_graph(graph);
    if (!params || !params->devices) {
        if (!status)
            status = devices_left(ctx, &left, &all.n_devices);
        all.devices = left;
        params = &all;
    }
    if (!status)
        status = check_devices(ctx, params);
    if (!status)
        status = make_plan(ctx, graph, params, out);
    free(left);
    return status;
}

/* The plan, if status is good. */
static clv_status end(clv_plan *plan, clv_graph *graph, clv_status status,
                      clv_plan **out)
{
    if (status) {
        clv_plan_destroy(plan);
        return status;
    }
    graph->frozen = true;
    *out = plan;
    return CLV_OK;
}

planner_strategy planner_strategy_of(const clv_context *ctx, uint32_t n_devices)
{
    switch (core_config_choice(ctx->config, "core.plan")) {
    case CORE_PLAN_LAYER:
        return PLANNER_STRATEGY_LAYER;
    case CORE_PLAN_TENSOR:
        return PLANNER_STRATEGY_TENSOR;
    case CORE_PLAN_AUTO:
        return n_devices > 1 ? PLANNER_STRATEGY_TENSOR : PLANNER_STRATEGY_FIRST;
    }
    return PLANNER_STRATEGY_FIRST;
}

/* By costs, if they can be had: else *out stays NULL, and the log says why. */
static clv_status plan_by_costs(clv_plan *bare, clv_graph *graph,
                                planner_strategy strategy, clv_plan **out)
{
    clv_op_caps *all = NULL;
    clv_status status = ask_devices(bare, graph, &all);
    if (!status)
        status = planner_find_work(bare, graph, all);
    if (!status)
        status = planner_plan_by_costs(bare, graph, all, strategy, out);
    free(all);
    if (!status || status == CLV_ERR_NO_MEMORY || status == CLV_ERR_CANCELLED)
        return status;
    clv_log(bare->ctx, CLV_LOG_WARN,
            "no plan by costs, so every op runs on "
            "the first device that takes it: %s",
            clv_last_error());
    return CLV_OK;
}

/* dev: NULL, or has so many bytes more than there are. */
static clv_status create(clv_context *ctx, clv_graph *graph,
                         const clv_plan_params *params, const clv_device *dev,
                         uint64_t more, clv_plan **out)
{
    clv_plan *plan;
    *out = NULL;
    clv_status status = begin(ctx, graph, params, &plan);
    if (status)
        return end(plan, graph, status, out);
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].dev == dev && plan->devices[d].room != UINT64_MAX)
            plan->devices[d].room += plan->devices[d].more = more;
    planner_strategy strategy = planner_strategy_of(ctx, plan->n_devices);
    if (strategy != PLANNER_STRATEGY_FIRST)
        status = plan_by_costs(plan, graph, strategy, out);
    if (!status && *out) {
        clv_plan_destroy(plan);
        plan = *out;
    } else if (!status) {
        status = fill_plan(plan, NULL, 0);
    }
    *out = NULL;
    return end(plan, graph, status ? status : planner_limits_check(plan), out);
}

clv_status clv_plan_create(clv_context *ctx, clv_graph *graph,
                           const clv_plan_params *params, clv_plan **out)
{
    return create(ctx, graph, params, NULL, 0, out);
}

clv_status clv_plan_weigh(clv_context *ctx, clv_graph *graph,
                          const clv_plan_params *params, const clv_device *dev,
                          uint64_t bytes, double *ns)
{
    clv_plan *plan;
    CLV_TRY(create(ctx, graph, params, dev, bytes, &plan));
    *ns = core_plan_expected_ns(plan);
    clv_plan_destroy(plan);
    return CLV_OK;
}

clv_status clv_plan_work(clv_context *ctx, clv_graph *graph,
                         const clv_plan_params *params, uint64_t *bytes,
                         uint64_t *values)
{
    clv_plan *bare;
    clv_op_caps *all = NULL;
    uint64_t scratch = 0;
    CLV_TRY(begin(ctx, graph, params, &bare));
    clv_status status = clv_graph_live(graph, bytes);
    if (!status)
        status = ask_devices(bare, graph, &all);
    if (!status)
        status = planner_find_work(bare, graph, all);
    for (uint32_t d = 0; d < bare->n_devices && !status; d++)
        if (planner_cut_work(&bare->devices[d]) > *bytes) {
            *bytes = planner_cut_work(&bare->devices[d]);
            scratch = bare->devices[d].scratch;
        }
    if (values)
        *values = *bytes - scratch;
    free(all);
    clv_plan_destroy(bare);
    return status;
}

clv_status planner_from_pieces(clv_context *ctx, clv_graph *graph,
                               const clv_plan_params *params,
                               const core_piece *pieces, uint32_t n_pieces,
                               clv_plan **out)
{
    clv_plan *plan;
    *out = NULL;
    clv_status status = begin(ctx, graph, params, &plan);
    if (!status)
        status = fill_plan(plan, pieces, n_pieces);
    return end(plan, graph, status, out);
}

/* Finds out which variants the pieces' names are. */
static clv_status find_variants(clv_context *ctx, clv_graph *graph,
                                const clv_plan_params *params,
                                const core_saved_plan *saved)
{
    clv_plan *bare;
    clv_op_caps *all = NULL;
    if (!saved->names)
        return CLV_OK;
    clv_status status = begin(ctx, graph, params, &bare);
    if (!status)
        status = ask_devices(bare, graph, &all);
    for (uint32_t i = 0; i < saved->n_pieces && !status; i++) {
        core_piece *p = &saved->pieces[i];
        if (*saved->names[i].text)
            status = planner_variant_named(
                ctx, params->devices[p->device],
                &all[(size_t)p->device * graph->n_nodes + p->node], i,
                saved->names[i].text, &p->variant);
    }
    free(all);
    clv_plan_destroy(bare);
    return status;
}

/* The pieces' devices are those of params. */
static clv_status from_saved(clv_context *ctx, clv_graph *graph,
                             const clv_plan_params *params,
                             const core_saved_plan *saved, clv_plan **out)
{
    CLV_TRY(find_variants(ctx, graph, params, saved));
    return planner_from_pieces(ctx, graph, params, saved->pieces,
                               saved->n_pieces, out);
}

clv_status planner_from_json(clv_context *ctx, clv_graph *graph,
                             const clv_plan_params *params, const char *json,
                             uint64_t size, clv_plan **out)
{
    core_saved_plan saved;
    *out = NULL;
    CLV_TRY(core_plan_read_json(ctx, graph, params, json, size, &saved));
    for (uint32_t i = 0; i < saved.n_pieces; i++) {
        const clv_device *dev = saved.devices[saved.pieces[i].device];
        uint32_t d = 0;
        while (params->devices[d] != dev)
            d++;
        saved.pieces[i].device = d;
    }
    const clv_status status = from_saved(ctx, graph, params, &saved, out);
    core_saved_plan_finish(&saved);
    return status;
}

clv_status clv_plan_parse(clv_context *ctx, clv_graph *graph,
                          const clv_plan_params *params, const char *json,
                          uint64_t size, clv_plan **out)
{
    core_saved_plan saved;
    *out = NULL;
    CLV_TRY(core_plan_read_json(ctx, graph, params, json, size, &saved));
    clv_plan_params named = params ? *params : (clv_plan_params){0};
    named.devices = saved.devices;
    named.n_devices = saved.n_devices;
    const clv_status status = from_saved(ctx, graph, &named, &saved, out);
    core_saved_plan_finish(&saved);
    return status;
}
