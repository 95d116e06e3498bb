#include "caps.h"
#include "tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Which inputs the output may lie on: those of its size, whose rows are read
 * before it is written. */
static uint32_t aliases(const clv_subgraph *g, const clv_node *node)
{
    uint32_t bits = 0;
    if (!clv_op_is_elementwise(node->op))
        return 0;
    const clv_tensor_desc *out = &g->tensors[node->outputs[0]];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const clv_tensor_desc *t = npu_input(g, node, i);
        if (t && t->rank == out->rank && t->rank > 1 &&
            t->dtype == out->dtype &&
            !memcmp(t->dims, out->dims, sizeof t->dims) &&
            !memcmp(t->symbols, out->symbols, sizeof t->symbols) &&
            !memcmp(t->strides, out->strides, sizeof t->strides))
            bits |= 1u << i;
    }
    return bits;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* A cut at a tile's edge wastes nothing. */
static void state_splits(const npu_settings *s, const clv_node *node,
                         clv_op_caps *caps)
{
    const npu_array *tile = &s->arrays[NPU_I8];
    int64_t *granularity = caps->split_granularity;
    if (node->op == CLV_OP_CONVERT)
        caps->split_axes = CLV_SPLIT_SEQUENCE;
    if (node->op != CLV_OP_MATMUL || s->model != NPU_SYSTOLIC)
        return;
    granularity[CLV_CUT_ROWS] = tile->rows;
    granularity[CLV_CUT_SEQUENCE] = s->is_static ? 0 : tile->columns;
    granularity[CLV_CUT_CHANNELS] =
        common_multiple(tile->rows, granularity[CLV_CUT_CHANNELS]);
}

static const char *refusal(const npu_settings *s, const clv_subgraph *g,
                           const clv_node *node)
{
    const bool floats = s->arrays[NPU_F16].macs > 0;
    if (!s->all_ops && node->op != CLV_OP_MATMUL)
        return "it takes matmul only (ops = matmul)";
    if (node->op == CLV_OP_ATTENTION && s->model == NPU_SYSTOLIC && !floats)
        return "it has no FP16 array (fp16 = 0)";
    if (node->op == CLV_OP_MATMUL_EXPERTS && s->model == NPU_SYSTOLIC)
        return "products of experts are simulated by the roofline only";
    if (node->op == CLV_OP_MATMUL &&
        npu_matmul_path(s, npu_input(g, node, 1), npu_sequence(g, node).max) ==
            NPU_PATH_NONE)
        return "it has no FP16 array (fp16 = 0); give it integer weights";
    if (node->variant && (node->op != CLV_OP_MATMUL || !npu_has_wide(s) ||
                          node->variant != NPU_VARIANT_WIDE))
        return "it has no such variant of it";
    return NULL;
}

/* The same numbers in another order of work. */
static void state_variants(const npu_settings *s, const clv_node *node,
                           clv_op_caps *caps)
{
    const clv_variant wide = {NPU_VARIANT_WIDE, caps->error_class, "wide"};
    if (node->op == CLV_OP_MATMUL && npu_has_wide(s))
        caps->variants[caps->n_variants++] = wide;
}

/* Integers that x consists of are not rounded again. */
static uint32_t integer_class(const clv_node *node)
{
    return node->attr.matmul.input_scale > 0 ? CLV_ERROR_F32
                                             : CLV_ERROR_Q8_TENSOR;
}

static void state_precision(const npu_settings *s, const clv_subgraph *g,
                            const clv_node *node, clv_op_caps *caps)
{
    if (node->op == CLV_OP_ATTENTION && s->model == NPU_SYSTOLIC)
        caps->error_class = CLV_ERROR_UNSTATED; /* F16 below an exponential */
    if (node->op != CLV_OP_MATMUL)
        return;
    /* Where the length is not fixed, that of the least precise path. */
    switch (
        npu_matmul_path(s, npu_input(g, node, 1), npu_sequence(g, node).min)) {
    case NPU_PATH_F16:
        caps->error_class = s->half_sums ? CLV_ERROR_UNSTATED : CLV_ERROR_F16;
        if (s->half_sums)
            caps->accumulate = CLV_DTYPE_F16;
        break;
    case NPU_PATH_I8:
        caps->accumulate = CLV_DTYPE_I32;
        caps->error_class = integer_class(node);
        break;
    case NPU_PATH_I8_GROUPS:
        caps->error_class = integer_class(node);
        break;
    default:
        break;
    }
}

void npu_answer(const npu_settings *s, const clv_subgraph *g, uint32_t index,
                clv_op_caps *out)
{
    const clv_node *node = &g->nodes[index];
    clv_checked_node n;
    memset(out, 0, sizeof *out);
    const bool right = npu_check_node(g, index, &n);
    const char *why = right ? refusal(s, g, node) : NULL;
    if (why)
        clv_node_no(&n, "%s", why);
    memcpy(out->reason, n.reason, sizeof n.reason);
    if (!right || why)
        return;
    clv_node_caps(&n, out);
    out->answer = s->is_static ? CLV_ANSWER_STATIC : CLV_ANSWER_YES;
    out->static_shapes = s->is_static ? s->lengths : NULL;
    out->n_static = s->is_static ? s->n_lengths : 0;
    state_precision(s, g, node, out);
    state_splits(s, node, out);
    state_variants(s, node, out);
    out->alias_inputs = aliases(g, node);
}

clv_status npu_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride)
{
    clv_subgraph *g = NULL;
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_graph_copy(dev->base.host, graph, &g));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        clv_op_caps caps;
        npu_answer(dev->settings, g, i, &caps);
        clv_write(clv_at(out, i, stride), &caps, sizeof caps);
    }
    clv_free(dev->base.host, g);
    return CLV_OK;
}
