#include "ref.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BIT(dtype) (1u << CLV_DTYPE_##dtype)
#define FLOATS (BIT(F32) | BIT(F16) | BIT(BF16))
#define TABLES (FLOATS | BIT(Q8_0) | BIT(Q4_0))
#define WEIGHTS (TABLES | BIT(I8) | BIT(I4))
#define ANY_RANK 0

typedef struct check {
    const ref_graph *graph;
    const clv_node *node;
    const clv_tensor_desc *in[CLV_MAX_INPUTS], *out; /* NULL: absent */
    char *reason;
    size_t size;
} check;

static bool no(const check *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bool no(const check *c, const char *fmt, ...)
{
    int n = snprintf(c->reason, c->size, "%s: ", ref_op_name(c->node->op));
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->reason + n, c->size - (size_t)n, fmt, args);
    va_end(args);
    return false;
}

static bool need(const check *c, const clv_tensor_desc *t, const char *what,
                 uint32_t dtypes, uint32_t rank)
{
    if (!(dtypes >> t->dtype & 1))
        return no(c, "%s has dtype %u, which is not taken", what, t->dtype);
    if (rank != ANY_RANK && t->rank != rank)
        return no(c, "%s has rank %u, not %u", what, t->rank, rank);
    return true;
}

static bool same_dim(const clv_tensor_desc *a, uint32_t i,
                     const clv_tensor_desc *b, uint32_t j)
{
    return a->dims[i] == b->dims[j] && a->symbols[i] == b->symbols[j];
}

static bool same_shape(const clv_tensor_desc *a, const clv_tensor_desc *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = same_dim(a, i, b, i);
    return same;
}

static bool need_same(const check *c, const clv_tensor_desc *a,
                      const clv_tensor_desc *b, const char *what)
{
    return same_shape(a, b) || no(c, "%s differ in shape", what);
}

/* A vector with an element for each step of t's dimension. */
static bool need_vector(const check *c, uint32_t i, const char *what,
                        uint32_t dtypes, const clv_tensor_desc *t, uint32_t dim)
{
    if (!c->in[i])
        return true;
    return need(c, c->in[i], what, dtypes, 1) &&
           (same_dim(c->in[i], 0, t, dim) ||
            no(c, "%s has the wrong length", what));
}

static bool check_get_rows(const check *c)
{
    return need(c, c->in[0], "the table", WEIGHTS, 2) &&
           need(c, c->in[1], "ids", BIT(I32), 1) &&
           need(c, c->out, "the output", BIT(F32), 2) &&
           ((same_dim(c->out, 0, c->in[1], 0) &&
             same_dim(c->out, 1, c->in[0], 1)) ||
            no(c, "the output has another shape than [ids, C]"));
}

static bool check_set_rows(const check *c)
{
    if (c->in[0]->usage == CLV_USAGE_WEIGHT ||
        c->in[0]->usage == CLV_USAGE_INPUT)
        return no(c, "the state is not to be written");
    return need(c, c->in[0], "the state", FLOATS, 2) &&
           need(c, c->in[1], "src", BIT(F32), 2) &&
           need_vector(c, 2, "ids", BIT(I32), c->in[1], 0) &&
           (same_dim(c->in[0], 1, c->in[1], 1) ||
            no(c, "state and src differ in columns"));
}

static bool check_matmul(const check *c)
{
    return need(c, c->in[0], "x", BIT(F32), 2) &&
           need(c, c->in[1], "w", WEIGHTS, 2) &&
           need_vector(c, 2, "bias", FLOATS, c->in[1], 0) &&
           need(c, c->out, "the output", BIT(F32), 2) &&
           ((same_dim(c->in[0], 1, c->in[1], 1) &&
             same_dim(c->out, 0, c->in[0], 0) &&
             same_dim(c->out, 1, c->in[1], 0)) ||
            no(c, "the shapes are not [n,I], [O,I], [n,O]"));
}

static bool check_unary(const check *c)
{
    return need(c, c->in[0], "x", BIT(F32), ANY_RANK) &&
           need(c, c->out, "the output", BIT(F32), ANY_RANK) &&
           need_same(c, c->in[0], c->out, "x and the output");
}

static bool check_binary(const check *c)
{
    if (!check_unary(c))
        return false;
    if (same_shape(c->in[0], c->in[1]))
        return need(c, c->in[1], "b", BIT(F32), ANY_RANK);
    return need_vector(c, 1, "b", FLOATS, c->in[0], c->in[0]->rank - 1);
}

static bool check_glu(const check *c)
{
    if (c->node->attr.glu.activation > CLV_ACT_GELU_TANH)
        return no(c, "activation %u is not known",
                  c->node->attr.glu.activation);
    return check_unary(c) && need(c, c->in[0], "gate", BIT(F32), 2) &&
           need(c, c->in[1], "up", BIT(F32), 2) &&
           need_same(c, c->in[0], c->in[1], "gate and up");
}

