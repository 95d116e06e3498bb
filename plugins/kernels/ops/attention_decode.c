/* Attention in decode by tensor cores, in one dispatch. */
#include "ops/attention.h"
#include "ops/tiles.h"

#define MAX_PAIRS 16 /* of a query and a head, that a group of items takes */
#define MAX_PARTS 32 /* more cost the one that joins them too much */
#define WARP_ROWS 16 /* of the cache, that a warp takes at once */

int64_t gpu_attention_decode_bytes(const gpu_attention *s)
{
    const int64_t warps = s->items / 32, queries = s->queries;
    const int64_t padded = queries > 8 ? 16 : 8;
    return padded * ((s->dim + 31) / 32 * 64 + 64) + 8 * padded +
           warps * queries * (4 * s->dim + 16 + 8) + 4;
}

/* So many that the units are busy when the whole cache is in use. */
static uint32_t choose_parts(const gpu_target *target, const gpu_attention *s)
{
    const int64_t lists = gpu_attention_lists(s);
    const int64_t step = s->items / 32 * WARP_ROWS;
    uint32_t parts = 1;
    while (2 * parts <= MAX_PARTS && parts * step < s->rows &&
           2 * parts * lists * s->groups <= (int64_t)target->units)
        parts *= 2;
    return parts;
}

gpu_attention gpu_attention_decode(const gpu_node *node, gpu_attention s)
{
    s.kind = GPU_ATTENTION_DECODE;
    s.queries = 1;
    while (s.queries < MAX_PAIRS && s.queries < gpu_attention_pairs(&s))
        s.queries *= 2;
    s.items = s.queries > 8 ? 128 : 256;
    s.parts = choose_parts(node->target, &s);
    return s;
}

bool gpu_attention_decode_joins(const gpu_node *node, uint32_t items,
                                gpu_attention *s)
{
    if (s->kind != GPU_ATTENTION_DECODE || s->n != 1)
        return false;
    if (s->queries > MAX_PAIRS / 2)
        s->queries = MAX_PAIRS / 2;
    s->items = items;
    s->parts = choose_parts(node->target, s);
    return gpu_attention_decode_fits(node, s);
}

bool gpu_attention_decode_fits(const gpu_node *node, const gpu_attention *s)
{
    const gpu_target *target = node->target;
    return gpu_has_tensor(target) && !gpu_is_glsl(target) &&
           node->in[1].d.dtype != CLV_DTYPE_F32 && s->dim % 8 == 0 &&
           s->dim <= 128 && !s->transposed && s->items <= target->max_group &&
           s->items <= target->max_group_size[0] &&
           gpu_attention_decode_bytes(s) + gpu_plain_bytes(target, s->items) <=
               (int64_t)target->local_bytes &&
           s->groups <= GPU_MAX_GROUPS &&
           gpu_attention_lists(s) <= GPU_MAX_GROUPS &&
           !gpu_is_disabled(target, "attention_decode_tensor");
}

/* Words that are 0 between dispatches: those that a program's nodes had before,
 * or new ones, which the setup writes. Dispatches run one after another, and a
 * device that does not end one is lost. */
static clv_status get_counters(gpu_lowering *lowering, int64_t n,
                               uint32_t *buffer)
{
    gpu_builder *b = &lowering->builder;
    gpu_call call;
    if (lowering->n_counters >= n) {
        *buffer = lowering->counters;
        return CLV_OK;
    }
    CLV_TRY(gpu_build_private(b, (uint64_t)n * 4, true, buffer));
    b->code->privates[*buffer].own = true;
    gpu_call_init(&call, "zeros", gpu_template_zeros, 64);
    gpu_add_private_rows(&call, "dst", *buffer, CLV_DTYPE_F32, gpu_constant(1),
                         n, 0, true);
    call.groups[0] = gpu_constant((n + 63) / 64);
    lowering->counters = *buffer;
    lowering->n_counters = n;
    return gpu_add_setup(lowering, &call);
}

/* What groups leave for the one that reduces it. */
static clv_status add_parts(gpu_lowering *lowering, gpu_call *call,
                            const gpu_attention *s)
{
    const int64_t lists = gpu_attention_lists(s) * s->groups;
    const int64_t rows = lists * s->parts * s->queries, row = 4 * (s->dim + 4);
    uint32_t buffer, counters;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_PARTS,
                              (uint64_t)(rows * row), &buffer));
    CLV_TRY(get_counters(lowering, lists, &counters));
    gpu_add_private_rows(call, "part", buffer, CLV_DTYPE_F32,
                         gpu_constant(rows), s->dim + 4, row, true);
    gpu_add_private_rows(call, "done", counters, CLV_DTYPE_I32,
                         gpu_constant(lists), 1, 4, true);
    return CLV_OK;
}

clv_status gpu_attention_decode_add(gpu_lowering *lowering, gpu_call *call,
                                    const gpu_node *node,
                                    const gpu_attention *s)
{
    const clv_op_attr *attr = &node->node.attr;
    gpu_call_use(call, gpu_template_cache_blocks);
    gpu_attention_operands(call, node, s);
    gpu_call_use(call, gpu_template_attention_decode_words);
    CLV_TRY(add_parts(lowering, call, s));
    gpu_call_rows(call, "dst", &node->out, true);
    gpu_call_param(call, "groups", gpu_constant(s->groups));
    gpu_call_define(call, "DIM", s->dim);
    gpu_call_define(call, "GROUP_HEADS", s->per_group);
    gpu_call_define(call, "LISTS",
                    (s->per_group + s->queries - 1) / s->queries);
    gpu_call_define(call, "WINDOWED", attr->attention.window > 0);
    gpu_call_define(call, "CAPPED", attr->attention.softcap != 0);
    return CLV_OK;
}

clv_status gpu_attention_decode_lower(gpu_lowering *lowering,
                                      const gpu_node *node,
                                      const gpu_attention *s)
{
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    gpu_puts(&text, gpu_template_attention_decode_tensor_opencl);
    gpu_puts(&text, gpu_template_attention_decode_step);
    gpu_puts(&text, "}\n");
    clv_status status = text.failed ? CLV_ERR_NO_MEMORY : CLV_OK;
    gpu_call_init(&call, "attention_decode_tensor", text.data, s->items);
    gpu_use_tensor(&call, node->target, false);
    gpu_call_define(&call, "ITEMS", s->items);
    gpu_call_define(&call, "WARPS", s->items / 32);
    if (!status)
        status = gpu_attention_decode_add(lowering, &call, node, s);
    if (!status) {
        gpu_attention_groups(&call, s);
        status = gpu_add_run(lowering, &call);
    }
    gpu_text_free(&text);
    return status;
}
