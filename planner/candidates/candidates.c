#include "maker.h"
#include "room.h"
#include "../memory/ring.h"
#include "../profile/accepts.h"
#include "../../core/device/loss.h"
#include "../../core/device/caps.h"
#include "../../core/device/subgraph.h"
#include "../../core/base/error.h"
#include "../../core/config/config.h"

#include "../../core/graph/tensor.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Devices                                                                   */

/* What its submits take is known, or that of none: no plan can be compared with
 * one on a device of which it is not. */
static bool can_compare(const planner_maker *m, uint32_t device)
{
    const planner_costs *costs = m->costs;
    bool any = false;
    for (uint32_t d = 0; d < m->n_devices; d++)
        any |= costs->overheads(costs->ctx, planner_maker_device(m, d)) != NULL;
    return !any ||
           costs->overheads(costs->ctx, planner_maker_device(m, device));
}

static void describe_devices(planner_maker *m)
{
    const bool block = core_config_choice(m->plan->ctx->config, "core.sync") ==
                       CORE_SYNC_BLOCK;
    for (uint32_t d = 0; d < m->n_devices; d++) {
        clv_device *dev = planner_maker_device(m, d);
        const core_plan_device *of = &m->plan->devices[m->owners[d]];
        planner_solve_device *out = &m->devices[d];
        uint32_t type;
        const planner_overheads *o = m->costs->overheads(m->costs->ctx, dev);
        m->usable[d] = !core_device_lost(dev) && can_compare(m, d) &&
                       (core_device_has_local(dev, &type) ||
                        !core_tensor_can_share(dev, 1, m->n_devices > 1));
        *out = (planner_solve_device){
            .host_waits = !(dev->info.flags & CLV_DEVICE_FLAG_WAIT),
            .memory = planner_maker_streams(m, d)
                          ? planner_room_to_stream(m->graph, of) >> m->halvings
                          : planner_room_to_hold(m->graph, of) +
                                planner_room_to_keep(m->graph, of),
            .max_share = core_device_max_share(dev)};
        if (core_device_has_local(dev, &type)) {
            out->memory_index = 1 + m->owners[d];
            m->several = true;
        }
        if (!o)
            continue;
        /* Values go both ways. */
        out->copy_ns =
            o->copy_byte_out > 0 ? (o->copy + o->copy_out) / 2 : o->copy;
        out->copy_byte_ns = o->copy_byte_out > 0
                                ? (o->copy_byte + o->copy_byte_out) / 2
                                : o->copy_byte;
        out->copy_row_ns = o->copy_row;
        out->submit_ns = o->submit;
        out->submit_idle_ns = o->submit_idle;
        out->dispatch_ns = o->dispatch;
        out->wait_ns = block ? o->wait_block : o->wait_poll;
    }
}

/* ------------------------------------------------------------------------ */
/* Lanes                                                                     */

/* A device may be sent the weights that it cannot hold. */
static bool may_stream(const planner_maker *m, uint32_t device)
{
    const core_plan_device *d = &m->plan->devices[device];
    uint32_t type;
    return m->strategy == PLANNER_STRATEGY_TENSOR &&
           core_device_has_local(d->dev, &type) &&
           m->n_devices < PLANNER_SOLVE_DEVICES &&
           planner_is_scarce(m->graph, d);
}

/* Of a matrix that is worth it: not the rows of a table, nor vectors. */
static bool has_matrix(const planner_maker *m, uint32_t node)
{
    uint32_t operand;
    const clv_value weight = planner_maker_weight(m, node, &operand);
    return weight != CLV_NO_TENSOR && m->graph->tensors[weight].rank > 1 &&
           m->graph->nodes[node].op != CLV_OP_GET_ROWS;
}

void planner_stream_weights(clv_graph *graph)
{
    for (clv_value v = 0; v < graph->n_tensors; v++) {
        if (graph->tensors[v].usage != CLV_USAGE_WEIGHT)
            continue;
        graph->tensors[v].usage = CLV_USAGE_TRANSIENT;
        core_desc_set_dense(&graph->tensors[v]);
    }
}

