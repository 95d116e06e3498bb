#include "workload.h"
#include "../../core/graph/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* From a node                                                               */

typedef struct reader {
    const clv_graph *graph;
    const clv_node *node;
    const core_piece *piece; /* or NULL */
    const int64_t *symbols;  /* or NULL */
} reader;

static const clv_tensor_desc *input(const reader *r, uint32_t i)
{
    return i < r->node->n_inputs && r->node->inputs[i] != CLV_NO_TENSOR
               ? &r->graph->tensors[r->node->inputs[i]]
               : NULL;
}

static int64_t dim(const reader *r, const clv_tensor_desc *t, uint32_t i)
{
    return t->symbols[i] && r->symbols ? r->symbols[t->symbols[i] - 1]
                                       : t->dims[i];
}

/* Elements of an axis that the piece takes; whole: elements of the axis. */
static int64_t part(const reader *r, uint32_t axis, int64_t whole)
{
    if (!r->piece || !r->piece->ranges[axis].end)
        return whole;
    return r->piece->ranges[axis].end - r->piece->ranges[axis].begin;
}

/* Sets the rows and the width of the activation that the piece takes. */
static void set_shape(const reader *r, const clv_tensor_desc *t,
                      planner_workload *out)
{
    uint32_t last = t->rank - 1;
    out->n = 1;
    for (uint32_t i = 0; i < last; i++)
        out->n *= i ? dim(r, t, i) : part(r, CORE_AXIS_SEQUENCE, dim(r, t, i));
    out->in = out->out = part(r, CORE_AXIS_ROWS, dim(r, t, last));
}

static void set_weight(const clv_tensor_desc *w, planner_workload_kind *kind)
{
    kind->weight_dtype = w->dtype;
    kind->quant = w->quant;
    kind->group = w->quant_group;
}

static void of_matmul(const reader *r, planner_workload *out)
{
    const clv_tensor_desc *w = input(r, 1), *bias = input(r, 2);
    set_weight(w, &out->kind);
    out->out = part(r, CORE_AXIS_ROWS, w->dims[0]);
    out->in = part(r, CORE_AXIS_CHANNELS, w->dims[1]);
    /* The piece with the first channels adds the bias. */
    if (bias && !(r->piece && r->piece->ranges[CORE_AXIS_CHANNELS].begin))
        out->kind.variant = bias->dtype;
}

static void of_experts(const reader *r, planner_workload *out)
{
    const clv_tensor_desc *x = input(r, 0), *w = input(r, 1);
    set_weight(w, &out->kind);
    out->kind.variant = (uint32_t)clv_experts_total(&r->node->attr, w->dims[0]);
    out->depth = part(r, CORE_AXIS_EXPERTS, w->dims[0]);
    out->kind.span = (uint32_t)input(r, 2)->dims[1];
    if (x->dims[1] != w->dims[2])
        out->kind.detail |= PLANNER_EXPERTS_EACH;
    if (input(r, 3))
        out->kind.detail |= PLANNER_EXPERTS_SCORES;
    out->out = w->dims[1];
    out->in = w->dims[2];
    const core_value *value = &r->graph->values[r->node->inputs[1]];
    const int64_t first =
        value->origin[0] +
        (r->piece ? r->piece->ranges[CORE_AXIS_EXPERTS].begin : 0);
    core_tensor_expected(value->weight, first, first + out->depth,
                         (double)out->n, &out->experts, &out->products);
}

static void of_head_norm(const reader *r, planner_workload *out)
{
    int64_t head = r->node->attr.norm.head_dim;
    out->kind.variant = (uint32_t)head;
    out->kind.weight_dtype = input(r, 1)->dtype;
    out->in = out->out = head * part(r, CORE_AXIS_HEADS, out->out / head);
}

