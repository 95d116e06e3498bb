#include "cost.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

npu_path npu_matmul_path(const npu_settings *s, const clv_tensor_desc *w,
                         int64_t rows)
{
    const clv_format *format = clv_format_of(w->dtype);
    const bool integers = format->format_class == CLV_FORMAT_INTEGER;
    /* Blocks whose integers have one scale and no minimum are groups too. */
    const bool groups =
        w->quant == CLV_QUANT_PER_GROUP ||
        (format->group == format->elements && format->minimum_at < 0);
    if (s->model == NPU_ROOFLINE)
        return s->half ? NPU_PATH_F16 : NPU_PATH_F32;
    const bool floats = s->arrays[NPU_F16].macs > 0;
    const bool small = s->arrays[NPU_I8].macs > 0;
    if (integers && !groups && small && (!floats || rows <= s->int8_rows))
        return NPU_PATH_I8;
    if (floats)
        return NPU_PATH_F16;
    return groups ? NPU_PATH_I8_GROUPS : NPU_PATH_NONE;
}

bool npu_has_wide(const npu_settings *s)
{
    return s->model == NPU_SYSTOLIC && s->arrays[NPU_I8].patch_columns > 1;
}

/* What a node does, apart from its fixed time. */
typedef struct load {
    double ns, bytes; /* time of computing, bytes moved */
} load;

static int64_t size_of(const clv_tensor_desc *t, uint32_t i,
                       const int64_t *symbols)
{
    int64_t n =
        symbols && t->symbols[i] ? symbols[t->symbols[i] - 1] : t->dims[i];
    return n > 0 ? n : 0;
}

static double elements_of(const clv_tensor_desc *t, const int64_t *symbols)
{
    double n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (double)size_of(t, i, symbols);
    return n;
}

/* Bytes that are moved to read or write a whole tensor. */
static double traffic(const npu_settings *s, const clv_tensor_desc *t,
                      const int64_t *symbols)
{
    bool stored = t->usage == CLV_USAGE_WEIGHT || t->usage == CLV_USAGE_STATE ||
                  t->dtype == CLV_DTYPE_I32;
    return elements_of(t, symbols) *
           (stored ? npu_dtype_size(t->dtype) : s->activation_size);
}

static load one_product(const npu_settings *s, npu_path path, int64_t n,
                        int64_t i, int64_t o, npu_operand w, load *fill)
{
    const npu_array *unit = &s->arrays[path == NPU_PATH_F16 ? NPU_F16 : NPU_I8];
    npu_operand x = {s->activation_size, false};
    w.narrow = w.narrow && path == NPU_PATH_F16;
    npu_gemm_cost c =
        npu_matmul_time(unit, n, i, o, x, w, s->activation_size, NULL);
    fill->ns += c.fill_ns;
    return (load){npu_gemm_busy_ns(&c), c.bytes};
}

/* The rate of products with this weight. */
static const npu_roofline *product_rate(const npu_settings *s,
                                        const clv_tensor_desc *w)
{
    if (s->rooflines[NPU_I8].rate > 0 &&
        !clv_format_is(w->dtype, CLV_FORMAT_FLOAT))
        return &s->rooflines[NPU_I8];
    return &s->rooflines[s->half ? NPU_F16 : NPU_F32];
}

/* Rows of the activation as the unit takes them, and what laying them out and
 * the result back takes. */
static int64_t points_of(const npu_settings *s, uint32_t variant, int64_t n,
                         int64_t i, int64_t o, double *ns)
{
    const npu_array *unit = &s->arrays[NPU_I8]; /* alike in all formats */
    const bool wide = variant == NPU_VARIANT_WIDE;
    *ns = wide ? (double)n * (double)(i + o) / s->vector * 1e9 : 0;
    return npu_picture_points(unit, n, wide ? unit->patch_columns : 1);
}

