#include "lower/lower.h"
#include "code/formats.h"
#include "lower/fused.h"

void gpu_call_init(gpu_call *call, const char *name, const char *text,
                   uint32_t group)
{
    memset(call, 0, sizeof *call);
    call->name = call->variant = name;
    call->text = text;
    call->local[0] = group;
    call->local[1] = call->local[2] = 1;
}

void gpu_call_use(gpu_call *call, const char *text)
{
    for (uint32_t i = 0; i < call->n_uses; i++)
        if (call->uses[i] == text)
            return;
    call->uses[call->n_uses++] = text;
}

gpu_operand *gpu_call_rows(gpu_call *call, const char *name,
                           const gpu_tensor *t, bool written)
{
    gpu_operand *operand = &call->operands[call->n_operands++];
    *operand = (gpu_operand){.name = name,
                             .dtype = t->d.dtype,
                             .written = written,
                             .memory = GPU_MEMORY_TENSOR,
                             .index = t->index,
                             .weights = gpu_is_integers(t->d.dtype),
                             .packed = true};
    gpu_rows_extent(t, &operand->width, &operand->channels,
                    &operand->strides[CLV_L_W]);
    if (gpu_is_transposed(t)) {
        operand->packed = false;
        operand->strides[CLV_L_C] = gpu_constant(t->d.strides[1]);
    }
    return operand;
}

gpu_operand *gpu_add_private_rows(gpu_call *call, const char *name,
                                  uint32_t buffer, uint32_t dtype,
                                  gpu_expr width, int64_t channels,
                                  int64_t stride, bool written)
{
    gpu_operand *o = &call->operands[call->n_operands++];
    *o = (gpu_operand){.name = name,
                       .dtype = dtype,
                       .written = written,
                       .memory = GPU_MEMORY_PRIVATE,
                       .index = buffer,
                       .packed = true,
                       .width = width,
                       .channels = gpu_constant(channels)};
    for (uint32_t i = 0; i < 5; i++)
        o->strides[i] = gpu_constant(0);
    o->strides[CLV_L_W] = gpu_constant(stride);
    return o;
}

void gpu_call_post(gpu_call *call, gpu_post_op op, const gpu_tensor *operand)
{
    static const char *const names[GPU_MAX_POSTS] = {"p0", "p1", "p2", "p3",
                                                     "p4", "p5", "p6", "p7"};
    gpu_post *post = &call->posts[call->n_posts];
    post->op = op;
    post->operand = call->n_operands;
    if (op == GPU_POST_ROUND)
        gpu_call_use(call, gpu_template_round);
    if (operand)
        gpu_call_rows(call, names[call->n_posts], operand, false);
    call->n_posts++;
}

void gpu_call_link(gpu_call *call, const gpu_link *link)
{
    call->posts[call->n_posts].value = link->value;
    gpu_call_post(call, link->op,
                  gpu_has(&link->operand) ? &link->operand : NULL);
}

void gpu_call_param(gpu_call *call, const char *name, gpu_expr value)
{
    call->params[call->n_params++] = (gpu_param){name, value};
}

void gpu_call_define(gpu_call *call, const char *name, int64_t value)
{
    call->defines[call->n_defines].name = name;
    call->defines[call->n_defines++].value = value;
}

void gpu_call_subgroups(gpu_call *call, const gpu_target *target,
                        const char *variant)
{
    if (!target->subgroup || target->language != GPU_GLSL ||
        gpu_is_disabled(target, variant))
        return;
    call->subgroups = true;
    call->variant = variant;
}

gpu_expr gpu_float(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return gpu_constant(bits);
}

gpu_expr gpu_ceil(gpu_expr expr, int64_t divisor)
{
    expr.divisor *= divisor;
    return expr;
}

uint32_t gpu_row_group(const gpu_target *target, int64_t channels)
{
    uint32_t group = 64;
    while (group < 256 && group * 8 < channels)
        group *= 2;
    while (group > 1 &&
           (group > target->max_group || group > target->max_group_size[0] ||
            group * 8 > target->local_bytes))
        group /= 2;
    return group;
}