/* What a device answers for nodes whose weights it is sent. */
static clv_status ask_streamed(const planner_maker *m, uint32_t device,
                               clv_op_caps *out)
{
    const uint32_t n = m->graph->n_nodes;
    core_piece *pieces = calloc(n, sizeof *pieces);
    core_cut cut = {0};
    for (uint32_t i = 0; pieces && i < n; i++)
        pieces[i].node = i;
    clv_status status = pieces ? core_cut_try(m->graph, pieces, n, &cut)
                               : core_no_memory("for a plan");
    if (!status) {
        planner_stream_weights(cut.graph);
        const clv_subgraph view = core_graph_view(cut.graph);
        status = core_device_caps(planner_maker_device(m, device), &view, out);
    }
    for (uint32_t i = 0; i < n && !status; i++)
        if (!has_matrix(m, i))
            out[i].answer = CLV_ANSWER_NO;
    core_cut_finish(&cut);
    free(pieces);
    return status;
}

/* The plan's devices, then those again that weights may be streamed to. */
static clv_status add_lanes(planner_maker *m, const clv_op_caps *caps)
{
    const size_t n = m->graph->n_nodes;
    for (uint32_t d = 0; d < m->plan->n_devices; d++)
        m->owners[d] = d;
    for (uint32_t d = 0; d < m->plan->n_devices; d++)
        if (may_stream(m, d))
            m->owners[m->n_devices++] = d;
    m->devices = calloc(m->n_devices + 1u, sizeof *m->devices);
    m->caps = calloc(m->n_devices * n + 1, sizeof *m->caps);
    if (!m->devices || !m->caps)
        return core_no_memory("for a plan");
    memcpy(m->caps, caps, m->plan->n_devices * n * sizeof *caps);
    for (uint32_t d = m->plan->n_devices; d < m->n_devices; d++)
        CLV_TRY(ask_streamed(m, d, m->caps + d * n));
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Whole nodes                                                               */

static clv_status add_whole(planner_maker *m, uint32_t class)
{
    uint32_t node = m->classes.classes[class].first, takers = 0, last = 0;
    clv_status status = CLV_OK;
    for (uint32_t d = 0; d < m->n_devices && !status; d++) {
        char reason[PLANNER_REASON_SIZE];
        if (!m->usable[d] ||
            !planner_accepts(m->graph, &m->graph->nodes[node],
                             planner_maker_device(m, d),
                             planner_maker_caps(m, class, d), reason))
            continue;
        m->takes[class * m->n_devices + d] = true;
        takers++;
        last = d;
        planner_candidate candidate = {
            .cuts = {{.node = node, .device = d}},
            .n = 1,
        };
        status = planner_candidate_add(m, class, &candidate);
    }
    if (status || m->sets[class].n || takers != 1)
        return status;
    /* Where there is no choice, no cost is needed. */
    planner_candidate *only = calloc(1, sizeof *only);
    if (!only)
        return core_no_memory("for a plan");
    *only = (planner_candidate){
        .cuts = {{.node = node,
                  .device = last,
                  .variant = m->ways[class * m->n_devices + last].ids[0]}},
        .n = 1,
    };
    m->sets[class].list = only;
    m->sets[class].n = m->sets[class].capacity = 1;
    return CLV_OK;
}

/* Every node has a way to run; else why not. */
static clv_status check_class(const planner_maker *m, uint32_t class)
{
    char text[96];
    uint32_t node = m->classes.classes[class].first;
    if (m->sets[class].n)
        return CLV_OK;
    bool taken = false;
    for (uint32_t d = 0; d < m->n_devices; d++)
        taken |= m->takes[class * m->n_devices + d];
    core_plan_node_text(m->plan, node, text, sizeof text);
    return taken ? clv_error(CLV_ERR_NOT_FOUND,
                             "nothing is known of the speed "
                             "of node %u, %s, on any device; measure them with "
                             "cleave profile",
                             node, text)
                 : clv_error(CLV_ERR_UNSUPPORTED,
                             "no device takes node %u, "
                             "%s; add a device that does",
                             node, text);
}

/* ------------------------------------------------------------------------ */
/* The problem                                                               */

static clv_status take_arrays(const planner_maker *m, planner_candidates *out)
{
    uint32_t n_options = 0, n_pieces = 0;
    for (uint32_t k = 0; k < m->classes.n_classes; k++) {
        n_options += m->sets[k].n;
        for (uint32_t i = 0; i < m->sets[k].n; i++)
            n_pieces += 2 * m->sets[k].list[i].n + m->sets[k].list[i].n_joins;
    }
    out->nodes = calloc(m->graph->n_nodes + 1u, sizeof *out->nodes);
    out->options = calloc(n_options + 1u, sizeof *out->options);
    out->pieces = calloc(n_pieces + 1u, sizeof *out->pieces);
    out->cuts = calloc(n_pieces + 1u, sizeof *out->cuts);
    out->known = calloc(m->graph->n_nodes + 1u, sizeof *out->known);
    return out->nodes && out->options && out->pieces && out->cuts && out->known
               ? CLV_OK
               : core_no_memory("for a plan");
}

/* The copy of a streamed weight, on the queue that copies for the device. */
static void add_copy(const planner_maker *m, const planner_candidate *candidate,
                     uint32_t piece, planner_candidates *out, uint32_t at)
{
    const uint32_t device = candidate->cuts[piece].device;
    const uint32_t owner = m->owners[device];
    const bool beside = planner_maker_device(m, device)->info.copy_queues;
    out->cuts[at] = (core_piece){.node = CORE_NO_PIECE, .device = owner};
    out->pieces[at] = (planner_solve_piece){
        .device = beside ? device : owner,
        .ns = candidate->copy_ns[piece],
        .ring_bytes = beside ? candidate->copy_bytes[piece] : 0};
}

static void add_pieces(const planner_maker *m,
                       const planner_candidate *candidate,
                       planner_candidates *out)
{
    const planner_node_reads *reads = &m->reads[candidate->cuts[0].node];
    uint32_t n = out->problem.n_pieces;
    for (uint32_t i = 0; i < candidate->n; i++, n++) {
        const core_piece *cut = &candidate->cuts[i];
        const bool streams = planner_maker_streams(m, cut->device);
        if (streams)
            add_copy(m, candidate, i, out, n++);
        out->cuts[n] = *cut;
        out->cuts[n].device = m->owners[cut->device];
        out->cuts[n].streamed = streams;
        planner_solve_piece *p = &out->pieces[n];
        *p = (planner_solve_piece){.device = m->owners[cut->device],
                                   .ns = candidate->ns[i],
                                   .energy_nj = candidate->energy_nj[i],
                                   .weight_bytes = candidate->weight_bytes[i],
                                   .after = streams,
                                   .add_ns = candidate->add_ns[i],
                                   .out = planner_piece_out(m->graph, cut)};
        p->partial = planner_piece_partial(m, cut);
        for (uint32_t d = 0; d < reads->n_deps; d++)
            p->needs[d] = planner_piece_needs(m->graph, cut, reads, d);
    }
    for (uint32_t i = 0; i < candidate->n_joins; i++, n++) {
        const core_piece *first = &candidate->cuts[candidate->joins[i]];
        out->cuts[n] = (core_piece){.node = CORE_NO_PIECE,
                                    .device = m->owners[first->device]};
        out->pieces[n] =
            (planner_solve_piece){.device = m->owners[first->device],
                                  .joins = true,
                                  .ns = candidate->join_ns[i],
                                  .energy_nj = candidate->join_nj[i],
                                  .out = planner_piece_out(m->graph, first)};
    }
    out->problem.n_pieces = n;
}

/* Bytes of a value by elements of a node's result. */
static double bytes_each(const planner_maker *m, clv_value value,
                         const planner_box *result)
{
    uint64_t bytes;
    if (core_desc_size(&m->graph->tensors[value], NULL, &bytes))
        return 0; /* said by planner_memory() */
    return (double)bytes / ((double)(result->end[0] - result->begin[0]) *
                            (double)(result->end[1] - result->begin[1]));
}

/* What is copied if the node and those that it reads of are in different
 * memories. A state whose rows are set is copied whole. */
static void note_sizes(const planner_maker *m, uint32_t index,
                       planner_solve_node *node)
{
    const clv_node *n = &m->graph->nodes[index];
    const planner_node_reads *reads = &m->reads[index];
    planner_box result = planner_node_result(m->graph, index);
    if (!m->several)
        return;
    node->columns = result.end[1];
    if (n->n_outputs) {
        node->element_bytes = bytes_each(m, n->outputs[0], &result);
        node->wanted =
            m->graph->tensors[n->outputs[0]].usage == CLV_USAGE_OUTPUT;
    }
    for (uint32_t k = 0; k < reads->n_deps; k++) {
        result = planner_node_result(m->graph, reads->deps[k]);
        if (reads->operand[k] == PLANNER_NO_DEP)
            continue;
        const clv_value read = n->inputs[reads->operand[k]];
        const clv_tensor_desc *desc = &m->graph->tensors[read];
        node->read_bytes[k] = bytes_each(m, read, &result);
        node->read_rows[k] =
            desc->rank > 1 ? (double)desc->dims[0] / (double)result.end[0] : 1;
    }
}

static void add_node(const planner_maker *m, uint32_t index, uint32_t *first,
                     planner_candidates *out)
{
    planner_solve_problem *problem = &out->problem;
    const planner_node_reads *reads = &m->reads[index];
    planner_solve_node *node = &out->nodes[index];
    uint32_t class = m->classes.of[index];
    const planner_candidate_set *set = &m->sets[class];
    node->class = class;
    node->n_deps = reads->n_deps;
    memcpy(node->deps, reads->deps, sizeof node->deps);
    note_sizes(m, index, node);
    if (m->classes.classes[class].first == index) {
        first[class] = problem->n_options;
        for (uint32_t i = 0; i < set->n; i++) {
            planner_solve_option *o = &out->options[problem->n_options++];
            o->first_piece = problem->n_pieces;
            add_pieces(m, &set->list[i], out);
            o->n_pieces = problem->n_pieces - o->first_piece;
        }
    }
    node->first_option = first[class];
    node->n_options = set->n;
}

/* As large as for the largest weight that may pass through it. */
static void size_rings(const planner_maker *m, const planner_candidates *c)
{
    for (uint32_t d = m->plan->n_devices; d < m->n_devices; d++) {
        uint64_t largest = 0;
        for (uint32_t i = 0; i < c->problem.n_pieces; i++)
            if (c->pieces[i].device == d && c->pieces[i].ring_bytes > largest)
                largest = c->pieces[i].ring_bytes;
        if (largest)
            c->devices[d].ring =
                planner_ring_bytes(&m->plan->devices[m->owners[d]], largest);
    }
}

static clv_status write_problem(planner_maker *m, planner_candidates *out)
{
    uint32_t *first = calloc(m->classes.n_classes + 1u, sizeof *first);
    clv_status status =
        first ? take_arrays(m, out) : core_no_memory("for a plan");
    if (!status) {
        for (uint32_t i = 0; i < m->graph->n_nodes; i++)
            add_node(m, i, first, out);
        out->devices = m->devices;
        m->devices = NULL;
        size_rings(m, out);
        if (m->near && planner_near_options(m, out->nodes, out->known))
            out->problem.known = out->known;
        out->problem.devices = out->devices;
        out->problem.nodes = out->nodes;
        out->problem.options = out->options;
        out->problem.pieces = out->pieces;
        out->problem.n_devices = m->n_devices;
        out->problem.n_nodes = m->graph->n_nodes;
    }
    free(first);
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status add_divided(planner_maker *m)
{
    if (m->n_devices > 1) {
        CLV_TRY(planner_add_points(m));
        CLV_TRY(planner_add_replicas(m));
    }
    return planner_add_sequences(m);
}

static clv_status make_sets(planner_maker *m)
{
    uint32_t n = m->classes.n_classes;
    m->takes = calloc((size_t)n * m->n_devices + 1, sizeof *m->takes);
    m->ways = calloc((size_t)n * m->n_devices + 1, sizeof *m->ways);
    m->sets = calloc(n + 1u, sizeof *m->sets);
    m->tables = calloc(PLANNER_SHARE_DEVICES * (PLANNER_MAX_STEPS + 1),
                       sizeof *m->tables);
    clv_status status = m->takes && m->ways && m->sets && m->tables
                            ? CLV_OK
                            : core_no_memory("for a plan");
    for (uint32_t i = 0; i < n * m->n_devices && !status; i++)
        m->ways[i] = planner_ways_of(
            m->plan->ctx,
            planner_maker_caps(m, i / m->n_devices, i % m->n_devices));
    for (uint32_t k = 0; k < n && !status; k++)
        status = add_whole(m, k);
    if (!status && m->strategy == PLANNER_STRATEGY_TENSOR)
        status = add_divided(m);
    if (!status && m->near)
        status = planner_add_near(m);
    if (!status)
        status = planner_candidates_choose(m);
    for (uint32_t k = 0; k < n && !status; k++)
        status = check_class(m, k);
    return status;
}

static void finish_maker(planner_maker *m)
{
    for (uint32_t k = 0; m->sets && k < m->classes.n_classes; k++)
        free(m->sets[k].list);
    free(m->sets);
    free(m->takes);
    free(m->ways);
    free(m->tables);
    free(m->devices);
    free(m->caps);
    free(m->reads);
    planner_classes_finish(&m->classes);
}

clv_status planner_candidates_make(const clv_plan *plan,
                                   const clv_op_caps *caps,
                                   const planner_costs *costs,
                                   planner_strategy strategy, uint32_t halvings,
                                   const planner_near *near,
                                   planner_candidates *out)
{
    planner_maker m = {.plan = plan,
                       .graph = plan->source,
                       .costs = costs,
                       .strategy = strategy,
                       .halvings = halvings,
                       .near = near,
                       .n_devices = plan->n_devices,
                       .align = 1};
    *out = (planner_candidates){0};
    if (m.n_devices > PLANNER_SOLVE_DEVICES)
        return clv_error(CLV_ERR_LIMIT,
                         "plans by costs are for %d devices at "
                         "most, not %u; name fewer in core.devices, or set "
                         "core.plan = first",
                         PLANNER_SOLVE_DEVICES, m.n_devices);
    for (size_t i = 0; i < (size_t)m.n_devices * m.graph->n_nodes; i++)
        if (caps[i].pointer_align > m.align)
            m.align = caps[i].pointer_align;
    clv_status status = add_lanes(&m, caps);
    if (!status) {
        describe_devices(&m);
        status = planner_reads_find(m.graph, &m.reads);
    }
    if (!status)
        status = planner_classes_find(plan, caps, m.reads, m.align, &m.classes);
    if (!status)
        status = make_sets(&m);
    if (!status)
        status = write_problem(&m, out);
    finish_maker(&m);
    if (status)
        planner_candidates_finish(out);
    return status;
}

void planner_candidates_finish(planner_candidates *candidates)
{
    free(candidates->devices);
    free(candidates->nodes);
    free(candidates->options);
    free(candidates->pieces);
    free(candidates->cuts);
    free(candidates->known);
    *candidates = (planner_candidates){0};
}
