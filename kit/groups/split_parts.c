#include "../reference/element.h"
#include "split.h"

/* ------------------------------------------------------------------------ */
/* Views                                                                     */

/* Elements column..column+c-1 of a vector. */
static uint32_t vector_view(split *s, uint32_t base, int64_t column, int64_t c)
{
    kit_graph *g = &s->g;
    if (g->n_tensors == KIT_MAX_TENSORS)
        kit_fail(s->k, "the case has more than %d tensors", KIT_MAX_TENSORS);
    uint32_t index = g->n_tensors++;
    const kit_tensor *of = &g->tensors[base];
    const uint32_t dtype = g->descs[base].dtype;
    const int64_t offset = kit_row_bytes(dtype, column);
    g->descs[index] = g->descs[base];
    g->descs[index].dims[0] = c;
    g->tensors[index] = (kit_tensor){.data = of->data + offset,
                                     .base = of->base,
                                     .offset = of->offset + (uint64_t)offset,
                                     .size = (uint64_t)kit_row_bytes(dtype, c),
                                     .rows = 1,
                                     .row = kit_row_bytes(dtype, c),
                                     .stride = kit_row_bytes(dtype, c)};
    return index;
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

/* The scales go with their weight. */
static void cut_scales(split *s, uint32_t w)
{
    const clv_tensor_desc *d = &s->g.descs[w];
    if (!d->quant_scales || d->quant == CLV_QUANT_PER_TENSOR)
        return;
    uint32_t scales = d->quant_scales - 1, cut = scales;
    if (s->axis == ROWS)
        cut = cut_rows(s, scales, s->begin, s->n);
    else if (s->axis == CHANNELS && d->quant == CLV_QUANT_PER_GROUP)
        cut = cut_columns(s, scales, s->begin / d->quant_group,
                          s->n / d->quant_group);
    s->g.descs[w].quant_scales = 1 + cut;
}

static uint32_t matmul_part(split *s, uint32_t i, uint32_t t)
{
    uint32_t cut = t;
    if (i == 0 && s->axis == SEQUENCE)
        return cut_rows(s, t, s->begin, s->n);
    if (i == 0 && s->axis == CHANNELS)
        return cut_columns(s, t, s->begin, s->n);
    if (i == 1 && s->axis == ROWS)
        cut = cut_rows(s, t, s->begin, s->n);
    if (i == 1 && s->axis == CHANNELS)
        cut = cut_columns(s, t, s->begin, s->n);
    if (i == 1 && cut != t)
        cut_scales(s, cut);
    if (i == 2 && s->axis == ROWS)
        return cut_columns(s, t, s->begin, s->n);
    if (i == 2 && s->axis == CHANNELS && s->begin)
        return CLV_NO_TENSOR; /* one part adds it */
    return cut;
}

static uint32_t heads_part(split *s, uint32_t i, uint32_t t)
{
    const bool attention = s->spec.op == CLV_OP_ATTENTION;
    const bool positions = i == (attention ? 3 : 1);
    if (s->axis == SEQUENCE && (i == 0 || positions))
        return cut_rows(s, t, s->begin, s->n);
    if (s->axis != HEADS || positions || (!attention && i))
        return t;
    int64_t begin = s->begin, n = s->n;
    if (attention && i) { /* the groups of these heads */
        int64_t group = s->spec.heads / s->spec.groups;
        begin /= group;
        n /= group;
    }
    return cut_columns(s, t, begin * s->spec.dim, n * s->spec.dim);
}

/* All of the weights; rows of the rest. */
static uint32_t experts_part(split *s, uint32_t i, uint32_t t)
{
    return i == 1 ? t : cut_rows(s, t, s->begin, s->n);
}

static uint32_t rows_part(split *s, uint32_t i, uint32_t t)
{
    const bool set = s->spec.op == CLV_OP_SET_ROWS;
    const bool ids = i == (set ? 2 : 1), table = i == 0;
    if (s->axis == SEQUENCE)
        return table ? t : cut_rows(s, t, s->begin, s->n);
    return ids ? t : cut_columns(s, t, s->begin, s->n);
}

/* Input i of the part. */
static uint32_t part_of(split *s, uint32_t i, uint32_t t)
{
    if (t == CLV_NO_TENSOR)
        return t;
    switch (s->spec.op) {
    case CLV_OP_MATMUL:
        return matmul_part(s, i, t);
    case CLV_OP_ROPE:
    case CLV_OP_ATTENTION:
        return heads_part(s, i, t);
    case CLV_OP_GET_ROWS:
    case CLV_OP_SET_ROWS:
        return rows_part(s, i, t);
    case CLV_OP_MATMUL_EXPERTS:
        return experts_part(s, i, t);
    }
    if (s->axis != SEQUENCE)
        return cut_columns(s, t, s->begin, s->n);
    return s->g.descs[t].rank == 1 ? t : cut_rows(s, t, s->begin, s->n);
}

static uint32_t output_part(split *s, uint32_t y)
{
    if (s->axis == SEQUENCE)
        return cut_rows(s, y, s->begin, s->n);
    if (s->axis == CHANNELS)
        return y;
    int64_t unit = s->axis == HEADS ? s->spec.dim : 1;
    return cut_columns(s, y, s->begin * unit, s->n * unit);
}

void split_add_part(split *s, uint32_t to)
{
    const clv_node whole = s->g.nodes[0];
    uint32_t in[CLV_MAX_INPUTS], out = CLV_NO_TENSOR;
    for (uint32_t i = 0; i < whole.n_inputs; i++)
        in[i] =
            part_of(s, i, i == 0 && !whole.n_outputs ? to : whole.inputs[i]);
    if (whole.n_outputs)
        out = output_part(s, to);
    kit_add_node(&s->g, whole.op, in, whole.n_inputs, out)->attr = whole.attr;
}
