/*
 * Attention: groups of work items take some queries of the heads that share a
 * group of the cache, all cache rows or a part of them; parts are joined by a
 * second dispatch. With matrix instructions a warp takes 16 queries.
 */
#include "matrix.h"
#include "lower/variant.h"

#define F32 GPU_BIT(CLV_DTYPE_F32)
#define MAX_PARTS 16
#define PART_ROWS 128 /* of the cache, at least, for a part */
/* Cache rows that the kernels of matrices take at once. */
#define KEYS 64
#define COOP_KEYS 32

/* How a node is computed. */
typedef struct shape {
    int64_t n, heads, groups, dim, per_group, rows; /* n, rows: at most */
    uint32_t items, queries, d_max, parts;
    bool matrix, turned; /* by matrix instructions; values laid out */
} shape;

/* Whether matrix instructions may be used. */
static bool suits_matrix(const gpu_node *node)
{
    const gpu_target *target = node->target;
    const int64_t dim = node->node.attr.attention.head_dim;
    return gpu_has_matrices(target) && node->in[1].d.dtype == CLV_DTYPE_F16 &&
           dim % 8 == 0 && dim <= 128 &&
           target->max_group >= 128 && target->max_group_size[0] >= 128 &&
           target->local_bytes >= (gpu_is_glsl(target) ? 32 : 48) * 1024u &&
           !gpu_is_disabled(target, "attention_matrix");
}

/* Units of 16 bytes that the values take in attention_coop.clt, whose rows, of
 * the cache or of channels, end with a unit more. */
static uint32_t coop_values(const shape *s)
{
    return s->turned ? s->d_max * (COOP_KEYS / 8 + 1)
                     : COOP_KEYS * (s->d_max / 8 + 1);
}

static uint32_t local_bytes(const gpu_target *target, const shape *s)
{
    if (s->matrix && gpu_is_glsl(target))
        return 2 * COOP_KEYS * (s->d_max + 8) + 16 * coop_values(s) +
               s->queries * (4 * COOP_KEYS + 16 + 64) +
               (target->plain_matrix ? 4 * s->items : 0);
    if (s->matrix)
        return 4 * KEYS * s->d_max + 28 * s->items;
    return 4 * (s->queries * (s->d_max + s->items) + s->items);
}

/* Queries of a group of items: all heads of a group, or several tokens. */
static uint32_t choose_queries(const shape *s)
{
    uint32_t queries = 1, most = s->d_max > 256 ? 2 : 8;
    while (queries < most && queries < s->n * s->per_group)
        queries *= 2;
    return queries;
}

/* Parts of the cache rows, so that few queries keep all compute units busy. */
static uint32_t choose_parts(const gpu_target *target, const shape *s)
{
    int64_t pairs = s->n * s->per_group;
    int64_t busy = (pairs + s->queries - 1) / s->queries * s->groups;
    int64_t parts = 4 * (int64_t)target->units / busy;
    const int64_t least = s->matrix ? KEYS : PART_ROWS;
    if (parts > s->rows / least)
        parts = s->rows / least;
    if (parts < 2 || gpu_is_disabled(target, "attention_join"))
        return 1;
    if (parts > MAX_PARTS)
        parts = MAX_PARTS;
    uint32_t power = 2;
    while (2 * power <= parts)
        power *= 2;
    return power;
}

/* Without tuning. */
static shape preferred_shape(const gpu_node *node)
{
    const gpu_target *target = node->target;
    shape s = {.n = gpu_max_rows(&node->in[0]),
               .dim = node->node.attr.attention.head_dim,
               .rows = gpu_max_rows(&node->in[1]), .d_max = 64};
    s.heads = node->in[0].d.dims[1] / s.dim;
    s.groups = node->in[1].d.dims[1] / s.dim;
    s.per_group = s.heads / s.groups;
    while (s.d_max < s.dim)
        s.d_max *= 2;
    s.matrix = suits_matrix(node);
    s.turned = gpu_is_spread(&node->in[2]);
    if (s.matrix) {
        if (gpu_is_glsl(target))
            s.d_max = (uint32_t)(s.dim + 15) / 16 * 16;
        s.queries = 64; /* also for few: four warps load quicker than one */
        s.items = 2 * s.queries;
    } else {
        s.queries = choose_queries(&s);
        s.items = 64;
        while (s.items > s.queries && (s.items > target->max_group ||
                                       s.items > target->max_group_size[0]))
            s.items /= 2;
    }
    s.parts = choose_parts(target, &s);
    return s;
}

