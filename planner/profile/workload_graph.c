#include "workload_graph.h"

#include "../../core/graph/shape.h"

#include <stdlib.h>
#include <string.h>

#define SET_MAX 4      /* inputs of a node */
#define TABLE_FACTOR 8 /* rows of a table for each that is read */
#define TABLE_LEAST 64
#define SOFTCAP 30.0f
#define EPSILON 1e-5f

typedef struct set {
    clv_value in[SET_MAX];
} set;

int64_t planner_workload_table_rows(const core_workload *workload)
{
    int64_t rows = workload->n < INT32_MAX / TABLE_FACTOR
                       ? workload->n * TABLE_FACTOR
                       : INT32_MAX;
    return rows > TABLE_LEAST ? rows : TABLE_LEAST;
}

int64_t planner_workload_n_ids(const core_workload *workload)
{
    return workload->kind.op == CLV_OP_MATMUL_EXPERTS
               ? workload->n * workload->kind.span
               : workload->n;
}

/* As if by chance, but for the ids of a row, which lie far apart. */
static void choose_experts(const core_workload *workload, int32_t *ids)
{
    const uint32_t all = workload->kind.variant, used = workload->kind.span;
    const uint32_t step = all > used ? all / used : 1;
    for (int64_t i = 0; i < workload->n; i++)
        for (uint32_t k = 0; k < used; k++)
            *ids++ = (int32_t)((((uint32_t)i * 2654435761u >> 16) +
                                (uint64_t)k * step) %
                               all);
}

