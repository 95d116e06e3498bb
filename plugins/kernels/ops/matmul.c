/*
 * Products by portable kernels. GEMV: a group of work items for some output
 * channels, which reads each weight once; GEMM: tiles in local memory, of
 * floats, or of bytes where the device has integer dot products.
 */
#include "code/formats.h"
#include "lower/objects.h"
#include "ops/activations.h"
#include "ops/gemm_tensor.h"
#include "ops/tiles.h"

/* ------------------------------------------------------------------------ */
/* Variants                                                                  */

/* A kernel for products. The first that fits and is wanted is used, unless
 * tuning chose another: it tries all that fit. Its index in the table is its
 * id as a variant. */
typedef struct kernel {
    const char *name;      /* as gpu_target.disabled has it */
    const char *text;      /* the template, behind the weights' */
    int64_t rows_max;      /* of x; 0: any */
    uint32_t items;        /* of a group */
    int64_t outputs, rows; /* channels and rows of dst that a group computes */
    uint32_t local_bytes;
    bool bytes; /* of x, made by a dispatch before */
    struct {
        const char *name;
        int64_t value;
    } defines[4];
    bool (*suits)(const gpu_node *node);  /* or NULL */
    bool (*wanted)(const gpu_node *node); /* without tuning; NULL: always */
} kernel;

/* Large tiles leave compute units idle where there are few of them. */
static bool is_wide(const gpu_node *node)
{
    int64_t tiles = (node->in[1].d.dims[0] + 63) / 64 *
                    ((gpu_max_rows(&node->in[0]) + 63) / 64);
    const uint32_t units = node->target->units;
    return units > 8 && tiles >= (int64_t)units / 2;
}

/* A few outputs of many rows, as of a router to experts: tiles would be mostly
 * empty, and too few. */
static bool is_narrow(const gpu_node *node)
{
    return node->in[1].d.dims[0] <= 16;
}

/* There are groups enough for all units, and items that neighbours read for
 * share their loads. */
static bool is_parallel(const gpu_node *node)
{
    return node->target->units > 8 &&
           clv_format_is(node->in[1].d.dtype, CLV_FORMAT_BLOCK);
}

static bool is_tuned(const gpu_node *node)
{
    (void)node;
    return false;
}

/* Weights of 8 or 4 bits in whole blocks of 32 with one scale. */
static bool has_int8(const gpu_node *node)
{
    const clv_tensor_desc *w = &node->in[1].d;
    return node->target->int_dot && gpu_has_canonical(w->dtype) &&
           w->dims[1] % 32 == 0 &&
           gpu_max_rows(&node->in[0]) <= GPU_MAX_GROUPS &&
           (w->quant != CLV_QUANT_PER_GROUP || w->quant_group % 32 == 0) &&
           !gpu_is_disabled(node->target, "activations_int8");
}

#define SUMS(group_, outputs_, rows_, ...)                                     \
    {                                                                          \
        .name = "gemv", .text = gpu_template_gemv, .items = group_,            \
        .outputs = outputs_, .rows = rows_,                                    \
        .local_bytes = 4 * outputs_ * rows_ * (group_ + 1),                    \
        .defines = {{"GROUP", group_},                                         \
                    {"ROWS", outputs_},                                        \
                    {"COLUMNS", rows_}},                                       \
        __VA_ARGS__                                                            \
    }
#define VECTOR(group_, outputs_, rows_, wanted_)                               \
    SUMS(group_, outputs_, rows_, .rows_max = rows_, .wanted = wanted_)
#define TEAM 32
#define MOST_VECTORS 8 /* of channels that an item reads at a time */
#define STAGED(teams_, outputs_, wanted_)                                      \
    {                                                                          \
        .name = "gemv_staged", .text = gpu_template_gemv_staged,               \
        .rows_max = 1, .items = teams_ * TEAM, .outputs = teams_ * outputs_,   \
        .rows = 1,                                                             \
        .local_bytes =                                                         \
            4 * (4 * MOST_VECTORS * (TEAM + 1) + teams_ * outputs_ * TEAM),    \
        .defines = {{"TEAMS", teams_},                                         \
                    {"TEAM", TEAM},                                            \
                    {"ROWS", outputs_},                                        \
                    {"MOST_VECTORS", MOST_VECTORS}},                           \
        .wanted = wanted_                                                      \
    }
