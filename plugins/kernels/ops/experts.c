/* Products with the weights of experts that ids choose; here GEMV, each
 * product by itself. */
#include "ops/experts.h"
#include "ops/tiles.h"

#define GROUP 32        /* items that share out the input channels */
#define OUTPUTS 4       /* channels that they compute together */
#define TILES_GROUP 128 /* items, of weights in tiles, */
#define TILES_AHEAD 4   /* and tiles that each has under way */
#define TILES_LOCAL (4 * (TILES_GROUP + 1) + TILES_AHEAD * TILES_GROUP * 8)
/* Where tiles share a head an item has two rows, and there are sums of x. */
#define SHARED_LOCAL (8 * (TILES_GROUP + 1) + TILES_AHEAD * TILES_GROUP * 20)
#define MOST_VECTORS 8 /* of channels that an item reads at a time */
#define LOCAL_BYTES (4 * (OUTPUTS + 4 * MOST_VECTORS) * (GROUP + 1))

/* Whether each expert is a row of weights: items then have an output channel
 * each. */
static bool are_rows(const gpu_node *node)
{
    return node->in[1].d.dims[2] == 1 && gpu_experts_scored(node);
}

static bool are_tiles(const gpu_node *node)
{
    return node->in[1].d.layout == CLV_LAYOUT_PRIVATE;
}

static bool share_heads(const gpu_node *node)
{
    return gpu_tiles_of(node->target, &node->in[1].d).head_tiles > 1;
}

static const char *tiles_name(const gpu_node *node)
{
    return share_heads(node) ? "experts_gemv_tiles_shared"
                             : "experts_gemv_tiles";
}

static const char *name_of(const gpu_node *node)
{
    return are_rows(node)             ? "experts_rows"
           : are_tiles(node)          ? tiles_name(node)
           : gpu_experts_scored(node) ? "experts_gemv_sum"
                                      : "experts_gemv";
}

/* Products that a group of work items may have to do: ids, or rows of sums. */
static int64_t max_places(const gpu_node *node)
{
    const int64_t used = gpu_experts_scored(node) ? 1 : node->in[2].d.dims[1];
    return gpu_max_rows(&node->in[0]) * used;
}

/* ------------------------------------------------------------------------ */
/* What is taken                                                             */

static bool check_experts(gpu_node *node)
{
    const gpu_target *target = node->target;
    const gpu_tensor *w = &node->in[1];
    const int64_t outputs = (int64_t)OUTPUTS * GPU_MAX_GROUPS;
    if (gpu_expert_bytes(w) > gpu_reach(target))
        return gpu_no(node, "an expert has %lld bytes; kernels here reach %lld",
                      (long long)gpu_expert_bytes(w),
                      (long long)gpu_reach(target));
    if (GROUP > target->max_group || GROUP > target->max_group_size[0] ||
        LOCAL_BYTES > target->local_bytes)
        return gpu_no(node,
                      "it needs groups of %d and %d bytes of local "
                      "memory, here are %u and %u",
                      GROUP, LOCAL_BYTES, (unsigned)target->max_group,
                      (unsigned)target->local_bytes);
    if (w->d.dims[1] > outputs)
        return gpu_no_more(node, "outputs", w->d.dims[1], outputs);
    if (w->d.dims[0] * w->d.dims[1] > INT32_MAX)
        return gpu_no_more(node, "rows of weights", w->d.dims[0] * w->d.dims[1],
                           INT32_MAX);
    if (max_places(node) > INT32_MAX)
        return gpu_no_more(node, "products", max_places(node), INT32_MAX);
    if (!are_rows(node) && gpu_experts_are_tensor(node))
        node->caps.error_class = CLV_ERROR_F16;
    return !gpu_is_disabled(target, name_of(node)) ||
           gpu_no(node, "its kernel computed wrongly here");
}

/* ------------------------------------------------------------------------ */
/* Dispatches                                                                */

/* Where the experts from first on are, and what the weights' shape says. */
static void add_params(gpu_call *call, const gpu_node *node, int64_t first,
                       int64_t count)
{
    const gpu_tensor *w = &node->in[1];
    const bool parted = node->in[0].d.dims[1] != w->d.dims[2];
    gpu_call_param(call, "first", gpu_constant(first));
    gpu_call_param(call, "count", gpu_constant(count));
    gpu_call_param(call, "held", gpu_constant(w->d.dims[0]));
    gpu_call_param(call, "outputs", gpu_constant(w->d.dims[1]));
    gpu_call_param(call, "inputs", gpu_constant(w->d.dims[2]));
    gpu_call_param(call, "used", gpu_constant(node->in[2].d.dims[1]));
    gpu_call_param(call, "step", gpu_constant(parted ? w->d.dims[2] : 0));
}

void gpu_experts_operands(gpu_call *call, const gpu_node *node, int64_t first,
                          int64_t count)
{
    const gpu_tensor *w = &node->in[1];
    gpu_call_use(call, gpu_template_packed);
    gpu_call_use(call, gpu_template_weights);
    gpu_call_rows(call, "x", &node->in[0], false);
    gpu_operand *part = gpu_call_rows(call, "w", w, false);
    part->offset = (uint64_t)(first * gpu_expert_bytes(w));
    part->width = gpu_constant(count * w->d.dims[1]);
    part->weights = true;
    add_params(call, node, first, count);
}

