#include "pieces.h"
#include "slices.h"
#include "../base/error.h"

static const char *const axis_names[] = {"rows", "sequence", "channels",
                                         "heads", "experts"};

const char *core_axis_name(uint32_t axis)
{
    return axis < CORE_AXIS_COUNT ? axis_names[axis] : "unknown axis";
}

/* ------------------------------------------------------------------------ */
/* Axes                                                                      */

clv_value core_piece_value(const clv_node *node, uint32_t index)
{
    if (index < node->n_inputs)
        return node->inputs[index];
    return index == node->n_inputs && node->n_outputs ? node->outputs[0]
                                                      : CLV_NO_TENSOR;
}

int64_t core_cut_unit(const clv_node *node, uint32_t axis)
{
    return axis == CORE_AXIS_HEADS
               ? clv_op_attr_of(node->op, &node->attr, CLV_ATTR_HEAD_DIM)
               : 1;
}

int64_t core_cut_group(const clv_graph *graph, const clv_node *node)
{
    for (uint32_t i = 1; i < node->n_inputs; i++)
        if (clv_op_operand(node, i).groups)
            return graph->tensors[node->inputs[0]].dims[1] /
                   graph->tensors[node->inputs[i]].dims[1];
    return 1;
}

static bool is_fixed(const clv_graph *graph, const clv_tensor_desc *desc)
{
    if (!desc->symbols[0])
        return true;
    const clv_symbol_range *range = &graph->symbols[desc->symbols[0] - 1];
    return range->min == range->max;
}

int64_t core_cut_extent(const clv_graph *graph, uint32_t index, uint32_t axis)
{
    const clv_node *node = &graph->nodes[index];
    core_experts experts;
    if (axis == CORE_AXIS_EXPERTS)
        return core_cut_experts(graph, index, &experts) ? experts.n : 0;
    for (uint32_t i = 0; i <= node->n_inputs; i++) {
        clv_value value = core_piece_value(node, i);
        clv_operand rule = clv_op_operand(node, i);
        if (value == CLV_NO_TENSOR || rule.groups)
            continue;
        const clv_tensor_desc *desc = &graph->tensors[value];
        if (desc->rank > 1 && rule.first == axis)
            return is_fixed(graph, desc) ? desc->dims[0] : 0;
        if (rule.last == axis && (desc->rank > 1 || is_fixed(graph, desc)))
            return desc->dims[desc->rank - 1] / core_cut_unit(node, axis);
        if (rule.last == axis)
            return 0;
    }
    return 0;
}

int64_t core_cut_granule(const clv_graph *graph, uint32_t index, uint32_t axis)
{
    const clv_node *node = &graph->nodes[index];
    int64_t granule = axis == CORE_AXIS_HEADS ? core_cut_group(graph, node) : 1;
    for (uint32_t i = 0; i <= node->n_inputs; i++) {
        clv_value value = core_piece_value(node, i);
        uint32_t elements, bytes;
        if (value == CLV_NO_TENSOR || clv_op_operand(node, i).last != axis ||
            axis == CORE_AXIS_HEADS)
            continue;
        const clv_tensor_desc *desc = &graph->tensors[value];
        if (clv_dtype_block(desc->dtype, &elements, &bytes) &&
            elements > granule)
            granule = elements;
        if (desc->quant == CLV_QUANT_PER_GROUP && desc->quant_group > granule)
            granule = desc->quant_group;
    }
    return granule;
}

bool core_piece_is_whole(const core_piece *piece)
{
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
        if (piece->ranges[a].end)
            return false;
    return true;
}

bool core_cut_may_replicate(const clv_graph *graph, uint32_t index)
{
    const clv_node *node = &graph->nodes[index];
    return node->n_outputs == 1 &&
           graph->tensors[node->outputs[0]].usage != CLV_USAGE_STATE;
}