#define BYTES_TILE(gx_, gy_, tm_, tn_, wanted_)                                \
    {                                                                          \
        .name = "gemm_int8", .text = gpu_template_gemm_int8,                   \
        .items = gx_ * gy_, .outputs = gx_ * tm_, .rows = gy_ * tn_,           \
        .local_bytes = 4 * 9 * (gx_ * tm_ + 1 + gy_ * tn_ + 1), .bytes = true, \
        .defines = {{"GX", gx_}, {"GY", gy_}, {"TM", tm_}, {"TN", tn_}},       \
        .suits = has_int8, .wanted = wanted_                                   \
    }
#define TILE(gx_, gy_, tm_, tn_, wanted_)                                      \
    {                                                                          \
        .name = "gemm", .text = gpu_template_gemm, .items = gx_ * gy_,         \
        .outputs = gx_ * tm_, .rows = gy_ * tn_,                               \
        .local_bytes = 4 * 32 * (gx_ * tm_ + 1 + gy_ * tn_ + 1),               \
        .defines = {{"GX", gx_}, {"GY", gy_}, {"TM", tm_}, {"TN", tn_}},       \
        .wanted = wanted_                                                      \
    }

static const kernel kernels[] = {
    STAGED(4, 2, is_parallel),
    VECTOR(32, 4, 1, NULL),
    VECTOR(32, 4, 2, NULL),
    VECTOR(32, 4, 4, NULL),
    VECTOR(32, 2, 8, NULL),
    SUMS(64, 8, 2, .suits = is_narrow),
    BYTES_TILE(8, 8, 4, 4, NULL),
    TILE(16, 16, 4, 4, is_wide),
    TILE(8, 8, 4, 4, NULL),
    VECTOR(32, 1, 1, is_tuned),
    VECTOR(32, 8, 1, is_tuned),
    VECTOR(64, 2, 1, is_tuned),
    VECTOR(128, 4, 1, is_tuned),
    VECTOR(64, 4, 4, is_tuned),
    VECTOR(64, 4, 8, is_tuned),
    BYTES_TILE(16, 8, 4, 4, is_tuned),
    BYTES_TILE(16, 16, 4, 4, is_tuned),
    TILE(16, 8, 4, 4, is_tuned),
    TILE(16, 8, 4, 8, is_tuned),
    TILE(8, 4, 4, 4, is_tuned),
    STAGED(4, 1, is_tuned),
    STAGED(4, 4, is_tuned),
    STAGED(8, 2, is_tuned),
    STAGED(2, 4, is_tuned),
};
#define N_KERNELS (sizeof kernels / sizeof kernels[0])

static bool fits(const gpu_node *node, const kernel *v)
{
    const gpu_target *target = node->target;
    const int64_t rows = gpu_max_rows(&node->in[0]);
    return (!v->rows_max || rows <= v->rows_max) &&
           v->items <= target->max_group &&
           v->items <= target->max_group_size[0] &&
           v->local_bytes <= target->local_bytes &&
           !gpu_is_disabled(target, v->name) && (!v->suits || v->suits(node));
}

/* Without tuning; NULL: there is none. */
static const kernel *prefer(const gpu_node *node)
{
    for (uint32_t i = 0; i < N_KERNELS; i++)
        if ((!kernels[i].wanted || kernels[i].wanted(node)) &&
            fits(node, &kernels[i]))
            return &kernels[i];
    return NULL;
}

/* Whether it might be the quickest: as exact as the preferred one, and without
 * space for many more rows than there are. */
static bool competes(const gpu_node *node, const kernel *v,
                     const kernel *preferred)
{
    const int64_t rows = gpu_max_rows(&node->in[0]);
    return fits(node, v) && (!v->bytes || preferred->bytes) &&
           rows <= v->rows * GPU_MAX_GROUPS &&
           (v->rows_max ? v->rows_max < 2 * rows
                        : rows >= 4 || !preferred->rows_max);
}

static void list_variants(const gpu_node *node, gpu_variants *out)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const kernel *preferred = prefer(node);
    if (gpu_tensor_suits(node)) {
        gpu_tensor_variants(node, out);
        return;
    }
    out->preferred = (uint32_t)(preferred - kernels);
    snprintf(out->key, sizeof out->key, "matmul-%s%.1s%.1s-o%u-i%u-n%u",
             clv_dtype_label(w->dtype), &"\0tcg"[w->quant],
             gpu_weights_part(node) ? &"\0bifa3"[node->target->weights] : "",
             gpu_size_class(w->dims[0]), gpu_size_class(w->dims[1]),
             gpu_size_class(gpu_max_rows(&node->in[0])));
    for (uint32_t i = 0; i < N_KERNELS; i++)
        if (&kernels[i] == preferred || competes(node, &kernels[i], preferred))
            gpu_variant_add(out, i);
}

static const kernel *choose(const gpu_node *node)
{
    gpu_variants variants = {.n = 0};
    list_variants(node, &variants);
    return &kernels[gpu_choice(node->target, &variants)];
}

