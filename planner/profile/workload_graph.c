#include "workload_graph.h"

#include "../../core/graph/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SET_MAX CLV_OP_OPERANDS
#define TABLE_FACTOR 8 /* rows of a table for each that is read */
#define TABLE_LEAST 64
#define SOFTCAP 30.0f
#define EPSILON 1e-5f

typedef struct set {
    clv_value in[SET_MAX];
} set;

int64_t planner_workload_table_rows(const planner_workload *workload)
{
    int64_t rows = workload->n < INT32_MAX / TABLE_FACTOR
                       ? workload->n * TABLE_FACTOR
                       : INT32_MAX;
    return rows > TABLE_LEAST ? rows : TABLE_LEAST;
}

static bool is_experts(const planner_workload *workload)
{
    return clv_op_class_of(workload->kind.op) == CLV_CLASS_EXPERTS;
}

static bool is_apart(const planner_workload *workload)
{
    return clv_op_class_of(workload->kind.op) == CLV_CLASS_ATTENTION &&
           workload->kind.detail & PLANNER_ATTENTION_APART;
}

int64_t planner_workload_n_ids(const planner_workload *workload)
{
    return is_experts(workload) ? workload->n * workload->kind.span
                                : workload->n;
}

/* As if by chance, but for the ids of a row, which lie far apart. */
static void choose_experts(const planner_workload *workload, int32_t *ids)
{
    const uint32_t all = workload->kind.variant, used = workload->kind.span;
    const uint32_t step = all > used ? all / used : 1;
    for (int64_t i = 0; i < workload->n; i++)
        for (uint32_t k = 0; k < used; k++)
            *ids++ = (int32_t)((((uint32_t)i * 2654435761u >> 16) +
                                (uint64_t)k * step) %
                               all);
}

/* Rows all over a table, none twice; positions up to the last row in use; of
 * queries apart, the last and the first row that each sees. */
void planner_workload_ids(const planner_workload *workload, uint32_t list,
                          int32_t *ids)
{
    if (is_experts(workload)) {
        choose_experts(workload, ids);
        return;
    }
    const uint32_t op_class = clv_op_class_of(workload->kind.op);
    for (int64_t i = 0; i < workload->n; i++) {
        int64_t id = i;
        if (op_class == CLV_CLASS_GET_ROWS)
            id = i * TABLE_FACTOR + i * 5 % TABLE_FACTOR;
        else if (is_apart(workload))
            id = (i + !list) * workload->depth - !list;
        else if (op_class == CLV_CLASS_ATTENTION)
            id = workload->depth - workload->n + i;
        ids[i] = (int32_t)(id > 0 ? id : 0);
    }
}

/* ------------------------------------------------------------------------ */

static void fail(clv_graph *g, clv_status status)
{
    if (!g->status)
        g->status = status;
}

static clv_value constant(clv_graph *g, clv_tensor_desc desc)
{
    clv_tensor_desc init = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.header = init.header;
    desc.usage = CLV_USAGE_WEIGHT;
    clv_status status =
        core_shape_check(desc.dtype, desc.rank, desc.dims, NULL);
    if (status)
        fail(g, status);
    return g->status ? CLV_NO_TENSOR
                     : core_graph_add_tensor(g, &desc, NULL, NULL);
}

static clv_value vector(clv_graph *g, uint32_t dtype, int64_t n)
{
    return constant(g,
                    (clv_tensor_desc){.dtype = dtype, .rank = 1, .dims = {n}});
}

/* A weight or table with its scales. */
static clv_value matrix(clv_graph *g, const planner_workload_kind *kind,
                        int64_t rows, int64_t columns)
{
    clv_tensor_desc desc = {.dtype = kind->weight_dtype,
                            .rank = 2,
                            .dims = {rows, columns},
                            .quant = kind->quant,
                            .quant_group = kind->group};
    clv_tensor_desc scales = {
        .dtype = CLV_DTYPE_F32, .rank = 1, .dims = {rows}};
    if (kind->quant == CLV_QUANT_PER_TENSOR) {
        scales.dims[0] = 1;
    } else if (kind->quant == CLV_QUANT_PER_GROUP) {
        scales.rank = 2;
        scales.dims[1] = kind->group ? columns / kind->group : 0;
    }
    if (kind->quant)
        desc.quant_scales = 1 + constant(g, scales);
    return g->status ? CLV_NO_TENSOR : constant(g, desc);
}

