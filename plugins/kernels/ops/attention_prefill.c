/* Attention in prefill, and without tensor cores in decode: a dispatch, and one
 * that reduces its parts. */
#include "ops/attention.h"
#include "ops/tiles.h"

#define COOP_KEYS 32

uint32_t gpu_attention_keys(const gpu_target *target)
{
    return gpu_is_glsl(target) ? COOP_KEYS : 64;
}

/* Rows, of the cache or of channels, end with a unit more. */
uint32_t gpu_attention_values(const gpu_attention *s)
{
    return s->transposed ? s->d_max * (COOP_KEYS / 8 + 1)
                         : COOP_KEYS * (s->d_max / 8 + 1);
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
static void add_partial(gpu_call *call, const char *name,
                        const gpu_attention *s, uint32_t buffer, bool written)
{
    gpu_add_private_rows(call, name, buffer, CLV_DTYPE_F32,
                         gpu_constant(s->n * s->heads * s->parts), s->dim + 2,
                         4 * (s->dim + 2), written);
}

void gpu_attention_operands(gpu_call *call, const gpu_node *node,
                            const gpu_attention *s)
{
    const clv_op_attr *attr = &node->node.attr;
    gpu_call_rows(call, "x", &node->in[0], false);
    gpu_operand *k = gpu_call_rows(call, "keys", &node->in[1], false);
    gpu_operand *v = gpu_call_rows(call, "values", &node->in[2], false);
    k->quads = v->quads =
        s->kind == GPU_ATTENTION_PREFILL && k->dtype == CLV_DTYPE_F16;
    k->weights = v->weights = false; /* cache_blocks.clt has the words */
    gpu_call_rows(call, "pos", &node->in[3], false);
    if (gpu_has(&node->in[4])) {
        gpu_call_use(call, gpu_template_attention_first);
        gpu_call_rows(call, "first", &node->in[4], false);
    }
    gpu_call_param(call, "rows_used", rows_used(node, k));
    gpu_call_param(call, "group_heads", gpu_constant(s->per_group));
    gpu_call_param(call, "span", gpu_constant(attr->attention.window));
    gpu_call_param(call, "scale", gpu_float(attr->attention.scale));
    gpu_call_param(
        call, "softcap",
        gpu_float(attr->attention.softcap ? attr->attention.softcap : 0.0f));
    gpu_call_define(call, "CACHE_BITS", clv_format_of(k->dtype)->bits);
    gpu_call_define(call, "QUERIES", s->queries);
    gpu_call_define(call, "PARTS", s->parts);
    gpu_call_define(call, "OWN_ROWS", s->apart);
}

void gpu_attention_groups(gpu_call *call, const gpu_attention *s)
{
    const int64_t lists = (s->per_group + s->queries - 1) / s->queries;
    const int64_t of_query = s->apart ? lists : s->per_group;
    gpu_expr all = call->operands[0].width;
    all.constant *= of_query;
    all.factor *= of_query;
    call->groups[0] = s->apart ? all : gpu_ceil(all, s->queries);
    call->groups[1] = gpu_constant(s->groups);
    call->groups[2] = gpu_constant(s->parts);
}

static clv_status add_scores(gpu_lowering *lowering, const gpu_node *node,
                             const gpu_attention *s, uint32_t buffer)
{
    const bool tensor = s->kind == GPU_ATTENTION_PREFILL;
    gpu_call call;
    gpu_call_init(&call, tensor ? "attention_prefill_tensor" : "attention",
                  !tensor ? gpu_template_attention
                  : gpu_is_glsl(node->target)
                      ? gpu_template_attention_prefill_tensor_glsl
                      : gpu_template_attention_prefill_tensor_opencl,
                  s->items);
    if (s->transposed)
        call.variant = tensor ? "attention_prefill_tensor_transposed"
                              : "attention_transposed";
    if (tensor)
        gpu_use_tensor(&call, node->target, false);
    else
        gpu_call_use(&call, gpu_template_packed);
    gpu_call_use(&call, gpu_template_cache_blocks);
    gpu_attention_operands(&call, node, s);
    if (s->parts > 1)
        add_partial(&call, "dst", s, buffer, true);
    else
        gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "head_dim", gpu_constant(s->dim));
    gpu_call_param(&call, "heads", gpu_constant(s->heads));
    gpu_call_define(&call, "VALUES_TRANSPOSED", s->transposed);
    gpu_call_define(&call, "V_SIZE", gpu_attention_values(s));
    gpu_call_param(&call, "value_step", gpu_constant(node->in[2].d.strides[1]));
    gpu_call_define(&call, tensor ? "ITEMS" : "GROUP", s->items);
    gpu_call_define(&call, "KEYS", gpu_attention_keys(node->target));
    gpu_call_define(&call, "D_MAX", s->d_max);
    gpu_attention_groups(&call, s);
    return gpu_add_run(lowering, &call);
}

static clv_status add_reduce(gpu_lowering *lowering, const gpu_node *node,
                             const gpu_attention *s, uint32_t buffer)
{
    gpu_call call;
    gpu_call_init(&call, "attention_reduce", gpu_template_attention_reduce,
                  s->items);
    add_partial(&call, "part", s, buffer, false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "head_dim", gpu_constant(s->dim));
    gpu_call_param(&call, "heads", gpu_constant(s->heads));
    gpu_call_define(&call, "PARTS", s->parts);
    gpu_expr all = dst->width;
    all.constant *= s->heads * s->dim;
    all.factor *= s->heads * s->dim;
    call.groups[0] = gpu_ceil(all, s->items);
    return gpu_add_run(lowering, &call);
}

clv_status gpu_attention_prefill_lower(gpu_lowering *lowering,
                                       const gpu_node *node,
                                       const gpu_attention *s)
{
    uint32_t buffer = 0;
    if (s->parts == 1)
        return add_scores(lowering, node, s, buffer);
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_PARTS,
                              (uint64_t)(s->n * s->heads * s->parts) *
                                  (uint64_t)(s->dim + 2) * 4,
                              &buffer));
    CLV_TRY(add_scores(lowering, node, s, buffer));
    return add_reduce(lowering, node, s, buffer);
}