/* ------------------------------------------------------------------------ */
/* Sizes                                                                     */

/* Bytes of the weights that one dispatch can read. They may begin behind what
 * the API binds. */
static uint64_t reach(const gpu_target *target)
{
    uint64_t most = UINT32_MAX;
    if (target->max_binding < most)
        most = target->max_binding;
    return most > 4096 ? most - 4096 : 0;
}

/* ------------------------------------------------------------------------ */
/* What is taken                                                             */

static bool check_matmul(gpu_node *node)
{
    const int64_t rows = gpu_max_rows(&node->in[0]);
    const int64_t row = gpu_step_bytes(&node->in[1]);
    const kernel *v = prefer(node);
    if ((uint64_t)row > reach(node->target))
        return gpu_no(node,
                      "rows of w have %lld bytes; kernels here reach "
                      "%llu",
                      (long long)row, (unsigned long long)reach(node->target));
    if (!v)
        return gpu_no(node,
                      "no kernel fits groups of %u and %u bytes of local "
                      "memory",
                      (unsigned)node->target->max_group,
                      (unsigned)node->target->local_bytes);
    if (rows > v->rows * GPU_MAX_GROUPS)
        return gpu_no_more(node, "rows", rows, v->rows * GPU_MAX_GROUPS);
    if (gpu_tensor_suits(node))
        node->caps.error_class = gpu_tensor_error_class(node);
    else if (v->bytes && !(node->node.attr.matmul.input_scale > 0))
        node->caps.error_class = CLV_ERROR_Q8;
    return true;
}

/* ------------------------------------------------------------------------ */
/* Dispatches                                                                */

/* Those of the output channels from first on. */
static void add_scales(gpu_call *call, const gpu_node *node, int64_t first)
{
    const clv_tensor_desc *w = &node->in[1].d;
    gpu_add_scales(call, node, first);
    if (w->quant == CLV_QUANT_PER_GROUP && w->quant_group < w->dims[1] &&
        w->quant_group % (128 / gpu_packed_bits(w->dtype)))
        gpu_call_define(call, "ODD", 1);
}

/* x as bytes and scales of 32, in private memory. */
typedef struct bytes {
    uint32_t q, scales; /* private buffers */
} bytes;

static void add_private(gpu_call *call, const gpu_node *node, const char *name,
                        uint32_t buffer, int64_t divisor, bool written)
{
    const int64_t channels = node->in[0].d.dims[1];
    gpu_operand *o = gpu_call_rows(call, name, &node->in[0], written);
    o->memory = GPU_MEMORY_PRIVATE;
    o->index = buffer;
    o->strides[CLV_L_W] = gpu_constant(channels / divisor * 4);
    if (divisor == 32)
        o->channels = gpu_constant(channels / 32);
}

static clv_status lower_bytes(gpu_lowering *lowering, const gpu_node *node,
                              bytes *out)
{
    const int64_t channels = node->in[0].d.dims[1];
    const uint64_t size =
        (uint64_t)gpu_max_rows(&node->in[0]) * (uint64_t)channels;
    gpu_call call;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_QUANTS, size, &out->q));
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_QUANTS_SCALE, size / 8,
                              &out->scales));
    gpu_call_init(&call, "activations_int8", gpu_template_activations_int8, 32);
    gpu_call_use(&call, gpu_template_packed);
    const gpu_operand *x = gpu_call_rows(&call, "x", &node->in[0], false);
    add_private(&call, node, "q", out->q, 4, true);
    add_private(&call, node, "scales", out->scales, 32, true);
    gpu_int8_know(&call, node);
    call.groups[0] = gpu_ceil(x->channels, 32 * 32);
    call.groups[1] = x->width;
    return gpu_add_run(lowering, &call);
}

static void use_texts(gpu_call *call, const gpu_node *node, const kernel *v)
{
    gpu_call_use(call, gpu_template_packed);
    if (gpu_weights_part(node)) {
        gpu_use_objects(call, node);
    } else {
        if (node->in[1].d.quant)
            gpu_call_use(call, gpu_template_scales);
        gpu_call_use(call, gpu_template_weights);
    }
    if (v->bytes)
        gpu_call_use(call, gpu_template_dot_int8);
}

