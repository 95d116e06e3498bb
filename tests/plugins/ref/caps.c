#include "ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rough times of the loops, in nanoseconds. */

uint32_t ref_activation(uint32_t op)
{
    return op == CLV_OP_GET_ROWS || op == CLV_OP_SET_ROWS ? 1 : 0;
}

static const clv_tensor_desc *input(const clv_subgraph *g, const clv_node *node,
                                    uint32_t i)
{
    return i < node->n_inputs && node->inputs[i] != CLV_NO_TENSOR
               ? &g->tensors[node->inputs[i]]
               : NULL;
}

/* A vector is one row, unless its elements are the rows' own. */
static clv_symbol_range sequence_of(const clv_subgraph *g, const clv_node *node)
{
    const clv_tensor_desc *t = input(g, node, ref_activation(node->op));
    if (t->rank == 1 && node->op != CLV_OP_GET_ROWS)
        return (clv_symbol_range){1, 1};
    if (t->symbols[0])
        return g->symbols[t->symbols[0] - 1];
    return (clv_symbol_range){t->dims[0], t->dims[0]};
}

/* Every length in the range must do: where only multiples are taken, a range
 * of several does not. */
static bool fits(const clv_axis_limit *limit, clv_symbol_range range,
                 const char *axis, char *reason, size_t size)
{
    bool varies = range.min != range.max;
    if ((!limit->max || range.max <= limit->max) && range.min >= limit->min &&
        (limit->multiple <= 1 || (!varies && range.min % limit->multiple == 0)))
        return true;
    snprintf(reason, size,
             "%s of %" PRId64 " to %" PRId64 ", the limits are %" PRId64
             " to %" PRId64 " in steps of %" PRId64,
             axis, range.min, range.max, limit->min, limit->max,
             limit->multiple);
    return false;
}

static bool within_limits(const ref_settings *s, const clv_subgraph *g,
                          const clv_node *node, clv_op_caps *caps)
{
    char *reason = caps->reason;
    caps->sequence = s->sequence;
    if (!fits(&s->sequence, sequence_of(g, node), "sequence", reason,
              sizeof caps->reason))
        return false;
    if (node->op != CLV_OP_MATMUL)
        return true;
    const clv_tensor_desc *w = input(g, node, 1);
    caps->rows = s->rows;
    caps->channels = s->channels;
    return fits(&s->rows, (clv_symbol_range){w->dims[0], w->dims[0]}, "rows",
                reason, sizeof caps->reason) &&
           fits(&s->channels, (clv_symbol_range){w->dims[1], w->dims[1]},
                "channels", reason, sizeof caps->reason);
}

static bool strides_fit(const ref_settings *s, const clv_subgraph *g,
                        const clv_node *node)
{
    uint32_t n = node->n_inputs + node->n_outputs;
    for (uint32_t i = 0; s->stride_align > 1 && i < n; i++) {
        uint32_t t = i < node->n_inputs ? node->inputs[i]
                                        : node->outputs[i - node->n_inputs];
        ref_view view;
        if (t == CLV_NO_TENSOR || !ref_view_make(&g->tensors[t], NULL, &view))
            continue;
        for (uint32_t d = 0; d + 1 < view.rank; d++)
            if (view.strides[d] % s->stride_align)
                return false;
    }
    return true;
}

/* Which inputs the output may lie on: elementwise ops look at an element once,
 * so any of the output's size. */
static uint32_t aliases(const clv_subgraph *g, const clv_node *node)
{
    uint32_t bits = 0;
    if (!clv_op_is_elementwise(node->op))
        return 0;
    const clv_tensor_desc *out = &g->tensors[node->outputs[0]];
    if (out->layout != CLV_LAYOUT_LINEAR)
        return 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const clv_tensor_desc *t = input(g, node, i);
        if (t && t->rank == out->rank && t->dtype == out->dtype &&
            !memcmp(t->dims, out->dims, sizeof t->dims) &&
            !memcmp(t->strides, out->strides, sizeof t->strides))
            bits |= 1u << i;
    }
    return bits;
}

/* States the preferred layout of states that ATTENTION reads or SET_ROWS
 * writes. False: it does not take them in the layout that they have. */
static bool prefer_states(const ref_settings *s, const clv_subgraph *g,
                          const clv_node *node, clv_op_caps *caps)
{
    const bool reads = node->op == CLV_OP_ATTENTION;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const clv_tensor_desc *t = input(g, node, i);
        if (!t || t->usage != CLV_USAGE_STATE ||
            !(reads || node->op == CLV_OP_SET_ROWS))
            continue;
        if (reads && t->layout && s->states.fickle) {
            snprintf(caps->reason, sizeof caps->reason, "not in that layout");
            return false;
        }
        if (s->states.prefers && clv_dtype_in(t->dtype, CLV_DTYPES_FLOAT))
            caps->layouts[i] = CLV_LAYOUT_WEIGHTS;
    }
    return true;
}