static bool check_norm(const check *c)
{
    float eps = c->node->attr.norm.eps;
    if (!(eps >= 0) || isinf(eps))
        return no(c, "eps is negative or not finite");
    return check_unary(c) && need(c, c->in[0], "x", BIT(F32), 2) &&
           need_vector(c, 1, "weight", FLOATS, c->in[0], 1) &&
           need_vector(c, 2, "bias", FLOATS, c->in[0], 1);
}

static bool need_heads(const check *c, const clv_tensor_desc *t,
                       uint32_t head_dim, const char *what)
{
    return (head_dim && !t->symbols[1] && t->dims[1] > 0 &&
            t->dims[1] % head_dim == 0) ||
           no(c, "the channels of %s are not whole heads of %u", what,
              head_dim);
}

static bool check_rope(const check *c)
{
    uint32_t head_dim = c->node->attr.rope.head_dim;
    if (c->node->attr.rope.mode > CLV_ROPE_PAIRS ||
        !isfinite(c->node->attr.rope.scale))
        return no(c, "the mode is not known, or the scale not finite");
    return check_unary(c) && need(c, c->in[0], "x", BIT(F32), 2) &&
           need_heads(c, c->in[0], head_dim, "x") &&
           need_vector(c, 1, "pos", BIT(I32), c->in[0], 0) &&
           need(c, c->in[2], "inv_freq", BIT(F32), 1) &&
           ((!c->in[2]->symbols[0] && c->in[2]->dims[0] <= head_dim / 2) ||
            no(c, "inv_freq is longer than half a head"));
}

static bool check_softmax(const check *c)
{
    return check_unary(c) && need(c, c->in[0], "x", BIT(F32), 2);
}

static bool check_attention(const check *c)
{
    const clv_op_attr *a = &c->node->attr;
    uint32_t head_dim = a->attention.head_dim;
    if (!isfinite(a->attention.scale) || !(a->attention.softcap >= 0) ||
        isinf(a->attention.softcap) || a->attention.window < 0)
        return no(c, "scale, softcap or window is out of range");
    return check_unary(c) && need(c, c->in[0], "q", BIT(F32), 2) &&
           need(c, c->in[1], "k", BIT(F32) | BIT(F16), 2) &&
           need(c, c->in[2], "v", BIT(F32) | BIT(F16), 2) &&
           need_same(c, c->in[1], c->in[2], "k and v") &&
           need_vector(c, 3, "pos", BIT(I32), c->in[0], 0) &&
           need_heads(c, c->in[0], head_dim, "q") &&
           need_heads(c, c->in[1], head_dim, "k") &&
           (c->in[0]->dims[1] % c->in[1]->dims[1] == 0 ||
            no(c, "the heads of q are no multiple of those of k"));
}

static bool check_convert(const check *c)
{
    return need(c, c->in[0], "x", TABLES, ANY_RANK) &&
           need(c, c->out, "the output", FLOATS, ANY_RANK) &&
           need_same(c, c->in[0], c->out, "x and the output");
}

static const struct {
    bool (*run)(const check *c);
    uint8_t required, max, outputs; /* of the operands */
} rules[CLV_OP_COUNT] = {
    [CLV_OP_GET_ROWS] = {check_get_rows, 2, 2, 1},
    [CLV_OP_SET_ROWS] = {check_set_rows, 3, 3, 0},
    [CLV_OP_MATMUL] = {check_matmul, 2, 3, 1},
    [CLV_OP_ADD] = {check_binary, 2, 2, 1},
    [CLV_OP_MUL] = {check_binary, 2, 2, 1},
    [CLV_OP_SILU] = {check_unary, 1, 1, 1},
    [CLV_OP_GELU] = {check_unary, 1, 1, 1},
    [CLV_OP_GLU] = {check_glu, 2, 2, 1},
    [CLV_OP_RMS_NORM] = {check_norm, 2, 2, 1},
    [CLV_OP_LAYER_NORM] = {check_norm, 2, 3, 1},
    [CLV_OP_ROPE] = {check_rope, 3, 3, 1},
    [CLV_OP_SOFTMAX] = {check_softmax, 1, 1, 1},
    [CLV_OP_ATTENTION] = {check_attention, 4, 4, 1},
    [CLV_OP_CONVERT] = {check_convert, 1, 1, 1},
};

static bool has_shape(const clv_tensor_desc *t, uint32_t rank, int64_t first,
                      int64_t last)
{
    return t->rank == rank && !t->symbols[0] && !t->symbols[rank - 1] &&
           t->dims[0] == first && t->dims[rank - 1] == last;
}