static bool fits(const gpu_target *target, const shape *s)
{
    return s->items >= s->queries && s->items <= target->max_group &&
           s->items <= target->max_group_size[0] &&
           local_bytes(target, s) <= target->local_bytes &&
           s->n * s->per_group <= (int64_t)s->queries * GPU_MAX_GROUPS &&
           s->groups <= GPU_MAX_GROUPS;
}

/* A way is three powers of two: items, queries and parts; and whether it is by
 * matrix instructions. */
#define MATRIX_WAY 0x1000u

static uint32_t way_of(const shape *s)
{
    return (s->matrix ? MATRIX_WAY : 0) | gpu_size_class(s->items) << 8 |
           gpu_size_class(s->queries) << 4 | gpu_size_class(s->parts);
}

static void set_way(shape *s, uint32_t way)
{
    s->matrix = way & MATRIX_WAY;
    s->items = 1u << (way / 256 % 16);
    s->queries = 1u << (way / 16 % 16);
    s->parts = 1u << (way % 16);
}

static void add_way(const gpu_target *target, shape s, uint32_t items,
                    uint32_t queries, uint32_t parts, gpu_ways *out)
{
    s.items = items;
    s.queries = queries;
    s.parts = parts;
    if (parts > 1 && (gpu_is_disabled(target, "attention_join") ||
                      (int64_t)parts * 32 > s.rows))
        return;
    if (fits(target, &s))
        gpu_way_add(out, way_of(&s));
}

/* The preferred shape, and those that differ from it in one number. */
static void list_ways(const gpu_node *node, gpu_ways *out)
{
    const gpu_target *target = node->target;
    const shape s = preferred_shape(node);
    out->preferred = way_of(&s);
    snprintf(out->key, sizeof out->key, "attention%s-%s-h%u-g%u-d%u-n%u-r%u",
             s.turned ? "-turned" : "",
             gpu_dtype_name(node->in[1].d.dtype), gpu_size_class(s.heads),
             gpu_size_class(s.groups), gpu_size_class(s.dim),
             gpu_size_class(s.n), gpu_size_class(s.rows));
    gpu_way_add(out, out->preferred);
    for (uint32_t x = 1; x <= MAX_PARTS; x *= 2)
        if (x != s.parts)
            add_way(target, s, s.items, s.queries, x, out);
    if (s.matrix) {
        for (uint32_t x = 16; x <= (gpu_is_glsl(target) ? 128 : 64); x *= 2)
            if (x != s.queries)
                add_way(target, s, 2 * x, x, s.parts, out);
        return;
    }
    for (uint32_t x = 32; x <= 256; x *= 2)
        if (x != s.items)
            add_way(target, s, x, s.queries, s.parts, out);
    for (uint32_t x = 1; x <= 8; x *= 2)
        if (x != s.queries && x < 2 * s.n * s.per_group)
            add_way(target, s, s.items, x, s.parts, out);
}

static shape read_shape(const gpu_node *node)
{
    gpu_ways ways = {.n = 0};
    shape s = preferred_shape(node);
    list_ways(node, &ways);
    set_way(&s, gpu_choice(node->target, &ways));
    return s;
}

/* ------------------------------------------------------------------------ */
/* What is taken                                                             */

#define MAX_HEAD_DIM 1024

static bool check_heads(gpu_node *node)
{
    const gpu_tensor *q = &node->in[0], *k = &node->in[1];
    const int64_t dim = node->node.attr.attention.head_dim;
    if (dim < 1 || dim > MAX_HEAD_DIM)
        return gpu_no(node, "head_dim %lld is not in 1..%d", (long long)dim,
                      MAX_HEAD_DIM);
    if (q->d.symbols[1] || k->d.symbols[1] || q->d.dims[1] % dim ||
        k->d.dims[1] % dim || q->d.dims[1] % k->d.dims[1])
        return gpu_no(node, "q and k are not whole heads and groups of %lld",
                      (long long)dim);
    return true;
}

