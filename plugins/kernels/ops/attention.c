/*
 * Attention: groups of work items take some queries of the heads that share a
 * group of the cache, all cache rows or a part of them; a second dispatch
 * reduces the parts. With tensor cores a warp takes 16 queries in prefill;
 * decode has a kernel of its own, in attention_decode.c.
 */
#include "ops/attention.h"
#include "ops/tiles.h"

#define MAX_PARTS 16
#define PART_ROWS 128   /* of the cache, at least, for a part */
#define TENSOR_ROWS 64  /* the same with matrix instructions */
#define DECODE_PAIRS 64 /* queries and heads of a group, for decode */

/* Whether matrix instructions may be used. */
static bool suits_tensor(const gpu_node *node)
{
    const gpu_target *target = node->target;
    const int64_t dim = node->node.attr.attention.head_dim;
    return gpu_has_tensor(target) && node->in[1].d.dtype != CLV_DTYPE_F32 &&
           !node->node.attr.attention.apart && dim % 8 == 0 && dim <= 128 &&
           target->max_group >= 128 && target->max_group_size[0] >= 128 &&
           target->local_bytes >= (gpu_is_glsl(target) ? 32 : 48) * 1024u &&
           !gpu_is_disabled(target, gpu_is_transposed(&node->in[2])
                                        ? "attention_prefill_tensor_transposed"
                                        : "attention_prefill_tensor");
}

static uint32_t local_bytes(const gpu_target *target, const gpu_attention *s)
{
    const uint32_t keys = gpu_attention_keys(target);
    if (s->kind != GPU_ATTENTION_PREFILL)
        return 4 * (s->queries * (s->d_max + s->items) + s->items);
    if (gpu_is_glsl(target))
        return 2 * keys * (s->d_max + 8) + 16 * gpu_attention_values(s) +
               s->queries * (4 * keys + 16 + 64) +
               (target->plain_matrix ? 4 * s->items : 0);
    return 4 * keys * s->d_max + 28 * s->items;
}

int64_t gpu_attention_pairs(const gpu_attention *s)
{
    return s->apart ? s->per_group : s->n * s->per_group;
}

int64_t gpu_attention_lists(const gpu_attention *s)
{
    return (gpu_attention_pairs(s) + s->queries - 1) / s->queries *
           (s->apart ? s->n : 1);
}

/* Queries of a group of items: all heads of a group, or several tokens. */
static uint32_t choose_queries(const gpu_attention *s)
{
    uint32_t queries = 1, most = s->d_max > 256 ? 2 : 8;
    while (queries < most && queries < gpu_attention_pairs(s))
        queries *= 2;
    return queries;
}

/* Parts of the cache rows, so that few queries keep all compute units busy. */
static uint32_t choose_parts(const gpu_target *target, const gpu_attention *s)
{
    int64_t busy = gpu_attention_lists(s) * s->groups;
    int64_t parts = 4 * (int64_t)target->units / busy;
    const int64_t least =
        s->kind == GPU_ATTENTION_PREFILL ? TENSOR_ROWS : PART_ROWS;
    if (parts > s->rows / least)
        parts = s->rows / least;
    if (parts < 2 || gpu_is_disabled(target, "attention_reduce"))
        return 1;
    if (parts > MAX_PARTS)
        parts = MAX_PARTS;
    uint32_t power = 2;
    while (2 * power <= parts)
        power *= 2;
    return power;
}

/* The numbers of the node. */
static gpu_attention numbers_of(const gpu_node *node)
{
    gpu_attention s = {.n = gpu_max_rows(&node->in[0]),
                       .dim = node->node.attr.attention.head_dim,
                       .rows = gpu_max_rows(&node->in[1]),
                       .d_max = 64,
                       .transposed = gpu_is_transposed(&node->in[2]),
                       .apart = node->node.attr.attention.apart};
    s.heads = node->in[0].d.dims[1] / s.dim;
    s.groups = node->in[1].d.dims[1] / s.dim;
    s.per_group = s.heads / s.groups;
    while (s.d_max < s.dim)
        s.d_max *= 2;
    return s;
}