/* The same of weights in tiles, of all experts. */
static void add_tiles(gpu_call *call, const gpu_node *node)
{
    const gpu_node flat = gpu_experts_flat(node);
    gpu_call_use(call, gpu_template_packed);
    if (share_heads(node)) {
        gpu_call_use(call, gpu_tensor_words(node->target));
        gpu_use_tiles(call, node->target);
        gpu_call_use(call, gpu_template_experts_gemv_tiles_shared);
        gpu_call_define(call, "ITEMS", TILES_GROUP);
    } else {
        gpu_call_use(call, gpu_template_experts_gemv_tiles);
    }
    gpu_call_rows(call, "x", &node->in[0], false);
    gpu_add_tiles(call, &flat, "w", 0, flat.in[1].d.dims[0]);
    gpu_tile_defines(call, &flat);
    gpu_call_define(call, "AHEAD", TILES_AHEAD);
    add_params(call, node, 0, gpu_experts_held(node));
}

/* Output channels of a group. */
static int64_t outputs_of(const gpu_node *node)
{
    return are_rows(node) ? GROUP : are_tiles(node) ? 16 : OUTPUTS;
}

static void add_operands(gpu_call *call, const gpu_node *node)
{
    const clv_op_attr *attr = &node->node.attr;
    gpu_call_define(call, "GROUP", call->local[0]);
    gpu_call_define(call, "ROWS", outputs_of(node));
    gpu_call_define(call, "MOST_VECTORS", MOST_VECTORS);
    gpu_call_param(call, "begin", gpu_constant(attr->experts.first));
    gpu_call_rows(call, "ids", &node->in[2], false);
    if (gpu_experts_scored(node)) {
        gpu_call_rows(call, "scores", &node->in[3], false);
        gpu_call_param(call, "normalised",
                       gpu_constant(attr->experts.normalised));
        gpu_call_param(
            call, "all",
            gpu_constant(clv_experts_total(attr, node->in[1].d.dims[0])));
    }
    gpu_call_rows(call, "dst", &node->out, true);
}

/* The node's experts from `first` on. */
static clv_status lower_part(gpu_lowering *lowering, const gpu_node *node,
                             int64_t first, int64_t count)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t used = node->in[2].d.dims[1];
    const int64_t each = (max_places(node) - 1) / GPU_MAX_GROUPS + 1;
    gpu_call call;
    gpu_call_init(&call, name_of(node),
                  are_rows(node)             ? gpu_template_experts_rows
                  : gpu_experts_scored(node) ? gpu_template_experts_gemv_sum
                                             : gpu_template_experts_gemv,
                  are_tiles(node) ? TILES_GROUP : GROUP);
    call.variant = name_of(node);
    if (!are_rows(node))
        gpu_call_use(&call, gpu_template_experts_ids);
    if (are_tiles(node))
        add_tiles(&call, node);
    else
        gpu_experts_operands(&call, node, first, count);
    if (!are_rows(node) && !are_tiles(node))
        gpu_call_use(&call, gpu_template_experts_gemv_words);
    add_operands(&call, node);
    gpu_call_param(&call, "each", gpu_constant(each));
    gpu_expr places = call.operands[0].width;
    if (!gpu_experts_scored(node)) {
        places.constant *= used;
        places.factor *= used;
    }
    call.groups[0] = gpu_ceil(gpu_constant(w->dims[1]), outputs_of(node));
    call.groups[1] = gpu_ceil(places, each);
    return gpu_add_run(lowering, &call);
}

static clv_status lower_experts(gpu_lowering *lowering, const gpu_node *node)
{
    const int64_t experts = node->in[1].d.dims[0];
    const int64_t step = gpu_experts_step(node);
    const struct gpu_chain *chain = lowering->chain;
    clv_status status = CLV_OK;
    if (!are_rows(node) && gpu_experts_are_gemm(node))
        return gpu_experts_lower_gemm(lowering, node);
    /* A sum of several parts is written more than once: nothing joins it. */
    if (gpu_experts_scored(node) && step < experts)
        lowering->chain = NULL;
    for (int64_t e = 0; e < experts && !status; e += step)
        status = lower_part(lowering, node, e,
                            experts - e < step ? experts - e : step);
    lowering->chain = chain;
    return status;
}

static uint64_t repacked(const gpu_node *node)
{
    return gpu_experts_are_tensor(node) ? gpu_experts_kept_bytes(node) : 0;
}

/* Few rows have a kernel for tiles here, and many that of tensor cores; without
 * the latter experts are not in tiles. */
static uint32_t private_rows(const gpu_node *node)
{
    const gpu_target *target = node->target;
    const clv_tensor_desc *w = &node->in[1].d;
    const gpu_node flat = gpu_experts_flat(node);
    if (are_rows(node) || w->quant || w->dims[1] % 16 ||
        !gpu_experts_are_flat(node) || !gpu_has_tensor(target) ||
        !gpu_has_tiles(target, &flat.in[1].d) ||
        (int64_t)gpu_extent(&node->in[1]) > gpu_reach(target) ||
        TILES_GROUP > target->max_group ||
        TILES_GROUP > target->max_group_size[0] ||
        (share_heads(node) ? SHARED_LOCAL : TILES_LOCAL) >
            target->local_bytes ||
        gpu_is_disabled(target, tiles_name(node)) ||
        (gpu_experts_are_gemm(node) && !gpu_experts_are_tensor(node)))
        return 0;
    return gpu_private_rows(target, &flat.in[1].d);
}

/* x where a program that fuses nodes keeps it itself, too. */
static uint64_t scratch(const gpu_node *node)
{
    return gpu_extent(&node->in[0]) + gpu_experts_scratch(node);
}

const gpu_op gpu_op_matmul_experts = {.op = CLV_OP_MATMUL_EXPERTS,
                                      .parts = 2,
                                      .scratch = scratch,
                                      .check = check_experts,
                                      .lower = lower_experts,
                                      .fuses = true,
                                      .repacked = repacked,
                                      .private_rows = private_rows,
                                      .private_input = 1};