static void of_rope(const reader *r, planner_workload *out)
{
    int64_t head = r->node->attr.rope.head_dim;
    out->kind.variant = (uint32_t)head;
    out->kind.detail = r->node->attr.rope.mode;
    out->kind.span = (uint32_t)(2 * input(r, 2)->dims[0]);
    out->in = out->out = head * part(r, CORE_AXIS_HEADS, out->out / head);
}

/* Rows of the activation after those of the node or its piece. Their positions
 * are later, so the node does not see them. */
static int64_t rows_after(const reader *r, const clv_tensor_desc *q)
{
    const core_value *value = &r->graph->values[r->node->inputs[0]];
    if (r->piece && r->piece->ranges[CORE_AXIS_SEQUENCE].end)
        return dim(r, q, 0) - r->piece->ranges[CORE_AXIS_SEQUENCE].end;
    if (q->symbols[0]) /* never part of another */
        return 0;
    const clv_tensor_desc *base = &r->graph->tensors[value->base];
    return dim(r, base, 0) - value->origin[0] - q->dims[0];
}

static void of_attention(const reader *r, planner_workload *out)
{
    const clv_tensor_desc *q = input(r, 0), *k = input(r, 1);
    const clv_op_attr *attr = &r->node->attr;
    int64_t head = attr->attention.head_dim;
    int64_t heads = q->dims[1] / head, groups = k->dims[1] / head;
    const bool apart = attr->attention.apart;
    uint32_t symbol = attr->attention.seen_symbol;
    int64_t taken = part(r, CORE_AXIS_HEADS, heads);
    set_weight(k, &out->kind);
    out->kind.variant = (uint32_t)head;
    if (attr->attention.softcap != 0)
        out->kind.detail |= PLANNER_ATTENTION_SOFTCAP;
    if (apart)
        out->kind.detail |= PLANNER_ATTENTION_APART;
    out->out = taken * head;
    out->in = taken / (heads / groups) * head;
    out->depth = k->dims[0];
    if (!symbol)
        symbol = attr->attention.rows_symbol;
    if (symbol) {
        int64_t rows = r->symbols ? r->symbols[symbol - 1]
                                  : r->graph->symbols[symbol - 1].max;
        out->depth = rows < out->depth ? rows : out->depth;
    }
    if (apart && !attr->attention.seen_symbol)
        out->depth /= out->n; /* sequences have equal parts */
    out->depth -= apart ? 0 : rows_after(r, q);
    if (out->depth < 1)
        out->depth = 1;
    /* A window matters only where it hides rows. Where no query sees others of
     * them the hidden rows count as absent. */
    int64_t window = attr->attention.window;
    if (window && window < out->depth) {
        const bool alike = out->n == 1 || apart;
        out->depth = alike ? window : out->depth;
        out->kind.span = alike ? 0 : (uint32_t)window;
    }
}

static void of_binary(const reader *r, planner_workload *out)
{
    const clv_tensor_desc *b = input(r, 1);
    if (b->rank == 1 && input(r, 0)->rank > 1) {
        out->kind.detail = 1;
        out->kind.weight_dtype = b->dtype;
    }
}

static void of_norm(const reader *r, planner_workload *out)
{
    const clv_tensor_desc *bias = input(r, 2);
    out->kind.weight_dtype = input(r, 1)->dtype;
    out->kind.variant = bias ? bias->dtype : 0;
}