static clv_value rows_of(clv_graph *g, const planner_workload *workload,
                         int64_t width)
{
    const clv_dim dims[] = {clv_dim_fixed(workload->n), clv_dim_fixed(width)};
    return clv_graph_input(g, "x", workload->kind.dtype, 2, dims);
}

static clv_value ids_of(clv_graph *g, const planner_workload *workload)
{
    const clv_dim n = clv_dim_fixed(workload->n);
    return clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
}

static clv_value state_of(clv_graph *g, const planner_workload *workload,
                          int64_t rows)
{
    const int64_t dims[] = {rows, workload->in};
    return clv_graph_state(g, "state", workload->kind.weight_dtype, 2, dims);
}

static void add_experts(clv_graph *g, const planner_workload *w, set *s)
{
    const planner_workload_kind *kind = &w->kind;
    const clv_dim n = clv_dim_fixed(w->n);
    const clv_dim ids[] = {n, clv_dim_fixed(kind->span)};
    const clv_dim scores[] = {n, clv_dim_fixed(kind->variant)};
    s->in[0] = rows_of(
        g, w, kind->detail & PLANNER_EXPERTS_EACH ? w->in * kind->span : w->in);
    s->in[1] =
        constant(g, (clv_tensor_desc){.dtype = kind->weight_dtype,
                                      .rank = 3,
                                      .dims = {w->depth, w->out, w->in}});
    s->in[2] = clv_graph_input(g, "ids", CLV_DTYPE_I32, 2, ids);
    if (kind->detail & PLANNER_EXPERTS_SCORES)
        s->in[3] = clv_graph_input(g, "scores", kind->dtype, 2, scores);
}

static clv_value optional_vector(clv_graph *g, uint32_t dtype, int64_t n)
{
    return dtype ? vector(g, dtype, n) : CLV_NO_TENSOR;
}

static void add_operands(clv_graph *g, const planner_workload *w, set *s)
{
    const planner_workload_kind *kind = &w->kind;
    const uint32_t op_class = clv_op_class_of(kind->op);
    s->in[0] = s->in[1] = s->in[2] = s->in[3] = s->in[4] = CLV_NO_TENSOR;
    switch (op_class) {
    case CLV_CLASS_GET_ROWS:
        s->in[0] = matrix(g, kind, planner_workload_table_rows(w), w->out);
        s->in[1] = ids_of(g, w);
        return;
    case CLV_CLASS_SET_ROWS:
        s->in[0] = state_of(g, w, planner_workload_table_rows(w));
        s->in[1] = rows_of(g, w, w->in);
        s->in[2] = ids_of(g, w);
        return;
    case CLV_CLASS_EXPERTS:
        add_experts(g, w, s);
        return;
    case CLV_CLASS_ATTENTION:
        s->in[0] = rows_of(g, w, w->out);
        s->in[1] = state_of(g, w, is_apart(w) ? w->n * w->depth : w->depth);
        s->in[2] = state_of(g, w, is_apart(w) ? w->n * w->depth : w->depth);
        s->in[3] = ids_of(g, w);
        if (is_apart(w))
            s->in[4] = ids_of(g, w);
        return;
    }
    s->in[0] = rows_of(g, w, w->in);
    if (op_class == CLV_CLASS_MATMUL) {
        s->in[1] = matrix(g, kind, w->out, w->in);
        s->in[2] = optional_vector(g, kind->variant, w->out);
    } else if (op_class == CLV_CLASS_NORM) {
        s->in[1] = vector(g, kind->weight_dtype, w->in);
        s->in[2] = optional_vector(g, kind->variant, w->in);
    } else if (op_class == CLV_CLASS_HEAD_NORM) {
        s->in[1] = vector(g, kind->weight_dtype, kind->variant);
    } else if (op_class == CLV_CLASS_ROPE) {
        s->in[1] = ids_of(g, w);
        s->in[2] = vector(g, CLV_DTYPE_F32, kind->span / 2);
    } else if (op_class == CLV_CLASS_BINARY || op_class == CLV_CLASS_GATED) {
        s->in[1] = kind->detail ? vector(g, kind->weight_dtype, w->in)
                                : rows_of(g, w, w->in);
    }
}