static bool check_operands(gpu_node *node)
{
    const uint32_t cache = F32 | GPU_BIT(CLV_DTYPE_F16);
    const gpu_tensor *q = &node->in[0], *k = &node->in[1], *v = &node->in[2];
    const gpu_tensor *pos = &node->in[3], *y = &node->out;
    if (!gpu_need(node, q, "q", F32, 2) ||
        !gpu_need_state(node, k, "k", cache) ||
        !gpu_need_state(node, v, "v", cache) ||
        !gpu_need(node, pos, "pos", GPU_BIT(CLV_DTYPE_I32), 1) ||
        !gpu_need(node, y, "output 0", F32, 2))
        return false;
    if (k->d.dtype != v->d.dtype || !gpu_same_dims(k, v))
        return gpu_no(node, "k and v differ in dtype or dimensions");
    if (!gpu_same_dims(q, y) || !gpu_same_dim(q, 0, pos, 0))
        return gpu_no(node, "output 0 is not as q, or pos has not one entry a "
                      "query");
    return check_heads(node) && gpu_in_reach(node, q, "q") &&
           gpu_in_reach(node, k, "k") && gpu_in_reach(node, v, "v") &&
           gpu_in_reach(node, y, "output 0");
}

static bool check_attention(gpu_node *node)
{
    const gpu_target *target = node->target;
    if (!check_operands(node))
        return false;
    if (node->node.attr.attention.window < 0)
        return gpu_no(node, "window %d is negative",
                      (int)node->node.attr.attention.window);
    if (node->node.attr.attention.rows_symbol > node->n_symbols)
        return gpu_no(node, "rows_symbol names no symbol");
    const shape s = preferred_shape(node);
    if (gpu_is_disabled(target, "attention") || s.items < s.queries ||
        (s.turned && s.items % 4) ||
        s.items > target->max_group ||
        local_bytes(target, &s) > target->local_bytes)
        return gpu_no(node, "no kernel fits groups of %u and %u bytes of local "
                      "memory", (unsigned)target->max_group,
                      (unsigned)target->local_bytes);
    if (s.n * s.per_group > (int64_t)s.queries * GPU_MAX_GROUPS ||
        s.groups > GPU_MAX_GROUPS)
        return gpu_no(node, "%lld queries of %lld heads are more than a "
                      "dispatch takes", (long long)s.n, (long long)s.heads);
    if (suits_matrix(node))
        node->caps.error_class = CLV_ERROR_F16;
    node->caps.split_axes = CLV_SPLIT_SEQUENCE | CLV_SPLIT_HEADS;
    node->caps.split_granularity[3] = s.per_group;
    return true;
}

/* ------------------------------------------------------------------------ */
/* Dispatches                                                                */

static clv_status make_text(gpu_text *text, const gpu_target *target,
                            const shape *s)
{
    gpu_puts(text, gpu_template_packed);
    if (s->matrix)
        gpu_puts(text, gpu_matrix_words(target));
    gpu_puts(text, !s->matrix            ? gpu_template_attention
                   : gpu_is_glsl(target) ? gpu_template_attention_coop
                                         : gpu_template_attention_matrix);
    return text->failed ? CLV_ERR_NO_MEMORY : CLV_OK;
}

/* Cache rows in use: those that there are, and a bound on them that holds in
 * this run. */
static gpu_expr rows_used(const gpu_node *node, const gpu_operand *k)
{
    const uint32_t symbol = node->node.attr.attention.rows_symbol;
    return symbol ? (gpu_expr){.factor = 1, .divisor = 1, .symbol = symbol}
                  : k->width;
}

/* What the parts write, [n * heads * parts, dim + 2] in private memory. */
static void add_partial(gpu_call *call, const char *name, const shape *s,
                        uint32_t buffer, bool written)
{
    gpu_operand *o = &call->operands[call->n_operands++];
    *o = (gpu_operand){.name = name, .dtype = CLV_DTYPE_F32,
                       .written = written, .memory = GPU_MEMORY_PRIVATE,
                       .index = buffer, .packed = true,
                       .width = gpu_constant(s->n * s->heads * s->parts),
                       .channels = gpu_constant(s->dim + 2)};
    for (uint32_t i = 0; i < 5; i++)
        o->strides[i] = gpu_constant(0);
    o->strides[CLV_L_W] = gpu_constant(4 * (s->dim + 2));
}