static int64_t rows_of(const clv_tensor_desc *t)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        rows *= t->dims[i];
    return rows;
}

/* The same of weights that products read; and CONVERT writes. */
static bool prefer_weights(const ref_settings *s, const clv_subgraph *g,
                           const clv_node *node, clv_op_caps *caps)
{
    const bool product =
        node->op == CLV_OP_MATMUL || node->op == CLV_OP_MATMUL_EXPERTS;
    const clv_tensor_desc *y =
        node->n_outputs ? &g->tensors[node->outputs[0]] : NULL;
    bool takes = !y || !y->layout || s->weights.prefers;
    bool whole = !y || !y->layout || rows_of(y) % REF_PRIVATE_ROWS == 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const clv_tensor_desc *t = input(g, node, i);
        if (!t || t->usage != CLV_USAGE_WEIGHT)
            continue;
        const bool fits = product && i == 1 && s->weights.prefers && !t->quant;
        const bool blocks = rows_of(t) % REF_PRIVATE_ROWS == 0;
        if (t->layout) {
            takes &= fits && !s->weights.fickle;
            whole &= blocks;
        }
        if (fits && blocks) {
            caps->layouts[i] = CLV_LAYOUT_PRIVATE;
            caps->private_rows = REF_PRIVATE_ROWS;
        }
    }
    if (!takes || !whole)
        snprintf(caps->reason, sizeof caps->reason,
                 takes ? "rows of weights are no multiple of %d"
                       : "not in that layout",
                 REF_PRIVATE_ROWS);
    return takes && whole;
}

/* Lists the variants; false: the node asks for another one. */
static bool list_variants(const ref_settings *s, const clv_node *node,
                          clv_op_caps *caps)
{
    static const clv_variant variants[] = {
        {REF_VARIANT_BACKWARD, CLV_ERROR_F32, "backward"},
        {REF_VARIANT_HALVES, CLV_ERROR_F16, "halves"}};
    if (s->variants && node->op == CLV_OP_MATMUL) {
        memcpy(caps->variants, variants, sizeof variants);
        caps->n_variants = 2;
    }
    bool found = !node->variant;
    for (uint32_t i = 0; i < caps->n_variants; i++)
        if (variants[i].id == node->variant) {
            caps->error_class = variants[i].error_class;
            found = true;
        }
    if (!found)
        snprintf(caps->reason, sizeof caps->reason,
                 "variant %" PRIu32 " is not there", node->variant);
    return found;
}

void ref_answer(const clv_plugin_device *dev, const clv_subgraph *g,
                uint32_t index, clv_op_caps *out)
{
    const ref_settings *s = dev->settings;
    const clv_node *node = &g->nodes[index];
    clv_checked_node n;
    memset(out, 0, sizeof *out);
    if (node->op >= CLV_OP_COUNT || !s->takes[node->op]) {
        snprintf(out->reason, sizeof out->reason,
                 "op %" PRIu32 " is not among ops%" PRIu32, node->op,
                 dev->index);
        return;
    }
    const bool right = ref_check_node(g, index, &n);
    memcpy(out->reason, n.reason, sizeof n.reason);
    if (!right || !within_limits(s, g, node, out))
        return;
    out->stride_align = s->stride_align;
    out->pointer_align = s->pointer_align;
    if (!strides_fit(s, g, node)) {
        snprintf(out->reason, sizeof out->reason,
                 "rows must be %" PRIu32 " bytes apart, or a multiple",
                 s->stride_align);
        return;
    }
    if (!prefer_states(s, g, node, out) || !prefer_weights(s, g, node, out))
        return;
    clv_node_caps(&n, out);
    if (!list_variants(s, node, out)) {
        out->answer = CLV_ANSWER_NO;
        return;
    }
    out->answer = s->n_static ? CLV_ANSWER_STATIC : CLV_ANSWER_YES;
    out->static_shapes = s->n_static ? s->statics : NULL;
    out->n_static = s->n_static;
    if (!s->split)
        out->split_axes = 0;
    else if (node->op == CLV_OP_CONVERT)
        out->split_axes = CLV_SPLIT_SEQUENCE;
    out->alias_inputs = s->in_place ? aliases(g, node) : 0;
}

clv_status ref_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride)
{
    clv_subgraph *g = NULL;
    CLV_TRY(ref_check_device(dev));
    CLV_TRY(clv_graph_copy(dev->host, graph, &g));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        clv_op_caps caps;
        ref_answer(dev, g, i, &caps);
        clv_write(clv_at(out, i, stride), &caps, sizeof caps);
    }
    clv_free(dev->host, g);
    return CLV_OK;
}
