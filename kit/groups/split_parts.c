#include "../work/element.h"
#include "split.h"

/* ------------------------------------------------------------------------ */
/* Views                                                                     */

/* n of the outermost dimension, from `offset` bytes on: so many rows. */
static uint32_t outer_view(split *s, uint32_t base, int64_t n, int64_t offset,
                           int64_t rows, int64_t row, int64_t stride)
{
    kit_graph *g = &s->g;
    if (g->n_tensors == KIT_MAX_TENSORS)
        kit_fail(s->k, "the case has more than %d tensors", KIT_MAX_TENSORS);
    uint32_t index = g->n_tensors++;
    const kit_tensor *of = &g->tensors[base];
    g->descs[index] = g->descs[base];
    g->descs[index].dims[0] = n;
    g->tensors[index] =
        (kit_tensor){.data = of->data + offset,
                     .base = of->base,
                     .offset = of->offset + (uint64_t)offset,
                     .size = (uint64_t)(stride * (rows - 1) + row),
                     .rows = rows,
                     .row = row,
                     .stride = stride};
    return index;
}

/* Elements column..column+c-1 of a vector. */
static uint32_t vector_view(split *s, uint32_t base, int64_t column, int64_t c)
{
    const uint32_t dtype = s->g.descs[base].dtype;
    const int64_t row = kit_row_bytes(dtype, c);
    return outer_view(s, base, c, kit_row_bytes(dtype, column), 1, row, row);
}

/* Experts begin..begin+n-1, all rows of each. */
static uint32_t expert_view(split *s, uint32_t base, int64_t begin, int64_t n)
{
    const kit_tensor *of = &s->g.tensors[base];
    const int64_t rows = s->g.descs[base].dims[1];
    return outer_view(s, base, n, begin * rows * of->stride, n * rows, of->row,
                      of->stride);
}

static uint32_t aligned(split *s, uint32_t t)
{
    const clv_op_caps *caps = &s->caps;
    const kit_tensor *tensor = &s->g.tensors[t];
    if ((caps->pointer_align && tensor->offset % caps->pointer_align) ||
        (caps->stride_align && tensor->rows > 1 &&
         (uint64_t)tensor->stride % caps->stride_align))
        s->misaligned = true;
    return t;
}

/* begin and n count rows of the tensor. */
static uint32_t cut_rows(split *s, uint32_t t, int64_t begin, int64_t n)
{
    const clv_tensor_desc *d = &s->g.descs[t];
    if (d->rank == 1)
        return aligned(s, vector_view(s, t, begin, n));
    if (d->rank == 3)
        return aligned(s, expert_view(s, t, begin, n));
    return aligned(s, kit_add_view(&s->g, t, begin, n, 0, d->dims[1]));
}

static uint32_t cut_columns(split *s, uint32_t t, int64_t begin, int64_t n)
{
    const clv_tensor_desc *d = &s->g.descs[t];
    if (d->rank == 1)
        return aligned(s, vector_view(s, t, begin, n));
    return aligned(s, kit_add_view(&s->g, t, 0, d->dims[0], begin, n));
}

/* ------------------------------------------------------------------------ */
/* Operands of a part                                                        */

/* The scales of a part of rows, or of columns, of a weight. */
static void cut_scales(split *s, uint32_t w, bool rows)
{
    const clv_tensor_desc *d = &s->g.descs[w];
    const uint32_t scales = d->quant_scales - 1;
    uint32_t cut = scales;
    if (!d->quant_scales || d->quant == CLV_QUANT_PER_TENSOR)
        return;
    if (rows)
        cut = cut_rows(s, scales, s->begin, s->n);
    else if (d->quant == CLV_QUANT_PER_GROUP)
        cut = cut_columns(s, scales, s->begin / d->quant_group,
                          s->n / d->quant_group);
    s->g.descs[w].quant_scales = 1 + cut;
}

/* The part's share of operand i of the node, which is tensor t. */
static uint32_t part_of(split *s, const clv_node *node, uint32_t i, uint32_t t)
{
    const clv_operand operand = clv_op_operand(node, i);
    const uint32_t n_required = clv_op_find(node->op)->n_required;
    if (t == CLV_NO_TENSOR)
        return t;
    if (s->axis == CHANNELS && s->begin && i >= n_required &&
        i < node->n_inputs)
        return CLV_NO_TENSOR; /* the first part adds the bias */
    const bool rows = s->g.descs[t].rank > 1 && operand.first == s->axis;
    if (!rows && operand.last != s->axis)
        return t;
    const int64_t unit = s->axis == HEADS ? s->spec.dim : 1;
    const int64_t group = operand.groups ? s->spec.heads / s->spec.groups : 1;
    const uint32_t cut =
        rows ? cut_rows(s, t, s->begin, s->n)
             : cut_columns(s, t, s->begin / group * unit, s->n / group * unit);
    cut_scales(s, cut, rows);
    return cut;
}

void split_add_part(split *s, uint32_t to)
{
    const clv_node whole = s->g.nodes[0];
    uint32_t in[CLV_MAX_INPUTS], out = CLV_NO_TENSOR;
    for (uint32_t i = 0; i < whole.n_inputs; i++)
        in[i] = part_of(s, &whole, i,
                        clv_op_writes(whole.op, i) ? to : whole.inputs[i]);
    if (whole.n_outputs)
        out = part_of(s, &whole, whole.n_inputs, to);
    clv_node *node = kit_add_node(&s->g, whole.op, in, whole.n_inputs, out);
    node->attr = whole.attr;
    if (s->axis == EXPERTS) {
        node->attr.experts.first += (int32_t)s->begin;
        node->attr.experts.total = (int32_t)s->spec.experts;
    }
}