void planner_workload_of(const clv_graph *graph, uint32_t node,
                         const core_piece *piece, const int64_t *symbols,
                         planner_workload *out)
{
    const clv_node *n = &graph->nodes[node];
    const reader r = {graph, n, piece, symbols};
    const clv_tensor_desc *result =
        n->n_outputs ? &graph->tensors[n->outputs[0]] : input(&r, 1);
    *out = (planner_workload){
        .kind = {.op = n->op,
                 .dtype = input(&r, 0)->dtype,
                 .way = piece ? piece->variant : n->variant}};
    set_shape(&r, result, out);
    switch (clv_op_class_of(n->op)) {
    case CLV_CLASS_GET_ROWS:
    case CLV_CLASS_SET_ROWS:
        out->kind.dtype = result->dtype;
        set_weight(input(&r, 0), &out->kind);
        break;
    case CLV_CLASS_BINARY:
        of_binary(&r, out);
        break;
    case CLV_CLASS_UNARY:
    case CLV_CLASS_GATED:
        out->kind.variant = clv_op_attr_of(n->op, &n->attr, CLV_ATTR_ENUM);
        break;
    case CLV_CLASS_NORM:
        of_norm(&r, out);
        break;
    case CLV_CLASS_HEAD_NORM:
        of_head_norm(&r, out);
        break;
    case CLV_CLASS_ROPE:
        of_rope(&r, out);
        break;
    case CLV_CLASS_CONVERT:
        out->kind.variant = result->dtype;
        break;
    case CLV_CLASS_SELECT:
        out->in = input(&r, 0)->dims[1];
        break;
    case CLV_CLASS_MATMUL:
        of_matmul(&r, out);
        break;
    case CLV_CLASS_EXPERTS:
        of_experts(&r, out);
        break;
    case CLV_CLASS_ATTENTION:
        of_attention(&r, out);
        break;
    }
}

/* ------------------------------------------------------------------------ */
/* Operations and bytes                                                      */

void planner_workload_on(const clv_device *dev, const clv_graph *graph,
                         uint32_t node, const core_piece *piece,
                         const int64_t *symbols, planner_workload *out)
{
    const clv_node *n = &graph->nodes[node];
    planner_workload_of(graph, node, piece, symbols, out);
    if (n->op != CLV_OP_ATTENTION ||
        !(dev->info.flags & CLV_DEVICE_STATIC_SHAPES))
        return;
    uint32_t symbol = n->attr.attention.seen_symbol;
    if (!symbol)
        symbol = n->attr.attention.rows_symbol;
    int64_t most = symbol ? graph->symbols[symbol - 1].max : INT64_MAX;
    out->depth = graph->tensors[n->inputs[1]].dims[0];
    out->depth = out->depth < most ? out->depth : most;
}

bool planner_workload_same_kind(const planner_workload *a,
                                const planner_workload *b)
{
    return !memcmp(&a->kind, &b->kind, sizeof a->kind);
}

bool planner_workload_equal(const planner_workload *a,
                            const planner_workload *b)
{
    return planner_workload_same_kind(a, b) && a->n == b->n && a->in == b->in &&
           a->out == b->out && a->depth == b->depth;
}

planner_workload planner_workload_plain(const planner_workload *workload)
{
    planner_workload plain = *workload;
    plain.experts = plain.products = 0;
    return plain;
}

double planner_workload_experts(const planner_workload *workload)
{
    if (workload->experts > 0)
        return workload->experts;
    double all = workload->kind.variant, used = workload->kind.span;
    double share =
        used < all ? 1 - pow(1 - used / all, (double)workload->n) : 1;
    return (double)workload->depth * share;
}

double planner_workload_products(const planner_workload *workload)
{
    return workload->products > 0
               ? workload->products
               : workload->kind.span * (double)workload->depth /
                     workload->kind.variant;
}

/* How many parts a row of x, and of the output, has. */
static double parts_in(const planner_workload_kind *kind)
{
    return kind->detail & PLANNER_EXPERTS_EACH ? kind->span : 1;
}

static double parts_out(const planner_workload_kind *kind)
{
    return kind->detail & PLANNER_EXPERTS_SCORES ? 1 : kind->span;
}

/* Query i of n sees the rows up to its own, depth - n + i + 1, or the last
 * `span` of them, or as many as there are. */
