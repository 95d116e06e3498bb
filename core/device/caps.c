#include "caps.h"
#include "loss.h"
#include "subgraph.h"
#include "answer.h"

#include <string.h>

static clv_status prepare(clv_device *dev, const clv_subgraph *graph)
{
    CLV_TRY(core_device_usable(dev));
    clv_status st = core_subgraph_check(graph);
    return st == CLV_OK ? st : clv_error_prefix(st, "device '%s'", dev->id);
}

static bool limit_ok(const clv_axis_limit *limit)
{
    return limit->min >= 0 && limit->max >= 0 && limit->multiple >= 0 &&
           (!limit->max || limit->min <= limit->max);
}

static bool splits_ok(const clv_op_caps *caps)
{
    for (int i = 0; i < 4; i++)
        if (caps->split_granularity[i] < 0)
            return false;
    return true;
}

static bool name_ok(const clv_variant *variant)
{
    const char *c = variant->name;
    while ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
           (*c >= '0' && *c <= '9') || *c == '-' || *c == '_' || *c == '.')
        if (++c == variant->name + sizeof variant->name)
            return false;
    return !*c && c > variant->name;
}

/* What is wrong with the variants; NULL: nothing. */
static const char *check_variants(const clv_op_caps *caps)
{
    if (caps->n_variants > CLV_MAX_VARIANTS)
        return "more variants than CLV_MAX_VARIANTS";
    for (uint32_t i = 0; i < caps->n_variants; i++) {
        const clv_variant *v = &caps->variants[i];
        if (!v->id || !name_ok(v))
            return "a variant without an id or a proper name";
        if (v->error_class > CLV_ERROR_Q8_TENSOR)
            return "a variant of an unknown error class";
        for (uint32_t j = 0; j < i; j++)
            if (caps->variants[j].id == v->id ||
                !strcmp(caps->variants[j].name, v->name))
                return "two variants of one id or name";
    }
    return NULL;
}

const clv_variant *core_caps_variant(const clv_op_caps *caps, uint32_t id)
{
    for (uint32_t i = 0; i < caps->n_variants; i++)
        if (caps->variants[i].id == id)
            return &caps->variants[i];
    return NULL;
}

static int64_t rows_of(const clv_tensor_desc *t)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        rows *= t->dims[i];
    return rows;
}

/* What is wrong with the layout of the device's own that it prefers for weights
 * of the node; NULL: nothing. */
static const char *check_private(const clv_subgraph *graph, uint32_t index,
                                 const clv_op_caps *caps)
{
    const clv_node *node = core_subgraph_node(graph, index);
    const uint32_t block = caps->private_rows ? caps->private_rows : 1;
    if (block > CLV_MAX_PRIVATE_ROWS || !core_is_pow2(block))
        return "blocks of rows that are no power of two, or past "
               "CLV_MAX_PRIVATE_ROWS";
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (caps->layouts[i] == CLV_LAYOUT_PRIVATE &&
            node->inputs[i] != CLV_NO_TENSOR &&
            rows_of(core_subgraph_tensor(graph, node->inputs[i])) % block)
            return "blocks of rows that are not all of a weight's";
    return NULL;
}

static clv_status check_caps(const clv_device *dev, const clv_subgraph *graph,
                             clv_op_caps *caps, uint32_t node)
{
    const char *wrong = NULL;
    core_name_clean(caps->reason, sizeof caps->reason);
    if (!core_chain_ok(&caps->header))
        return core_device_extended(dev, "op_caps");
    if (caps->answer > CLV_ANSWER_STATIC)
        wrong = "an unknown answer";
    else if (caps->answer == CLV_ANSWER_NO)
        return CLV_OK;
    else if (caps->error_class > CLV_ERROR_Q8_TENSOR)
        wrong = "an unknown error class";
    else if (!limit_ok(&caps->rows) || !limit_ok(&caps->sequence) ||
             !limit_ok(&caps->channels))
        wrong = "an impossible range of an axis";
    else if (!splits_ok(caps))
        wrong = "a negative split granularity";
    else if ((caps->pointer_align && !core_is_pow2(caps->pointer_align)) ||
             (caps->stride_align && !core_is_pow2(caps->stride_align)))
        wrong = "an alignment that is no power of two";
    else if ((caps->answer == CLV_ANSWER_STATIC || caps->n_static) &&
             (!caps->n_static || !caps->static_shapes))
        wrong = "static shapes without a list of them";
    for (uint32_t i = 0; !wrong && i < caps->n_static; i++)
        if (caps->static_shapes[i] <= 0)
            wrong = "a static shape that is not positive";
    if (!wrong)
        wrong = check_variants(caps);
    if (!wrong)
        wrong = check_private(graph, node, caps);
    if (wrong)
        return core_device_broken(dev, "op_caps", "%s for node %u", wrong,
                                  node);
    return CLV_OK;
}

clv_status core_device_caps(clv_device *dev, const clv_subgraph *graph,
                            clv_op_caps *out)
{
    CLV_TRY(prepare(dev, graph));
    clv_op_caps init = CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        out[i] = init;
    clv_status st =
        CORE_CALL(dev, op_caps, dev->handle, graph, out, sizeof *out);
    for (uint32_t i = 0; i < graph->n_nodes && st == CLV_OK; i++) {
        st = check_caps(dev, graph, &out[i], i);
        out[i].header = init.header;
    }
    return st;
}