/* Integers have scales beside them; nothing else has. */
static bool check_scales(const check *c, const clv_tensor_desc *t)
{
    bool integers = t->dtype == CLV_DTYPE_I8 || t->dtype == CLV_DTYPE_I4;
    const int64_t rows = t->dims[0], columns = t->dims[1];
    if (!t->quant && !integers)
        return true;
    if (!t->quant || !integers || t->rank != 2 || t->symbols[0] ||
        t->symbols[1] || t->quant > CLV_QUANT_PER_GROUP)
        return no(c, "quantisation %u does not go with dtype %u of rank %u",
                  t->quant, t->dtype, t->rank);
    if (t->quant_scales < 1 || t->quant_scales > c->graph->n_tensors)
        return no(c, "the scales are missing");
    if (t->quant == CLV_QUANT_PER_GROUP &&
        (!t->quant_group || columns % t->quant_group))
        return no(c, "rows are no whole groups of %u", t->quant_group);
    const clv_tensor_desc *s = &c->graph->tensors[t->quant_scales - 1];
    ref_view view;
    bool fits = t->quant == CLV_QUANT_PER_GROUP
                    ? has_shape(s, 2, rows, columns / t->quant_group)
                : t->quant == CLV_QUANT_PER_CHANNEL
                    ? has_shape(s, 1, rows, rows)
                    : has_shape(s, 1, 1, 1);
    if (!fits || s->dtype != CLV_DTYPE_F32 || s->quant ||
        s->usage > CLV_USAGE_STATE || s->storage != CLV_STORAGE_BUFFER ||
        s->layout != CLV_LAYOUT_LINEAR || !ref_view_make(s, NULL, &view))
        return no(c, "the scales are not f32 of the scheme's shape");
    return true;
}

/* What holds for every operand of every op. */
static bool check_operand(const check *c, const clv_tensor_desc *t)
{
    ref_view view;
    if (t->storage != CLV_STORAGE_BUFFER ||
        (t->layout != CLV_LAYOUT_LINEAR &&
         (t->layout != CLV_LAYOUT_WEIGHTS || t->usage != CLV_USAGE_STATE)))
        return no(c, "a tensor is not linear in a buffer, nor a state as "
                     "weights");
    if (t->usage > CLV_USAGE_STATE)
        return no(c, "usage %u is not known", t->usage);
    for (uint32_t i = 0; i < t->rank && i < CLV_MAX_RANK; i++) {
        if (t->dims[i] < 1)
            return no(c, "a dimension is %" PRId64, t->dims[i]);
        if (t->symbols[i] > c->graph->n_symbols)
            return no(c, "symbol %u is none of the graph's", t->symbols[i]);
        if (t->symbols[i] &&
            t->dims[i] < c->graph->symbols[t->symbols[i] - 1].max)
            return no(c, "a dimension does not cover its symbol");
        if (t->symbols[i] && i + 1 == t->rank && t->rank > 1)
            return no(c, "the number of columns varies");
        if (t->strides[i] % ref_dtype_align(t->dtype))
            return no(c, "a stride splits elements");
    }
    if (!ref_view_make(t, NULL, &view) || ref_view_extent(&view) > INT64_MAX)
        return no(c, "dtype %u of rank %u has no size here", t->dtype, t->rank);
    return check_scales(c, t);
}

static bool find_operands(check *c)
{
    const clv_node *node = c->node;
    const ref_graph *g = c->graph;
    uint32_t op = node->op;
    if (node->revision != 1)
        return no(c, "revision %u is not known, 1 is", node->revision);
    if (node->n_inputs < rules[op].required || node->n_inputs > rules[op].max ||
        node->n_outputs != rules[op].outputs)
        return no(c, "%u inputs and %u outputs", node->n_inputs,
                  node->n_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t t = node->inputs[i];
        if (t >= g->n_tensors && (t != CLV_NO_TENSOR || i < rules[op].required))
            return no(c, "input %u is missing", i);
        c->in[i] = t == CLV_NO_TENSOR ? NULL : &g->tensors[t];
        if (c->in[i] && !check_operand(c, c->in[i]))
            return false;
    }
    if (!rules[op].outputs)
        return true;
    if (node->outputs[0] >= g->n_tensors)
        return no(c, "the output is missing");
    c->out = &g->tensors[node->outputs[0]];
    if (c->out->usage == CLV_USAGE_WEIGHT || c->out->usage == CLV_USAGE_INPUT)
        return no(c, "the output is not to be written");
    return check_operand(c, c->out);
}

bool ref_check_node(const ref_graph *graph, uint32_t node, char *reason,
                    size_t size)
{
    check c = {.graph = graph,
               .node = &graph->nodes[node],
               .reason = reason,
               .size = size};
    if (c.node->op >= CLV_OP_COUNT || !rules[c.node->op].run) {
        snprintf(reason, size, "op %" PRIu32 " is not known here", c.node->op);
        return false;
    }
    return find_operands(&c) && rules[c.node->op].run(&c);
}