double planner_workload_pairs(const planner_workload *workload)
{
    double n = (double)workload->n, last = (double)workload->depth;
    double first = last - n + 1;
    double span = workload->kind.span ? (double)workload->kind.span : last;
    if (workload->kind.detail & PLANNER_ATTENTION_APART)
        return n * last;
    if (first < 1) { /* more queries than rows: the earlier ones see one */
        double extra = 1 - first;
        return extra + last * (last + 1) / 2;
    }
    if (last <= span)
        return n * (first + last) / 2;
    if (first >= span)
        return n * span;
    double below = span - first; /* queries that see fewer than span */
    return below * (first + span - 1) / 2 + (n - below) * span;
}

double planner_workload_flops(const planner_workload *workload)
{
    const planner_workload_kind *kind = &workload->kind;
    const clv_op_info *info = clv_op_find(kind->op);
    double n = (double)workload->n, in = (double)workload->in;
    double out = (double)workload->out;
    switch (clv_op_class_of(kind->op)) {
    case CLV_CLASS_MATMUL:
        return 2 * n * in * out + (kind->variant ? n * out : 0);
    case CLV_CLASS_EXPERTS:
        return 2 * n * planner_workload_products(workload) * in * out;
    case CLV_CLASS_SELECT: /* all are read, k are stored */
        return 2 * n * in;
    case CLV_CLASS_ATTENTION: /* scores, their softmax, and the sums of v */
        return planner_workload_pairs(workload) *
               (4 * out + 8 * out / (double)kind->variant);
    default:
        return (info ? info->work : 1) * n * out;
    }
}

/* Bytes of n elements; a part of a block counts as that part. */
static double size_of(uint32_t dtype, double n)
{
    uint32_t elements, bytes;
    if (!clv_dtype_block(dtype, &elements, &bytes))
        return 0;
    return n / elements * bytes;
}

/* Bytes of a weight of rows x columns, with its scales. */
static double matrix_bytes(const planner_workload_kind *kind, double rows,
                           double columns)
{
    double scales = 0;
    if (kind->quant == CLV_QUANT_PER_TENSOR)
        scales = 1;
    else if (kind->quant == CLV_QUANT_PER_CHANNEL)
        scales = rows;
    else if (kind->quant == CLV_QUANT_PER_GROUP && kind->group)
        scales = rows * columns / kind->group;
    return size_of(kind->weight_dtype, rows * columns) +
           size_of(CLV_DTYPE_F32, scales);
}

/* Of the weight with its scales and of the bias; of a table the rows in use. */
static double weight_bytes(const planner_workload *workload)
{
    const planner_workload_kind *kind = &workload->kind;
    double in = (double)workload->in, out = (double)workload->out;
    switch (clv_op_class_of(kind->op)) {
    case CLV_CLASS_MATMUL:
        return matrix_bytes(kind, out, in) + size_of(kind->variant, out);
    case CLV_CLASS_EXPERTS:
        return planner_workload_experts(workload) * matrix_bytes(kind, out, in);
    case CLV_CLASS_GET_ROWS:
        return matrix_bytes(kind, (double)workload->n, out);
    case CLV_CLASS_NORM:
        return size_of(kind->weight_dtype, out) + size_of(kind->variant, out);
    case CLV_CLASS_HEAD_NORM:
        return size_of(kind->weight_dtype, kind->variant);
    case CLV_CLASS_BINARY:
        return size_of(kind->weight_dtype, out);
    default:
        return 0;
    }
}