bool core_piece_is_cut(const clv_graph *graph, const core_piece *full,
                       uint32_t axis)
{
    const core_range *r = &full->ranges[axis];
    int64_t extent = core_cut_extent(graph, full->node, axis);
    return extent && r->end - r->begin != extent;
}

/* Whether a piece is the whole node; its ranges are in full. */
bool core_piece_is_all(const clv_graph *graph, const core_piece *full)
{
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
        if (core_piece_is_cut(graph, full, a))
            return false;
    return true;
}

/* Whether a piece gives a partial sum. Slices are not added by themselves. */
bool core_piece_is_partial(const clv_graph *graph, const core_piece *full)
{
    const uint32_t output = graph->nodes[full->node].n_inputs;
    return core_piece_is_cut(graph, full, CORE_AXIS_CHANNELS) ||
           (core_piece_is_cut(graph, full, CORE_AXIS_EXPERTS) &&
            !core_cut_has_parts(graph, full->node, output));
}

/* ------------------------------------------------------------------------ */
/* Checking the pieces of a node                                             */

static clv_status bad(const clv_graph *graph, uint32_t node, const char *why)
{
    return clv_error(CLV_ERR_INVALID, "the pieces of node %u (%s) %s", node,
                     core_op_name(graph->nodes[node].op), why);
}

/* Ranges in full: an axis the node lacks, or that is not cut, is 0..extent. */
clv_status core_piece_resolve(const clv_graph *graph, const core_piece *piece,
                              core_piece *full)
{
    *full = *piece;
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
        int64_t extent = core_cut_extent(graph, piece->node, a);
        int64_t granule = core_cut_granule(graph, piece->node, a);
        core_range *r = &full->ranges[a];
        if (!r->end && !r->begin) {
            r->end = extent ? extent : 1;
            continue;
        }
        if (!extent || r->begin < 0 || r->end <= r->begin || r->end > extent ||
            r->begin % granule || (r->end % granule && r->end != extent))
            return clv_error(
                CLV_ERR_INVALID,
                "node %u (%s): %lld..%lld is no range of its %s, "
                "of %lld in steps of %lld",
                piece->node, core_op_name(graph->nodes[piece->node].op),
                (long long)r->begin, (long long)r->end, axis_names[a],
                (long long)extent, (long long)granule);
    }
    return CLV_OK;
}

static bool overlap(core_range a, core_range b)
{
    return a.begin < b.end && b.begin < a.end;
}

static bool same(core_range a, core_range b)
{
    return a.begin == b.begin && a.end == b.end;
}

bool core_piece_same_output(const core_piece *a, const core_piece *b)
{
    return same(a->ranges[CORE_AXIS_ROWS], b->ranges[CORE_AXIS_ROWS]) &&
           same(a->ranges[CORE_AXIS_SEQUENCE], b->ranges[CORE_AXIS_SEQUENCE]) &&
           same(a->ranges[CORE_AXIS_HEADS], b->ranges[CORE_AXIS_HEADS]);
}

/* full: n resolved pieces of one node, of which all have to be one output:
 * they are replicas, or partial sums that several devices add. */
static clv_status check_replicas(const clv_graph *graph, const core_piece *full,
                                 uint32_t n)
{
    const uint32_t node = full->node;
    if (!core_cut_may_replicate(graph, node))
        return bad(graph, node, "write a state more than once");
    for (uint32_t i = 0; i < n; i++) {
        const bool makes =
            !i || full[i].adds || core_piece_is_all(graph, &full[i]);
        if (core_piece_is_cut(graph, &full[i], CORE_AXIS_ROWS) ||
            core_piece_is_cut(graph, &full[i], CORE_AXIS_SEQUENCE) ||
            core_piece_is_cut(graph, &full[i], CORE_AXIS_HEADS))
            return bad(graph, node, "replicate a part of the result");
        for (uint32_t j = 0; j < i && makes; j++)
            if (full[j].device == full[i].device)
                return bad(graph, node, "give a device two replicas");
    }
    return CLV_OK;
}