/* Output channels from first on. */
static clv_status lower_part(gpu_lowering *lowering, const gpu_node *node,
                             const kernel *v, const bytes *x, int64_t first,
                             int64_t count)
{
    gpu_call call;
    gpu_call_init(&call, v->name, v->text, v->items);
    use_texts(&call, node, v);
    if (v->text == gpu_template_gemv)
        gpu_call_subgroups(&call, node->target, "gemv_subgroups");
    if (v->bytes) {
        add_private(&call, node, "q", x->q, 4, false);
        add_private(&call, node, "scales", x->scales, 32, false);
    } else {
        gpu_call_rows(&call, "x", &node->in[0], false);
    }
    gpu_operand *w = gpu_call_rows(&call, "w", &node->in[1], false);
    w->weights = true;
    if (gpu_weights_part(node)) {
        call.variant = GPU_WEIGHT_OBJECTS;
        CLV_TRY(gpu_weights_place(lowering, node, first, count, &call, w));
    } else {
        w->offset = (uint64_t)(first * w->strides[CLV_L_W].constant);
    }
    if (node->in[1].d.quant)
        add_scales(&call, node, first);
    if (gpu_has(&node->in[2])) {
        gpu_call_post(&call, GPU_POST_ADD, &node->in[2]);
        call.operands[call.n_operands - 1].offset = (uint64_t)first * 4;
    }
    gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    dst->offset = (uint64_t)first * 4;
    dst->channels = gpu_constant(count);
    for (uint32_t i = 0; i < 4 && v->defines[i].name; i++)
        gpu_call_define(&call, v->defines[i].name, v->defines[i].value);
    call.groups[0] = gpu_ceil(gpu_constant(count), v->outputs);
    call.groups[1] = gpu_ceil(dst->width, v->rows);
    return gpu_add_run(lowering, &call);
}

/* Output channels of one dispatch: by what a binding reaches of the weights, or
 * objects hold, and the groups of a dispatch. A multiple of 64 where it can be.
 */
static int64_t part_size(const gpu_node *node, const kernel *v)
{
    const uint64_t row = (uint64_t)gpu_step_bytes(&node->in[1]);
    const int64_t placed = gpu_weights_part(node);
    int64_t rows = placed ? placed : (int64_t)(reach(node->target) / row);
    if (rows > v->outputs * GPU_MAX_GROUPS)
        rows = v->outputs * GPU_MAX_GROUPS;
    return rows >= 64 && rows < node->in[1].d.dims[0] ? rows / 64 * 64 : rows;
}

static clv_status lower_matmul(gpu_lowering *lowering, const gpu_node *node)
{
    if (gpu_tensor_suits(node))
        return gpu_tensor_lower(lowering, node);
    const kernel *v = choose(node);
    const int64_t outputs = node->in[1].d.dims[0], step = part_size(node, v);
    bytes x = {0, 0};
    if (v->bytes)
        CLV_TRY(lower_bytes(lowering, node, &x));
    for (int64_t o = 0; o < outputs; o += step)
        CLV_TRY(lower_part(lowering, node, v, &x, o,
                           outputs - o < step ? outputs - o : step));
    return CLV_OK;
}

/* By what the kernel's text knows, and the parts it is dispatched in. */
static uint32_t slices(const gpu_node *node)
{
    if (gpu_tensor_suits(node))
        return 0;
    const kernel *v = choose(node);
    const int64_t outputs = node->in[1].d.dims[0], step = part_size(node, v);
    const bool reads = v->bytes || !strstr(v->text, "args.x.Row(");
    const bool writes = strstr(v->text, "dst_SLICED") && v->outputs % 4 == 0 &&
                        (step % 4 == 0 || step >= outputs);
    return (reads ? 1 : 0) | (writes ? GPU_SLICES_OUT : 0);
}

static uint64_t repacked(const gpu_node *node)
{
    if (gpu_tensor_suits(node))
        return gpu_kept_bytes(node);
    return gpu_weights_part(node) ? gpu_extent(&node->in[1]) : 0;
}

static uint32_t private_rows(const gpu_node *node)
{
    return gpu_tensor_suits(node)
               ? gpu_private_rows(node->target, &node->in[1].d)
               : 0;
}

/* x where a program that fuses nodes keeps it itself, and in halves, bytes and
 * quants, as different products may want it. */
static uint64_t scratch(const gpu_node *node)
{
    const uint64_t elements =
        (uint64_t)(gpu_max_rows(&node->in[0]) * node->in[1].d.dims[1]);
    return gpu_extent(&node->in[0]) + 4 * elements + gpu_parts_bytes(node);
}

const gpu_op gpu_op_matmul = {.op = CLV_OP_MATMUL,
                              .parts = 2,
                              .scratch = scratch,
                              .check = check_matmul,
                              .lower = lower_matmul,
                              .fuses = true,
                              .variants = list_variants,
                              .slices = slices,
                              .repacked = repacked,
                              .private_rows = private_rows,
                              .private_input = 1};
