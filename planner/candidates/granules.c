/* Where a team may cut: what its devices, the formats and alignment allow. */
#include "drafts.h"

#include "../../core/graph/cut.h"

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* 0 where it is out of all bounds. */
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t product;
    if (!a || !b ||
        __builtin_mul_overflow(a / common_divisor(a, b), b, &product))
        return 0;
    return product;
}

static const clv_axis_limit *limit_of(const clv_op_caps *caps, uint32_t axis)
{
    switch (axis) {
    case CORE_AXIS_ROWS:
        return &caps->rows;
    case CORE_AXIS_SEQUENCE:
        return &caps->sequence;
    case CORE_AXIS_CHANNELS:
        return &caps->channels;
    default:
        return NULL;
    }
}

/* Elements between which `bytes` an element come to a multiple of align. */
static int64_t aligned(double bytes, uint64_t align)
{
    int64_t n = 1;
    while (n < (int64_t)align * 2 && (uint64_t)(bytes * (double)n) % align)
        n *= 2;
    return n;
}

static double row_bytes(const clv_tensor_desc *desc)
{
    uint32_t elements, bytes;
    clv_dtype_block(desc->dtype, &elements, &bytes);
    return (double)desc->dims[desc->rank - 1] / elements * bytes;
}

/* A view begins at aligned addresses, in the operand and in its scales. */
static int64_t operand_step(const planner_maker *m, clv_value value,
                            clv_operand rule, uint32_t axis, int64_t unit)
{
    const clv_tensor_desc *desc = &m->graph->tensors[value];
    uint32_t elements, bytes;
    int64_t step = 1;
    clv_dtype_block(desc->dtype, &elements, &bytes);
    if (rule.last == axis) {
        step = elements * aligned(bytes, m->align);
        if (desc->quant == CLV_QUANT_PER_GROUP && desc->quant_group)
            step = common_multiple(step, desc->quant_group *
                                             aligned(sizeof(float), m->align));
        step /= common_divisor(step, unit);
    }
    if (desc->rank > 1 && rule.first == axis) {
        step = aligned(row_bytes(desc), m->align);
        if (desc->quant == CLV_QUANT_PER_CHANNEL)
            step = common_multiple(step, aligned(sizeof(float), m->align));
    }
    return step;
}

int64_t planner_step_of(const planner_maker *m, uint32_t kind, uint32_t axis,
                        const planner_team *team)
{
    uint32_t index = m->kinds.kinds[kind].first;
    const clv_node *node = &m->graph->nodes[index];
    int64_t step = core_cut_granule(m->graph, index, axis);
    for (uint32_t i = 0; i < team->n; i++) {
        const clv_op_caps *caps = planner_maker_caps(m, kind, team->devices[i]);
        const clv_axis_limit *limit = limit_of(caps, axis);
        if (caps->split_granularity[axis] > 1)
            step = common_multiple(step, caps->split_granularity[axis]);
        if (limit && limit->multiple > 1)
            step = common_multiple(step, limit->multiple);
    }
    for (uint32_t i = 0; i <= node->n_inputs && m->align > 1 && step; i++) {
        clv_value value = i < node->n_inputs ? node->inputs[i]
                          : node->n_outputs  ? node->outputs[0]
                                             : CLV_NO_TENSOR;
        if (value == CLV_NO_TENSOR)
            continue;
        clv_operand rule = clv_op_operand(node, i);
        int64_t own =
            operand_step(m, value, rule, axis, core_cut_unit(node, axis));
        if (rule.groups && rule.last == axis)
            own = common_multiple(own, core_cut_group(m->graph, node));
        step = common_multiple(step, own);
    }
    return step;
}