static load matmul_load(const npu_settings *s, npu_path path, uint32_t variant,
                        const clv_tensor_desc *x, const clv_tensor_desc *w,
                        const int64_t *symbols, load *fill)
{
    const int64_t n = size_of(x, 0, symbols);
    const int64_t i = w->dims[1], o = w->dims[0];
    const double products = (double)n * (double)i * (double)o;
    const npu_operand weight = {npu_dtype_size(w->dtype),
                                !clv_format_is(w->dtype, CLV_FORMAT_FLOAT)};
    if (n < 1 || i < 1 || o < 1)
        return (load){0, 0};
    if (s->model == NPU_ROOFLINE) {
        return (load){npu_roofline_compute_ns(product_rate(s, w), 2 * products),
                      (double)(i * o) * weight.bytes +
                          (double)(n * (i + o)) * s->activation_size};
    }
    double layout_ns;
    const int64_t points = points_of(s, variant, n, i, o, &layout_ns);
    if (path != NPU_PATH_I8_GROUPS) {
        const load l = one_product(s, path, points, i, o, weight, fill);
        fill->ns += layout_ns;
        return l;
    }
    /* One product for each group; the vector unit adds them up. */
    int64_t group = w->quant == CLV_QUANT_PER_GROUP
                        ? w->quant_group
                        : clv_format_of(w->dtype)->group;
    double groups = (double)((i + group - 1) / group);
    load l = one_product(s, path, points, group, o, weight, fill);
    fill->ns = fill->ns * groups + layout_ns;
    l.ns = groups * (l.ns + 2 * (double)n * (double)o / s->vector * 1e9);
    l.bytes *= groups;
    return l;
}

/* So many products, and the bytes of so many experts. */
static load chosen_load(const npu_settings *s, const clv_subgraph *g,
                        const clv_node *node, const int64_t *symbols,
                        double experts, double products)
{
    const clv_tensor_desc *w = npu_input(g, node, 1);
    const double one = (double)w->dims[1] * (double)w->dims[2];
    return (load){
        npu_roofline_compute_ns(product_rate(s, w), 2 * products * one),
        experts * one * npu_dtype_size(w->dtype) +
            (elements_of(npu_input(g, node, 0), symbols) +
             elements_of(&g->tensors[node->outputs[0]], symbols)) *
                s->activation_size};
}

/* As many as random choices are expected to take, of the part of all experts
 * that is here. */
static load experts_load(const npu_settings *s, const clv_subgraph *g,
                         const clv_node *node, const int64_t *symbols)
{
    const clv_tensor_desc *x = npu_input(g, node, 0);
    const clv_tensor_desc *w = npu_input(g, node, 1);
    const double rows = (double)size_of(x, 0, symbols);
    const double held = (double)w->dims[0];
    const double all = (double)clv_experts_total(&node->attr, w->dims[0]);
    const double used = (double)npu_input(g, node, 2)->dims[1];
    const double chosen = held * (1 - pow(1 - fmin(used / all, 1), rows));
    return chosen_load(s, g, node, symbols, chosen, rows * used * held / all);
}

/* Rows of the cache that a query's sequence has: those in use, or where shapes
 * are fixed as many as the program was compiled for. */
static double cache_rows(const npu_settings *s, const clv_subgraph *g,
                         const clv_node *node, const int64_t *symbols)
{
    const clv_tensor_desc *k = npu_input(g, node, 1);
    const uint32_t symbol = node->attr.attention.seen_symbol
                                ? node->attr.attention.seen_symbol
                                : node->attr.attention.rows_symbol;
    double rows = (double)size_of(k, 0, symbols);
    if (symbol && symbol <= g->n_symbols) {
        double used = symbols && !s->is_static
                          ? (double)symbols[symbol - 1]
                          : (double)g->symbols[symbol - 1].max;
        rows = used < rows ? used : rows;
    }
    return rows;
}

