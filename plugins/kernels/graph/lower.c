#include "lower/lower.h"
#include "graph/place.h"
#include "graph/group.h"
#include "lower/variant.h"

void gpu_call_init(gpu_call *call, const char *name, const char *text,
                   uint32_t node, uint32_t group)
{
    memset(call, 0, sizeof *call);
    call->name = call->variant = name;
    call->text = text;
    call->node = node;
    call->local[0] = group;
    call->local[1] = call->local[2] = 1;
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
    if (operand)
        gpu_call_rows(call, names[call->n_posts], operand, false);
    call->n_posts++;
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
    const bool ptx = target->language == GPU_OPENCL_C;
    if (!target->subgroup || gpu_is_disabled(target, variant) ||
        (ptx && (!target->nvidia_ptx || call->local[0] % target->subgroup)))
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

/* The node, or a sum with its norm. */
static clv_status lower_alone(gpu_lowering *lowering, gpu_fusion *fusion,
                              const gpu_node *node)
{
    clv_status status = CLV_OK;
    gpu_node norm;
    if (gpu_place_slices(fusion, node, &node->out))
        status = gpu_place(fusion, &lowering->builder, node, &node->out);
    if (status || !gpu_fusion_norm(fusion, node, &norm))
        return status ? status : node->op->lower(lowering, node);
    status = gpu_place(fusion, &lowering->builder, node, &norm.out);
    fusion->covered[norm.index] = true;
    return status ? status : gpu_lower_add_norm(lowering, node, &norm);
}

/* The node with what follows it in its kernel. */
static clv_status lower_chain(gpu_lowering *lowering, gpu_fusion *fusion,
                              const gpu_node *node, gpu_chain *chain)
{
    gpu_builder *b = &lowering->builder;
    gpu_node whole = *node;
    whole.out = chain->out;
    clv_status status = chain->sets
                            ? gpu_row_map(lowering, node->index, &chain->ids,
                                          &chain->state, &chain->map)
                            : gpu_place(fusion, b, node, &chain->out);
    const uint32_t dispatches = b->code->n_dispatches;
    const uint32_t setup = b->code->n_setup;
    if (status)
        return status;
    b->chain = chain;
    b->chained = false;
    status = node->op->lower(lowering, &whole);
    b->chain = NULL;
    if (!status && b->chained) {
        gpu_fusion_cover(fusion, chain);
        return CLV_OK;
    }
    /* More operands or params than a kernel may have: each node by itself. */
    gpu_place_undo(fusion, &chain->out);
    b->code->n_dispatches = dispatches;
    b->code->n_setup = setup;
    lowering->halves_of = 0;
    lowering->bytes.of = 0;
    lowering->order.ids = 0;
    lowering->n_counters = 0;
    if (status && status != CLV_ERR_INTERNAL)
        return status;
    return lower_alone(lowering, fusion, node);
}

/* Products that share their x, in one kernel. */
static clv_status lower_fused(gpu_lowering *lowering, gpu_fusion *fusion,
                              const gpu_node *node, gpu_fused *fused)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < fused->n_outs && !status; i++) {
        gpu_chain *sets = &fused->members[i].sets;
        status = sets->sets ? gpu_row_map(lowering, node->index, &sets->ids,
                                          &sets->state, &sets->map)
                            : gpu_place(fusion, &lowering->builder, node,
                                        &fused->members[i].out);
    }
    if (!status)
        status = gpu_fused_lower(lowering, fused);
    for (uint32_t i = 0; i < fused->n_covered; i++)
        fusion->covered[fused->covered[i]] = true;
    return status;
}

static clv_status lower_some(gpu_lowering *lowering, gpu_fusion *fusion,
                             const gpu_node *node)
{
    gpu_chain chain;
    gpu_fused fused;
    if (gpu_fused_find(fusion, node, gpu_fused_takes, &fused))
        return lower_fused(lowering, fusion, node, &fused);
    gpu_fusion_find(fusion, node, &chain);
    return chain.n_nodes ? lower_chain(lowering, fusion, node, &chain)
                         : lower_alone(lowering, fusion, node);
}

static clv_status lower_node(gpu_lowering *lowering, gpu_fusion *fusion,
                             uint32_t index)
{
    gpu_node node;
    gpu_replaced swapped;
    gpu_check_node(lowering->target, fusion->graph, index, &node);
    if (node.caps.answer != CLV_ANSWER_YES)
        return clv_fail(lowering->builder.host, CLV_ERR_UNSUPPORTED,
                        "node %u: %s", (unsigned)index, node.caps.reason);
    if (gpu_has(&node.out) && lowering->order.ids == node.out.index + 1)
        lowering->order.ids = 0; /* other ids from now on */
    clv_status status =
        gpu_place_rows(fusion, &lowering->builder, &node, &swapped);
    if (!status)
        status = lower_some(lowering, fusion, &node);
    gpu_place_back(fusion, &swapped);
    return status;
}

clv_status gpu_lower(const clv_host_api *host, const gpu_target *target,
                     const clv_subgraph *graph, gpu_code **out)
{
    gpu_lowering lowering = {.target = target,
                             .builder = {.host = host, .target = target}};
    gpu_fusion fusion;
    gpu_code *code = lowering.builder.code = clv_new(host, sizeof *code);
    if (!code)
        return CLV_ERR_NO_MEMORY;
    clv_status status = gpu_fusion_init(&fusion, host, target, graph);
    lowering.builder.moved = fusion.moved;
    lowering.aliased = fusion.off;
    lowering.builder.maps = fusion.maps;
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++)
        if (!fusion.covered[i])
            status = lower_node(&lowering, &fusion, i);
    gpu_fusion_finish(&fusion);
    if (status) {
        gpu_code_free(host, code);
        return status;
    }
    *out = code;
    return CLV_OK;
}