/* Rows all over a table, none twice; positions up to the last row in use. */
void planner_workload_ids(const core_workload *workload, int32_t *ids)
{
    if (workload->kind.op == CLV_OP_MATMUL_EXPERTS) {
        choose_experts(workload, ids);
        return;
    }
    for (int64_t i = 0; i < workload->n; i++) {
        int64_t id = i;
        if (workload->kind.op == CLV_OP_GET_ROWS)
            id = i * TABLE_FACTOR + i * 5 % TABLE_FACTOR;
        else if (workload->kind.op == CLV_OP_ATTENTION)
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
static clv_value matrix(clv_graph *g, const core_workload_kind *kind,
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

static clv_value rows_of(clv_graph *g, const core_workload *workload,
                         int64_t width)
{
    const clv_dim dims[] = {clv_dim_fixed(workload->n), clv_dim_fixed(width)};
    return clv_graph_input(g, "x", workload->kind.dtype, 2, dims);
}

static clv_value ids_of(clv_graph *g, const core_workload *workload)
{
    const clv_dim n = clv_dim_fixed(workload->n);
    return clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
}

static clv_value state_of(clv_graph *g, const core_workload *workload,
                          int64_t rows)
{
    const int64_t dims[] = {rows, workload->in};
    return clv_graph_state(g, "state", workload->kind.weight_dtype, 2, dims);
}

static void add_experts(clv_graph *g, const core_workload *w, set *s)
{
    const core_workload_kind *kind = &w->kind;
    const clv_dim n = clv_dim_fixed(w->n);
    const clv_dim ids[] = {n, clv_dim_fixed(kind->span)};
    const clv_dim scores[] = {n, clv_dim_fixed(kind->variant)};
    s->in[0] = rows_of(
        g, w, kind->detail & CORE_EXPERTS_EACH ? w->in * kind->span : w->in);
    s->in[1] =
        constant(g, (clv_tensor_desc){.dtype = kind->weight_dtype,
                                      .rank = 3,
                                      .dims = {kind->variant, w->out, w->in}});
    s->in[2] = clv_graph_input(g, "ids", CLV_DTYPE_I32, 2, ids);
    if (kind->detail & CORE_EXPERTS_SCORES)
        s->in[3] = clv_graph_input(g, "scores", kind->dtype, 2, scores);
}

static clv_value optional_vector(clv_graph *g, uint32_t dtype, int64_t n)
{
    return dtype ? vector(g, dtype, n) : CLV_NO_TENSOR;
}

static void add_operands(clv_graph *g, const core_workload *w, set *s)
{
    const core_workload_kind *kind = &w->kind;
    s->in[0] = s->in[1] = s->in[2] = s->in[3] = CLV_NO_TENSOR;
    switch (kind->op) {
    case CLV_OP_GET_ROWS:
        s->in[0] = matrix(g, kind, planner_workload_table_rows(w), w->out);
        s->in[1] = ids_of(g, w);
        return;
    case CLV_OP_SET_ROWS:
        s->in[0] = state_of(g, w, planner_workload_table_rows(w));
        s->in[1] = rows_of(g, w, w->in);
        s->in[2] = ids_of(g, w);
        return;
    case CLV_OP_MATMUL_EXPERTS:
        add_experts(g, w, s);
        return;
    case CLV_OP_ATTENTION:
        s->in[0] = rows_of(g, w, w->out);
        s->in[1] = state_of(g, w, w->depth);
        s->in[2] = state_of(g, w, w->depth);
        s->in[3] = ids_of(g, w);
        return;
    default:
        s->in[0] = rows_of(g, w, w->in);
    }
    switch (kind->op) {
    case CLV_OP_MATMUL:
        s->in[1] = matrix(g, kind, w->out, w->in);
        s->in[2] = optional_vector(g, kind->variant, w->out);
        break;
    case CLV_OP_ADD:
    case CLV_OP_MUL:
        s->in[1] = kind->detail ? vector(g, kind->weight_dtype, w->in)
                                : rows_of(g, w, w->in);
        break;
    case CLV_OP_GLU:
        s->in[1] = rows_of(g, w, w->in);
        break;
    case CLV_OP_RMS_NORM:
    case CLV_OP_LAYER_NORM:
        s->in[1] = vector(g, kind->weight_dtype, w->in);
        s->in[2] = optional_vector(g, kind->variant, w->in);
        break;
    case CLV_OP_ROPE:
        s->in[1] = ids_of(g, w);
        s->in[2] = vector(g, CLV_DTYPE_F32, kind->span / 2);
        break;
    default:
        break;
    }
}

static clv_value attend(clv_graph *g, const core_workload *w, const set *s)
{
    const clv_attention_params params = {
        .head_dim = w->kind.variant,
        .softcap = w->kind.detail ? SOFTCAP : 0,
        .window = (int32_t)w->kind.span,
    };
    return clv_graph_attention(g, s->in[0], s->in[1], s->in[2], s->in[3],
                               &params);
}

static clv_value add_node(clv_graph *g, const core_workload *w, const set *s)
{
    const clv_value *in = s->in;
    const core_workload_kind *kind = &w->kind;
    switch (kind->op) {
    case CLV_OP_GET_ROWS:
        return clv_graph_get_rows(g, in[0], in[1]);
    case CLV_OP_SET_ROWS:
        clv_graph_set_rows(g, in[0], in[1], in[2]);
        return CLV_NO_TENSOR;
    case CLV_OP_MATMUL:
        return clv_graph_matmul(g, in[0], in[1], in[2]);
    case CLV_OP_ADD:
        return clv_graph_add(g, in[0], in[1]);
    case CLV_OP_MUL:
        return clv_graph_mul(g, in[0], in[1]);
    case CLV_OP_SILU:
        return clv_graph_silu(g, in[0]);
    case CLV_OP_GELU:
        return clv_graph_gelu(g, in[0]);
    case CLV_OP_GLU:
        return clv_graph_glu(g, in[0], in[1], kind->variant);
    case CLV_OP_RMS_NORM:
        return clv_graph_rms_norm(g, in[0], in[1], EPSILON);
    case CLV_OP_LAYER_NORM:
        return clv_graph_layer_norm(g, in[0], in[1], in[2], EPSILON);
    case CLV_OP_ROPE:
        return clv_graph_rope(g, in[0], in[1], in[2], kind->detail,
                              kind->variant, 0);
    case CLV_OP_SOFTMAX:
        return clv_graph_softmax(g, in[0]);
    case CLV_OP_ATTENTION:
        return attend(g, w, s);
    case CLV_OP_CONVERT:
        return clv_graph_convert(g, in[0], kind->variant);
    case CLV_OP_TOP_K:
        return clv_graph_top_k(g, in[0], (uint32_t)w->out);
    case CLV_OP_MATMUL_EXPERTS:
        return clv_graph_matmul_experts(g, in[0], in[1], in[2], in[3], false);
    default:
        fail(g, clv_error(CLV_ERR_UNSUPPORTED, "op %u is unknown", kind->op));
        return CLV_NO_TENSOR;
    }
}

static clv_status check(const core_workload *w)
{
    if (w->n < 1 || w->in < 1 || w->out < 1 || w->n > INT32_MAX ||
        w->in > INT32_MAX || w->out > INT32_MAX || w->depth > INT32_MAX ||
        w->kind.span > INT32_MAX ||
        (w->kind.op == CLV_OP_ATTENTION) != (w->depth > 0))
        return clv_error(CLV_ERR_INVALID, "its sizes are out of range");
    return CLV_OK;
}

static clv_status fill(clv_graph *g, const core_workload *workload,
                       uint32_t nodes, set *sets, uint32_t n_sets)
{
    for (uint32_t i = 0; i < nodes && !g->status; i++) {
        if (i < n_sets)
            add_operands(g, workload, &sets[i]);
        clv_value y = add_node(g, workload, &sets[i % n_sets]);
        if (y != CLV_NO_TENSOR)
            clv_graph_output(g, y, "y");
    }
    return g->status;
}

clv_status planner_workload_graph(const core_workload *workload, uint32_t nodes,
                                  uint32_t sets, clv_graph **out)
{
    char text[CORE_WORKLOAD_TEXT];
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
                                core_workload_text(workload, text));
    }
    *out = g;
    return CLV_OK;
}