static load attention_load(const npu_settings *s, const clv_subgraph *g,
                           const clv_node *node, const int64_t *symbols,
                           load *fill)
{
    const clv_tensor_desc *q = npu_input(g, node, 0);
    const clv_tensor_desc *k = npu_input(g, node, 1);
    const int64_t dim = node->attr.attention.head_dim;
    const int64_t n = size_of(q, 0, symbols);
    const double sequences = node->attr.attention.apart ? (double)n : 1;
    const double rows = sequences * cache_rows(s, g, node, symbols);
    const double width = (double)q->dims[1];
    load l = {0, 2 * rows * (double)k->dims[1] * npu_dtype_size(k->dtype) +
                     2 * (double)n * width * s->activation_size};
    /* A query sees its own row and those before it: on average half of the
     * rows of its own batch. Static arrays compute all of them. */
    const double before = rows > (double)n ? rows - (double)n / 2 : rows / 2;
    const double seen = sequences > 1 ? rows / sequences : before;
    if (s->model == NPU_ROOFLINE) {
        l.ns =
            npu_roofline_compute_ns(&s->rooflines[s->half ? NPU_F16 : NPU_F32],
                                    4 * (double)n * width * seen);
        return l;
    }
    const int64_t groups = k->dims[1] / dim;
    const int64_t queries = n * (q->dims[1] / dim / groups);
    if (n < 1 || rows < 1)
        return l;
    const npu_operand cache = {0, false}; /* its bytes are counted above */
    load scores =
        one_product(s, NPU_PATH_F16, queries, dim, (int64_t)rows, cache, fill);
    load mixed =
        one_product(s, NPU_PATH_F16, queries, (int64_t)rows, dim, cache, fill);
    fill->ns *= (double)groups;
    l.ns = (double)groups * (scores.ns + mixed.ns) +
           5 * (double)n * width / (double)dim * rows / s->vector * 1e9;
    return l;
}

static load other_load(const npu_settings *s, const clv_subgraph *g,
                       const clv_node *node, const int64_t *symbols)
{
    load l = {0, 0};
    const bool moves_rows =
        node->op == CLV_OP_GET_ROWS || node->op == CLV_OP_SET_ROWS;
    const clv_tensor_desc *main = node->op == CLV_OP_SET_ROWS
                                      ? npu_input(g, node, 1)
                                      : &g->tensors[node->outputs[0]];
    double rate =
        s->model == NPU_ROOFLINE ? s->rooflines[NPU_F32].rate : s->vector;
    l.ns =
        clv_op_find(node->op)->work * elements_of(main, symbols) / rate * 1e9;
    if (moves_rows) /* only the rows of the table or state that ids name */
        l.bytes =
            elements_of(main, symbols) *
            (npu_dtype_size(npu_input(g, node, 0)->dtype) + s->activation_size);
    for (uint32_t i = 0; !moves_rows && i < node->n_inputs; i++)
        if (npu_input(g, node, i))
            l.bytes += traffic(s, npu_input(g, node, i), symbols);
    if (!moves_rows)
        l.bytes += traffic(s, main, symbols);
    return l;
}

static uint64_t whole(double ns)
{
    return ns > 0 ? ns < 1e18 ? (uint64_t)llround(ns) : (uint64_t)1e18 : 0;
}

static void set_phase(const npu_settings *s, double fixed_ns, load l,
                      npu_phase *out)
{
    double moving = l.bytes / s->bandwidth * 1e9;
    out->fixed_ns = whole(fixed_ns);
    out->work_ns = whole(fmax(l.ns, moving));
    out->bytes = s->memory_size ? 0 : whole(l.bytes); /* of the chip's memory */
}

void npu_node_cost(const npu_settings *s, const clv_subgraph *g, uint32_t index,
                   npu_path path, const int64_t *symbols, npu_phase *out)
{
    const clv_node *node = &g->nodes[index];
    load fill = {0, 0}, l;
    if (node->op == CLV_OP_MATMUL)
        l = matmul_load(s, path, node->variant, npu_input(g, node, 0),
                        npu_input(g, node, 1), symbols, &fill);
    else if (node->op == CLV_OP_ATTENTION)
        l = attention_load(s, g, node, symbols, &fill);
    else if (node->op == CLV_OP_MATMUL_EXPERTS)
        l = experts_load(s, g, node, symbols);
    else
        l = other_load(s, g, node, symbols);
    set_phase(s, s->launch_ns + fill.ns, l, out);
}

void npu_experts_cost(const npu_settings *s, const clv_subgraph *g,
                      uint32_t node, const int64_t *symbols, int64_t experts,
                      int64_t products, npu_phase *out)
{
    const load l = chosen_load(s, g, &g->nodes[node], symbols, (double)experts,
                               (double)products);
    set_phase(s, s->launch_ns, l, out);
}

void npu_move_cost(const npu_settings *s, uint64_t size, bool copy,
                   npu_link link, npu_phase *out)
{
    load l = {link ? (double)size / s->link * 1e9 : 0,
              link ? 0 : (double)size * (copy ? 2 : 1)};
    set_phase(s, copy ? s->copy_ns : s->launch_ns, l, out);
    out->link = link;
    if (link)
        out->bytes = size;
}