clv_status gpu_share_scratch(gpu_lowering *lowering, gpu_scratch kind,
                             uint64_t size, uint32_t *index)
{
    gpu_builder *b = &lowering->builder;
    if (!lowering->scratch[kind]) {
        clv_status status = gpu_build_private(b, size, false, index);
        if (!status)
            lowering->scratch[kind] = *index + 1;
        return status;
    }
    *index = lowering->scratch[kind] - 1;
    if (b->code->privates[*index].size < size)
        b->code->privates[*index].size = size;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Chains of fused ops                                                       */

/* 1 + the call's operand that is this row map; 0: none yet. */
static uint32_t find_map(const gpu_call *call, uint32_t buffer)
{
    for (uint32_t i = 0; i < call->n_operands; i++) {
        const uint32_t map = call->operands[i].through;
        if (map && call->operands[map - 1].index == buffer)
            return map;
    }
    return 0;
}

/* 1 + the new operand; 0: no space. */
static uint32_t add_map(gpu_call *call, uint32_t buffer, gpu_expr rows)
{
    static const char *const names[] = {"to_row", "to_row1", "to_row2"};
    if (gpu_call_args(call) >= gpu_max_args(call) ||
        call->n_maps == sizeof names / sizeof names[0])
        return 0;
    gpu_operand *map = &call->operands[call->n_operands++];
    *map = (gpu_operand){.name = names[call->n_maps++],
                         .dtype = CLV_DTYPE_I32,
                         .memory = GPU_MEMORY_PRIVATE,
                         .index = buffer,
                         .packed = true,
                         .width = gpu_constant(1),
                         .channels = rows};
    for (uint32_t k = 0; k < 5; k++)
        map->strides[k] = gpu_constant(0);
    return call->n_operands;
}

bool gpu_call_set_rows(gpu_call *call, gpu_operand *dst, const gpu_chain *chain)
{
    int64_t elements, bytes;
    gpu_expr rows, channels, stride;
    uint32_t map = find_map(call, chain->map);
    if (!map)
        map = add_map(call, chain->map, dst->width);
    if (!map)
        return false;
    clv_block(chain->state.d.dtype, &elements, &bytes);
    gpu_rows_extent(&chain->state, &rows, &channels, &stride);
    dst->dtype = chain->state.d.dtype;
    dst->index = chain->state.index;
    dst->strides[CLV_L_W] = stride;
    if (gpu_is_transposed(&chain->state)) {
        bytes = chain->state.d.strides[1];
        dst->packed = false;
        dst->strides[CLV_L_C] = gpu_constant(bytes);
    }
    dst->offset = dst->offset / 4 * (uint64_t)bytes;
    dst->through = map;
    return true;
}

/* The call with the chain's posts, if it writes what the chain begins with. */
static bool add_chain(const gpu_chain *chain, const gpu_call *call,
                      gpu_call *longer)
{
    const gpu_operand *dst = NULL;
    for (uint32_t i = 0; i < call->n_operands; i++)
        if (!strcmp(call->operands[i].name, "dst"))
            dst = &call->operands[i];
    if (!dst || dst->memory != GPU_MEMORY_TENSOR ||
        dst->index != chain->out.index)
        return false;
    *longer = *call;
    for (uint32_t i = 0; i < chain->n_links; i++) {
        const gpu_link *link = &chain->links[i];
        if (longer->n_posts == GPU_MAX_POSTS ||
            gpu_call_args(longer) >= gpu_max_args(longer))
            return false;
        gpu_call_link(longer, link);
        if (!gpu_has(&link->operand))
            continue;
        gpu_operand *operand = &longer->operands[longer->n_operands - 1];
        operand->offset = dst->offset; /* the same channels */
        operand->channels = dst->channels;
    }
    return !chain->sets ||
           gpu_call_set_rows(longer, &longer->operands[dst - call->operands],
                             chain);
}

clv_status gpu_add_run(gpu_lowering *lowering, const gpu_call *call)
{
    gpu_call whole;
    if (!lowering->chain || !add_chain(lowering->chain, call, &whole))
        return gpu_build(&lowering->builder, call, false);
    lowering->chained = true;
    return gpu_build(&lowering->builder, &whole, false);
}