static clv_op_attr attributes_of(const planner_workload *w)
{
    const planner_workload_kind *kind = &w->kind;
    const clv_op_info *info = clv_op_find(kind->op);
    const clv_attr_field *field;
    clv_op_attr attr = {.raw = {0}};
    switch (clv_op_class_of(kind->op)) {
    case CLV_CLASS_NORM:
        attr.norm.eps = EPSILON;
        break;
    case CLV_CLASS_HEAD_NORM:
        attr.norm.eps = EPSILON;
        attr.norm.head_dim = kind->variant;
        break;
    case CLV_CLASS_ROPE:
        attr.rope.mode = kind->detail;
        attr.rope.head_dim = kind->variant;
        break;
    case CLV_CLASS_ATTENTION:
        attr.attention.head_dim = kind->variant;
        attr.attention.scale = 1 / sqrtf((float)kind->variant);
        attr.attention.softcap =
            kind->detail & PLANNER_ATTENTION_SOFTCAP ? SOFTCAP : 0;
        attr.attention.apart = is_apart(w);
        attr.attention.window = (int32_t)kind->span;
        break;
    case CLV_CLASS_EXPERTS:
        attr.experts.total = (int32_t)kind->variant;
        break;
    case CLV_CLASS_UNARY:
    case CLV_CLASS_GATED:
        for (uint32_t i = 0; (field = clv_op_field(info, i)); i++)
            clv_attr_set(&attr, field,
                         field->type == CLV_ATTR_ENUM ? kind->variant : 1);
        break;
    }
    return attr;
}

static clv_value add_node(clv_graph *g, const planner_workload *w, const set *s)
{
    const clv_op_info *info = clv_op_find(w->kind.op);
    const clv_op_attr attr = attributes_of(w);
    const clv_tensor_desc like = {.dtype = w->kind.variant,
                                  .dims = {0, w->out}};
    uint32_t n = info ? info->n_inputs : 0;
    if (w->kind.op == CLV_OP_ATTENTION && !is_apart(w))
        n = info->n_required;
    return clv_graph_op(g, w->kind.op, &attr, s->in, n, &like);
}

static clv_status check(const planner_workload *w)
{
    if (w->n < 1 || w->in < 1 || w->out < 1 || w->n > INT32_MAX ||
        w->in > INT32_MAX || w->out > INT32_MAX || w->depth > INT32_MAX ||
        (is_apart(w) && w->n * w->depth > INT32_MAX) ||
        w->kind.span > INT32_MAX ||
        (clv_op_class_of(w->kind.op) == CLV_CLASS_ATTENTION || is_experts(w)) !=
            (w->depth > 0) ||
        (is_experts(w) && w->depth > w->kind.variant))
        return clv_error(CLV_ERR_INVALID, "its sizes are out of range");
    return CLV_OK;
}

static clv_status fill(clv_graph *g, const planner_workload *workload,
                       uint32_t nodes, set *sets, uint32_t n_sets)
{
    for (uint32_t i = 0; i < nodes && !g->status; i++) {
        if (i < n_sets)
            add_operands(g, workload, &sets[i]);
        clv_value y = add_node(g, workload, &sets[i % n_sets]);
        if (y != CLV_NO_TENSOR)
            clv_graph_output(g, y, "y");
        if (!g->status)
            g->nodes[g->n_nodes - 1].variant = workload->kind.way;
    }
    return g->status;
}

clv_status planner_workload_graph(const planner_workload *workload,
                                  uint32_t nodes, uint32_t sets,
                                  clv_graph **out)
{
    char text[PLANNER_WORKLOAD_TEXT];
    clv_graph *g = NULL;
    *out = NULL;
    clv_status status = check(workload);
    sets = sets < nodes ? sets : nodes;
    set *operands = calloc(sets, sizeof *operands);
    if (!status && !operands)
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory for %u nodes", nodes);
    if (!status)
        status = clv_graph_create(&g);
    if (!status)
        status = fill(g, workload, nodes, operands, sets);
    free(operands);
    if (status) {
        if (g && g->message[0])
            clv_error(status, "%s", g->message);
        clv_graph_destroy(g);
        return clv_error_prefix(status, "%s",
                                planner_workload_text(workload, text));
    }
    *out = g;
    return CLV_OK;
}