/* full: n resolved pieces of one node. They fill the node exactly if none
 * overlap and their volumes add up, or if each is the whole node. */
static clv_status check_pieces(const clv_graph *graph, const core_piece *full,
                               uint32_t n)
{
    bool replicas = n > 1, add = false;
    for (uint32_t i = 0; i < n; i++) {
        if (full[i].adds && !core_piece_is_partial(graph, &full[i]))
            return bad(graph, full->node, "add what is no partial sum");
        replicas &= core_piece_is_all(graph, &full[i]);
        add |= full[i].adds != 0;
    }
    if (replicas || add)
        CLV_TRY(check_replicas(graph, full, n));
    if (replicas)
        return CLV_OK;
    double volume = 0, whole = 1;
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
        int64_t extent = core_cut_extent(graph, full->node, a);
        whole *= (double)(extent ? extent : 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        double v = 1;
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            v *= (double)(full[i].ranges[a].end - full[i].ranges[a].begin);
        volume += v;
        for (uint32_t j = 0; j < i; j++) {
            const core_range *p = full[i].ranges, *q = full[j].ranges;
            bool outputs =
                overlap(p[CORE_AXIS_ROWS], q[CORE_AXIS_ROWS]) &&
                overlap(p[CORE_AXIS_SEQUENCE], q[CORE_AXIS_SEQUENCE]) &&
                overlap(p[CORE_AXIS_HEADS], q[CORE_AXIS_HEADS]);
            if (outputs &&
                overlap(p[CORE_AXIS_CHANNELS], q[CORE_AXIS_CHANNELS]) &&
                overlap(p[CORE_AXIS_EXPERTS], q[CORE_AXIS_EXPERTS]))
                return bad(graph, full->node, "overlap");
            if (outputs && !core_piece_same_output(&full[i], &full[j]))
                return bad(graph, full->node,
                           "have partial sums of different outputs");
        }
    }
    return volume == whole ? CLV_OK : bad(graph, full->node, "leave a gap");
}

/* The range of a dimension that a piece touches. */
static core_range range_of(const clv_graph *graph, const clv_node *node,
                           const core_piece *full, uint32_t axis, bool groups)
{
    if (axis == CLV_CUT_NONE || !core_cut_extent(graph, full->node, axis))
        return (core_range){0, 0};
    core_range r = full->ranges[axis];
    int64_t unit = core_cut_unit(node, axis);
    int64_t group = groups ? core_cut_group(graph, node) : 1;
    return (core_range){r.begin / group * unit, r.end / group * unit};
}

void core_cut_box(const clv_graph *graph, const core_piece *full,
                  uint32_t index, core_range out[2])
{
    const clv_node *node = &graph->nodes[full->node];
    const clv_operand rule = clv_op_operand(node, index);
    const clv_tensor_desc *desc =
        &graph->tensors[core_piece_value(node, index)];
    out[0] = range_of(graph, node, full, rule.first, false);
    out[1] = range_of(graph, node, full, rule.last, rule.groups);
    if (!out[0].end)
        out[0].end = desc->dims[0];
    if (!out[1].end)
        out[1].end = desc->dims[desc->rank - 1];
}

/* All ranges in full; that those of each node are exactly the node. */
clv_status core_pieces_resolve(const clv_graph *graph, const core_piece *pieces,
                               uint32_t n, core_piece *full)
{
    uint32_t at = 0;
    for (uint32_t node = 0; node < graph->n_nodes; node++) {
        const uint32_t first = at;
        for (; at < n && pieces[at].node == node; at++)
            CLV_TRY(core_piece_resolve(graph, &pieces[at], &full[at]));
        if (at == first)
            return bad(graph, node, "are missing");
        CLV_TRY(check_pieces(graph, &full[first], at - first));
    }
    return at == n ? CLV_OK
                   : clv_error(CLV_ERR_INVALID,
                               "a piece of node %u, which the graph does not "
                               "have or which is out of order",
                               pieces[at].node);
}