double planner_workload_bytes(const planner_workload *workload)
{
    const planner_workload_kind *kind = &workload->kind;
    double n = (double)workload->n, in = (double)workload->in;
    double out = (double)workload->out;
    double activation = size_of(kind->dtype, n * out);
    double ids = size_of(CLV_DTYPE_I32, n);
    double weight = weight_bytes(workload);
    double seen = (double)workload->depth;
    switch (clv_op_class_of(kind->op)) {
    case CLV_CLASS_MATMUL:
        return weight + size_of(kind->dtype, n * (in + out));
    case CLV_CLASS_EXPERTS:
        return weight + ids * kind->span +
               size_of(kind->dtype,
                       n * (parts_in(kind) * in + parts_out(kind) * out));
    case CLV_CLASS_SELECT:
        return size_of(kind->dtype, n * in) + ids * out;
    case CLV_CLASS_GET_ROWS:
        return weight + ids + activation;
    case CLV_CLASS_SET_ROWS:
        return activation + ids + size_of(kind->weight_dtype, n * out);
    case CLV_CLASS_BINARY:
        return weight + activation * (kind->detail ? 2 : 3);
    case CLV_CLASS_GATED:
        return 3 * activation;
    case CLV_CLASS_ROPE:
        return 2 * activation + ids + size_of(CLV_DTYPE_F32, kind->span / 2.0);
    case CLV_CLASS_CONVERT:
        return activation + size_of(kind->variant, n * out);
    case CLV_CLASS_ATTENTION:
        if (kind->span && kind->span + n - 1 < seen)
            seen = kind->span + n - 1;
        if (kind->detail & PLANNER_ATTENTION_APART)
            seen *= n;
        return 2 * activation + ids +
               2 * size_of(kind->weight_dtype, seen * in);
    default:
        return weight + 2 * activation;
    }
}

void planner_node_work(const clv_graph *graph, uint32_t node,
                       const int64_t *symbols, double *bytes, double *flops)
{
    planner_workload workload;
    planner_workload_of(graph, node, NULL, symbols, &workload);
    *bytes = planner_workload_bytes(&workload);
    *flops = planner_workload_flops(&workload);
}

static const char *quant_text(const planner_workload_kind *kind, char text[24])
{
    text[0] = 0;
    if (kind->quant == CLV_QUANT_PER_TENSOR)
        snprintf(text, 24, " per tensor");
    else if (kind->quant == CLV_QUANT_PER_CHANNEL)
        snprintf(text, 24, " per channel");
    else if (kind->quant == CLV_QUANT_PER_GROUP)
        snprintf(text, 24, " per %" PRIu32, kind->group);
    return text;
}

const char *planner_workload_text(const planner_workload *workload,
                                  char text[PLANNER_WORKLOAD_TEXT])
{
    const planner_workload_kind *kind = &workload->kind;
    const uint32_t op_class = clv_op_class_of(kind->op);
    const bool is_attention = op_class == CLV_CLASS_ATTENTION;
    const char *dtype = clv_dtype_name(kind->dtype);
    const char *weight = clv_dtype_name(kind->weight_dtype);
    char quant[24], here[32] = "", depth[80] = "", way[24] = "";
    if (op_class == CLV_CLASS_EXPERTS && workload->depth < kind->variant)
        snprintf(here, sizeof here, ", %" PRId64 " here", workload->depth);
    if (is_attention)
        snprintf(depth, sizeof depth, " of %" PRId64 " rows of %" PRId64 "%s",
                 workload->depth, workload->in,
                 kind->detail & PLANNER_ATTENTION_APART ? " each" : "");
    else if (op_class == CLV_CLASS_EXPERTS)
        snprintf(depth, sizeof depth,
                 " -> %" PRId64 ", %" PRIu32 " of %" PRIu32 "%s", workload->out,
                 kind->span, kind->variant, here);
    else if (workload->in != workload->out)
        snprintf(depth, sizeof depth, " -> %" PRId64, workload->out);
    if (kind->way)
        snprintf(way, sizeof way, ", variant %" PRIu32, kind->way);
    snprintf(text, PLANNER_WORKLOAD_TEXT,
             "%s %s%s%s%s [%" PRId64 ", %" PRId64 "]%s%s",
             core_op_name(kind->op), dtype ? dtype : "?", weight ? " x " : "",
             weight ? weight : "", quant_text(kind, quant), workload->n,
             is_attention ? workload->out : workload->in, depth, way);
    return text;
}