/* Without tuning, and not by the kernel for decode. */
static gpu_attention preferred_prefill(const gpu_node *node)
{
    const gpu_target *target = node->target;
    gpu_attention s = numbers_of(node);
    if (suits_tensor(node)) {
        s.kind = GPU_ATTENTION_PREFILL;
        if (gpu_is_glsl(target))
            s.d_max = (uint32_t)(s.dim + 15) / 16 * 16;
        s.queries = 64; /* four warps load quicker than one, too */
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

static gpu_attention preferred(const gpu_node *node)
{
    const gpu_attention decode = gpu_attention_decode(node, numbers_of(node));
    return gpu_attention_pairs(&decode) <= DECODE_PAIRS &&
                   gpu_attention_decode_fits(node, &decode)
               ? decode
               : preferred_prefill(node);
}

static bool fits(const gpu_node *node, const gpu_attention *s)
{
    const gpu_target *target = node->target;
    if (s->kind == GPU_ATTENTION_DECODE)
        return gpu_attention_decode_fits(node, s);
    return s->items >= s->queries && s->items <= target->max_group &&
           s->items <= target->max_group_size[0] &&
           local_bytes(target, s) <= target->local_bytes &&
           gpu_attention_lists(s) <= GPU_MAX_GROUPS &&
           s->groups <= GPU_MAX_GROUPS;
}

/* A variant's id holds three powers of two (items, queries and parts) and the
 * kernel. */
static uint32_t id_of(const gpu_attention *s)
{
    return (uint32_t)s->kind << 12 | gpu_size_class(s->items) << 8 |
           gpu_size_class(s->queries) << 4 | gpu_size_class(s->parts);
}

static void set_by_id(gpu_attention *s, uint32_t id)
{
    s->kind = id >> 12;
    s->items = 1u << (id / 256 % 16);
    s->queries = 1u << (id / 16 % 16);
    s->parts = 1u << (id % 16);
}

static void add_variant(const gpu_node *node, gpu_attention s, uint32_t items,
                        uint32_t queries, uint32_t parts, gpu_variants *out)
{
    const bool joins = parts > 1 && s.kind != GPU_ATTENTION_DECODE;
    s.items = items;
    s.queries = queries;
    s.parts = parts;
    if ((joins && gpu_is_disabled(node->target, "attention_reduce")) ||
        (parts > 1 && (int64_t)parts * 32 > s.rows))
        return;
    if (fits(node, &s))
        gpu_variant_add(out, id_of(&s));
}

/* Those that differ from s in one number. */
static void add_like(const gpu_node *node, const gpu_attention *s,
                     gpu_variants *out)
{
    for (uint32_t x = 1; x <= MAX_PARTS; x *= 2)
        if (x != s->parts)
            add_variant(node, *s, s->items, s->queries, x, out);
    if (s->kind == GPU_ATTENTION_DECODE) {
        add_variant(node, *s, s->items ^ 384, s->queries, s->parts, out);
        return;
    }
    if (s->kind == GPU_ATTENTION_PREFILL) {
        const uint32_t most = gpu_is_glsl(node->target) ? 128 : 64;
        for (uint32_t x = 16; x <= most; x *= 2)
            if (x != s->queries)
                add_variant(node, *s, 2 * x, x, s->parts, out);
        return;
    }
    for (uint32_t x = 32; x <= 256; x *= 2)
        if (x != s->items)
            add_variant(node, *s, x, s->queries, s->parts, out);
    for (uint32_t x = 1; x <= 8; x *= 2)
        if (x != s->queries && x < 2 * gpu_attention_pairs(s))
            add_variant(node, *s, s->items, x, s->parts, out);
}

/* The preferred one, those like it, and the other kernel for some queries. */
static void list_variants(const gpu_node *node, gpu_variants *out)
{
    const gpu_attention s = preferred(node);
    const gpu_attention prefill = preferred_prefill(node);
    const gpu_attention decode = gpu_attention_decode(node, numbers_of(node));
    out->preferred = id_of(&s);
    snprintf(out->key, sizeof out->key, "attention%s%s-%s-h%u-g%u-d%u-n%u-r%u",
             s.transposed ? "-transposed" : "", s.apart ? "-apart" : "",
             clv_dtype_label(node->in[1].d.dtype), gpu_size_class(s.heads),
             gpu_size_class(s.groups), gpu_size_class(s.dim),
             gpu_size_class(s.n), gpu_size_class(s.rows));
    gpu_variant_add(out, out->preferred);
    add_like(node, &s, out);
    if (s.kind == GPU_ATTENTION_DECODE)
        add_variant(node, prefill, prefill.items, prefill.queries,
                    prefill.parts, out);
    else if (gpu_attention_pairs(&s) <= 4 * DECODE_PAIRS)
        add_variant(node, decode, decode.items, decode.queries, decode.parts,
                    out);
}

gpu_attention gpu_attention_chosen(const gpu_node *node)
{
    gpu_variants variants = {.n = 0};
    gpu_attention s = preferred(node);
    list_variants(node, &variants);
    set_by_id(&s, gpu_choice(node->target, &variants));
    return s;
}

/* ------------------------------------------------------------------------ */
/* What is taken                                                             */

#define MAX_HEAD_DIM 1024

static bool check_attention(gpu_node *node)
{
    const gpu_target *target = node->target;
    const uint32_t dim = node->node.attr.attention.head_dim;
    if (dim > MAX_HEAD_DIM)
        return gpu_no(node, "head_dim %u is not in 1..%d", (unsigned)dim,
                      MAX_HEAD_DIM);
    const gpu_attention s = preferred_prefill(node);
    if (gpu_is_disabled(target,
                        s.transposed ? "attention_transposed" : "attention") ||
        s.items < s.queries || (s.transposed && s.items % 4) ||
        s.items > target->max_group ||
        local_bytes(target, &s) > target->local_bytes)
        return gpu_no(node,
                      "no kernel fits groups of %u and %u bytes of local "
                      "memory",
                      (unsigned)target->max_group,
                      (unsigned)target->local_bytes);
    if (gpu_attention_lists(&s) > GPU_MAX_GROUPS || s.groups > GPU_MAX_GROUPS)
        return gpu_no(node,
                      "%lld queries of %lld heads are more than a "
                      "dispatch takes",
                      (long long)s.n, (long long)s.heads);
    const bool tensor = s.kind == GPU_ATTENTION_PREFILL ||
                        preferred(node).kind == GPU_ATTENTION_DECODE;
    if (tensor)
        node->caps.error_class = CLV_ERROR_F16;
    if (target->states == GPU_STATES_WEIGHTS ||
        (target->states == GPU_STATES_AUTO && !tensor)) {
        gpu_prefer_layout(node, 1);
        gpu_prefer_layout(node, 2);
    }
    return true;
}

/* ------------------------------------------------------------------------ */

static clv_status lower_attention(gpu_lowering *lowering, const gpu_node *node)
{
    const gpu_attention s = gpu_attention_chosen(node);
    return s.kind == GPU_ATTENTION_DECODE
               ? gpu_attention_decode_lower(lowering, node, &s)
               : gpu_attention_prefill_lower(lowering, node, &s);
}

static uint32_t slices(const gpu_node *node)
{
    const gpu_attention s = gpu_attention_chosen(node);
    if (s.kind != GPU_ATTENTION_PORTABLE)
        return 0;
    return 1 | (s.parts == 1 && s.dim % 4 == 0 ? GPU_SLICES_OUT : 0);
}

/* Queries where a program that fuses nodes keeps them itself, and rounded. */
static uint64_t scratch(const gpu_node *node)
{
    return 2 * gpu_extent(&node->in[0]) + gpu_parts_bytes(node);
}

const gpu_op gpu_op_attention = {.op = CLV_OP_ATTENTION,
                                 .scratch = scratch,
                                 .check = check_attention,
                                 .lower = lower_attention,
                                 .variants = list_variants,
                                 .slices = slices};