static clv_status add_scores(gpu_lowering *lowering, const gpu_node *node,
                             const shape *s, const char *text, uint32_t buffer)
{
    gpu_call call;
    const clv_op_attr *attr = &node->node.attr;
    gpu_call_init(&call, s->matrix ? "attention_matrix" : "attention", text,
                  node->index, s->items);
    const gpu_operand *q = gpu_call_rows(&call, "x", &node->in[0], false);
    gpu_operand *k = gpu_call_rows(&call, "keys", &node->in[1], false);
    gpu_operand *v = gpu_call_rows(&call, "values", &node->in[2], false);
    k->quads = v->quads = s->matrix;
    gpu_call_rows(&call, "pos", &node->in[3], false);
    if (s->parts > 1)
        add_partial(&call, "dst", s, buffer, true);
    else
        gpu_call_rows(&call, "dst", &node->out, true);
    const gpu_expr used = rows_used(node, k);
    gpu_call_param(&call, "rows_used", used);
    gpu_call_param(&call, "part_rows", gpu_ceil(used, s->parts));
    gpu_call_param(&call, "head_dim", gpu_constant(s->dim));
    gpu_call_param(&call, "heads", gpu_constant(s->heads));
    gpu_call_param(&call, "group_heads", gpu_constant(s->per_group));
    gpu_call_param(&call, "span", gpu_constant(attr->attention.window));
    gpu_call_param(&call, "scale", gpu_float(attr->attention.scale));
    gpu_call_param(&call, "softcap", gpu_float(attr->attention.softcap
                                                    ? attr->attention.softcap
                                                    : 0.0f));
    gpu_call_define(&call, "DTYPE", node->in[1].d.dtype);
    gpu_call_define(&call, "VALUES_TURNED", s->turned);
    gpu_call_define(&call, "V_SIZE", coop_values(s));
    gpu_call_param(&call, "value_step",
                   gpu_constant(node->in[2].d.strides[1]));
    gpu_call_define(&call, s->matrix ? "ITEMS" : "GROUP", s->items);
    gpu_call_define(&call, "QUERIES", s->queries);
    gpu_call_define(&call, "KEYS",
                    gpu_is_glsl(node->target) ? COOP_KEYS : KEYS);
    gpu_call_define(&call, "D_MAX", s->d_max);
    gpu_call_define(&call, "PARTS", s->parts);
    gpu_expr pairs = q->width;
    pairs.constant *= s->per_group;
    pairs.factor *= s->per_group;
    call.groups[0] = gpu_ceil(pairs, s->queries);
    call.groups[1] = gpu_constant(s->groups);
    call.groups[2] = gpu_constant(s->parts);
    return gpu_build(&lowering->builder, &call, false);
}

static clv_status add_join(gpu_lowering *lowering, const gpu_node *node,
                           const shape *s, uint32_t buffer)
{
    gpu_call call;
    gpu_call_init(&call, "attention_join", gpu_template_attention_join,
                  node->index, s->items);
    add_partial(&call, "part", s, buffer, false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "head_dim", gpu_constant(s->dim));
    gpu_call_param(&call, "heads", gpu_constant(s->heads));
    gpu_call_define(&call, "PARTS", s->parts);
    gpu_expr all = dst->width;
    all.constant *= s->heads * s->dim;
    all.factor *= s->heads * s->dim;
    call.groups[0] = gpu_ceil(all, s->items);
    return gpu_build(&lowering->builder, &call, false);
}

static clv_status lower_attention(gpu_lowering *lowering, const gpu_node *node)
{
    const shape s = read_shape(node);
    const clv_host_api *host = lowering->builder.host;
    gpu_text text = {.host = host};
    uint32_t buffer = 0;
    clv_status status = make_text(&text, node->target, &s);
    if (!status && s.parts > 1)
        status = gpu_share_scratch(lowering, GPU_SCRATCH_PARTS,
                                   (uint64_t)(s.n * s.heads * s.parts) *
                                       (uint64_t)(s.dim + 2) * 4, &buffer);
    if (!status)
        status = add_scores(lowering, node, &s, text.data, buffer);
    if (!status && s.parts > 1)
        status = add_join(lowering, node, &s, buffer);
    gpu_text_free(&text);
    return status;
}

static uint32_t slices(const gpu_node *node)
{
    const shape s = read_shape(node);
    if (s.matrix)
        return 0;
    return 1 | (s.parts == 1 && s.dim % 4 == 0 ? GPU_SLICES_OUT : 0);
}

const gpu_op gpu_op_attention = {"attention", CLV_OP_ATTENTION, 4, 4, 1,
                                 check_attention, lower_attention, false,
                                 list_ways, slices};
