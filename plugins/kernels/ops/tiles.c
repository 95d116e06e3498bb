#include "ops/tiles.h"
#include "code/formats.h"

#define GEMV_ROWS 8   /* of x, at most */
#define GROUP_TILES 8 /* that a group makes: whole blocks of any format */

static bool is_grouped(const clv_tensor_desc *w)
{
    return w->quant == CLV_QUANT_PER_GROUP;
}

static bool is_bf16(const clv_tensor_desc *w)
{
    return w->dtype == CLV_DTYPE_BF16;
}

/* A scale is for all of a row, and behind its tiles. */
static bool has_row_scales(const clv_tensor_desc *w)
{
    return is_bf16(w) || (w->quant && !is_grouped(w));
}

bool gpu_has_tiles(const gpu_target *target, const clv_tensor_desc *w)
{
    return (w->dtype == CLV_DTYPE_F16 || (is_bf16(w) && !gpu_is_glsl(target)) ||
            (gpu_is_integers(w->dtype) &&
             clv_format_of(w->dtype)->group % 16 == 0)) &&
           w->dims[1] % 32 == 0 && (!is_grouped(w) || w->quant_group % 32 == 0);
}

static bool has_minimum(const clv_tensor_desc *w)
{
    return clv_format_of(w->dtype)->minimum_at >= 0;
}

/* Of a head of one tile. The scales of blocks are halves; floats are those of
 * sub-blocks, which are products, and those that have minimums. */
static int64_t head_bytes(const clv_tensor_desc *w, int64_t subs)
{
    const clv_format *f = clv_format_of(w->dtype);
    if (!(f->format_class & CLV_FORMAT_BLOCK))
        return is_grouped(w) ? 4 : 0;
    return f->group == f->elements && !has_minimum(w)
               ? 2
               : 4 * subs * (has_minimum(w) ? 2 : 1);
}

gpu_tile_form gpu_tiles_of(const gpu_target *target, const clv_tensor_desc *w)
{
    const clv_format *f = clv_format_of(w->dtype);
    const gpu_format_tiles small = gpu_tiles_of_format(w->dtype);
    gpu_tile_form form = {.bits = (int64_t)gpu_packed_bits(w->dtype),
                          .subs = f->group % 32 ? 2 : 1,
                          .head_tiles = 1,
                          .row_scales = has_row_scales(w) ? 64 : 0,
                          .minimum = has_minimum(w),
                          .bf16 = is_bf16(w),
                          .quantised = w->quant};
    form.head = head_bytes(w, form.subs);
    if (small.head && !gpu_is_glsl(target)) {
        form.bits = 4;
        form.high_bits = small.high_bits;
        form.head_tiles = f->elements / 32;
        form.head = f->bytes - f->elements * (4 + form.high_bits) / 8;
    }
    return form;
}

int64_t gpu_tiles_bytes(const gpu_tile_form *form, int64_t n)
{
    const int64_t heads = (n + form->head_tiles - 1) / form->head_tiles;
    return 16 * (4 * n * (form->bits + form->high_bits) + heads * form->head);
}

bool gpu_is_permuted(const gpu_node *product)
{
    return gpu_tiles_of(product->target, &product->in[1].d).subs == 2 &&
           !gpu_is_glsl(product->target);
}

int64_t gpu_tiles_row(const gpu_target *target, const clv_tensor_desc *w)
{
    const gpu_tile_form form = gpu_tiles_of(target, w);
    return gpu_tiles_bytes(&form, w->dims[1] / 32) + form.row_scales;
}

bool gpu_same_tiles(const gpu_tile_form *a, const gpu_tile_form *b)
{
    return a->bits == b->bits && a->high_bits == b->high_bits &&
           a->subs == b->subs && a->head_tiles == b->head_tiles &&
           a->head == b->head && a->minimum == b->minimum &&
           a->bf16 == b->bf16 && a->quantised == b->quantised;
}

/* What kernels need to know of tiles. */
typedef struct define {
    const char *name;
    int64_t value;
} define;
#define N_DEFINES 9

static void tell(const gpu_node *node, define out[N_DEFINES])
{
    const clv_tensor_desc *w = &node->in[1].d;
    const gpu_tile_form form = gpu_tiles_of(node->target, w);
    const define all[N_DEFINES] = {
        {"BITS", form.bits},
        {"HIGH_BITS", form.high_bits},
        {"HEAD_TILES", form.head_tiles},
        {"TILE_HEAD", form.head},
        {"HEAD_BYTES", gpu_tiles_of_format(w->dtype).head == GPU_HEAD_BYTES},
        {"SUBS", form.subs},
        {"MINIMUMS", form.minimum},
        {"ROW_SCALES", form.row_scales > 0},
        {"FRAGMENTS", form.quantised && !gpu_is_glsl(node->target)},
    };
    memcpy(out, all, sizeof all);
}

void gpu_tile_defines(gpu_call *call, const gpu_node *node)
{
    define all[N_DEFINES];
    tell(node, all);
    for (uint32_t i = 0; i < N_DEFINES; i++)
        gpu_call_define(call, all[i].name, all[i].value);
}

void gpu_put_tile_defines(gpu_text *text, const gpu_node *node)
{
    define all[N_DEFINES];
    tell(node, all);
    for (uint32_t i = 0; i < N_DEFINES; i++)
        gpu_printf(text, "#undef %s\n#define %s %lld\n", all[i].name,
                   all[i].name, (long long)all[i].value);
}

gpu_operand *gpu_add_scales(gpu_call *call, const gpu_node *node, int64_t first)
{
    const clv_tensor_desc *w = &node->in[1].d;
    gpu_operand *s = gpu_call_rows(call, "scale", &node->scales[1], false);
    gpu_expr *step = &s->strides[CLV_L_W];
    if (!is_grouped(w))
        *step = gpu_constant(w->quant == CLV_QUANT_PER_CHANNEL ? 4 : 0);
    s->offset = (uint64_t)(first * step->constant);
    gpu_call_param(
        call, "group",
        gpu_constant(is_grouped(w) ? (int64_t)w->quant_group : w->dims[1]));
    return s;
}

bool gpu_is_gemv(const gpu_node *node)
{
    return gpu_max_rows(&node->in[0]) <= GEMV_ROWS;
}

bool gpu_is_glsl(const gpu_target *target)
{
    return target->language == GPU_GLSL;
}

bool gpu_has_tensor(const gpu_target *target)
{
    return target->plain_matrix ||
           (gpu_is_glsl(target) ? target->coop_matrix && target->subgroup == 32
                                : target->nvidia_ptx);
}

int64_t gpu_plain_bytes(const gpu_target *target, int64_t items)
{
    return target->nvidia_ptx ? 0 : 28 * items;
}

static bool are_private(const gpu_node *node)
{
    return node->in[1].d.layout == CLV_LAYOUT_PRIVATE;
}

/* Of a row of blocks, in whole bytes. */
static int64_t linear_bytes(const clv_tensor_desc *w)
{
    const clv_format *f = clv_format_of(w->dtype);
    return w->dims[w->rank - 1] / f->elements * f->bytes;
}

uint32_t gpu_private_rows(const gpu_target *target, const clv_tensor_desc *w)
{
    return !w->quant && w->dims[0] % 16 == 0 &&
                   gpu_tiles_row(target, w) == 16 * linear_bytes(w)
               ? 16
               : 0;
}

bool gpu_keeps_tiles(const gpu_node *node)
{
    return are_private(node) || (gpu_may_repack(node) &&
                                 (!node->in[1].d.quant ||
                                  node->scales[1].d.usage == CLV_USAGE_WEIGHT));
}

uint64_t gpu_kept_bytes(const gpu_node *node)
{
    const clv_tensor_desc *w = &node->in[1].d;
    return gpu_keeps_tiles(node) && !are_private(node)
               ? (uint64_t)((w->dims[0] + 15) / 16 *
                            gpu_tiles_row(node->target, w))
               : 0;
}

int64_t gpu_tiles_part(const gpu_node *node)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t reach = gpu_reach(node->target);
    const int64_t most = (reach < GPU_PART_BYTES ? reach : GPU_PART_BYTES) /
                         gpu_tiles_row(node->target, w);
    if (gpu_keeps_tiles(node) || (w->dims[0] + 15) / 16 <= most)
        return w->dims[0];
    return 16 * (most > 0 ? most : 1);
}

void gpu_add_tiles(gpu_call *call, const gpu_node *node, const char *name,
                   uint32_t buffer, int64_t count)
{
    const int64_t row = gpu_tiles_row(node->target, &node->in[1].d);
    gpu_operand *o =
        gpu_add_private_rows(call, name, buffer, CLV_DTYPE_I8,
                             gpu_constant((count + 15) / 16), row, row, false);
    if (are_private(node)) {
        o->memory = GPU_MEMORY_TENSOR;
        o->index = node->in[1].index;
        o->quads = true;
    }
}

const char *gpu_tensor_words(const gpu_target *target)
{
    if (gpu_is_glsl(target))
        return target->plain_matrix ? gpu_template_tensor_plain_glsl
                                    : gpu_template_tensor_glsl;
    return target->nvidia_ptx ? gpu_template_tensor_opencl
                              : gpu_template_tensor_plain_opencl;
}

void gpu_use_tensor(gpu_call *call, const gpu_target *target, bool int8)
{
    gpu_call_use(call, gpu_template_packed);
    gpu_call_use(call, gpu_tensor_words(target));
    if (int8 && gpu_is_glsl(target))
        gpu_call_use(call, target->plain_matrix
                               ? gpu_template_tensor_int8_plain_glsl
                               : gpu_template_tensor_int8_glsl);
}

void gpu_use_tiles(gpu_call *call, const gpu_target *target)
{
    if (!gpu_is_glsl(target))
        gpu_call_use(call, gpu_template_tile_functions_opencl);
    gpu_call_use(call, gpu_is_glsl(target) ? gpu_template_tiles_glsl
                                           : gpu_template_tiles_opencl);
}

/* The scales of rows of BF16, into the buffer of the tiles. */
static clv_status lower_row_scales(gpu_lowering *lowering, const gpu_node *node,
                                   int64_t first, int64_t count,
                                   uint32_t buffer)
{
    const int64_t row = gpu_tiles_row(node->target, &node->in[1].d);
    gpu_call call;
    gpu_call_init(&call, "convert_row_scales", gpu_template_convert_row_scales,
                  64);
    gpu_operand *from = gpu_call_rows(&call, "w", &node->in[1], false);
    from->offset = (uint64_t)(first * from->strides[CLV_L_W].constant);
    from->width = gpu_constant(count);
    gpu_add_private_rows(&call, "tiles", buffer, CLV_DTYPE_I8,
                         gpu_constant((count + 15) / 16), row, row, true);
    gpu_call_define(&call, "GROUP", 64);
    call.groups[0] = gpu_constant((count + 15) / 16 * 16);
    return gpu_keeps_tiles(node) ? gpu_add_setup(lowering, &call)
                                 : gpu_add_run(lowering, &call);
}

/* Of local memory for a row's blocks of the tiles that a group makes, odd. */
static int64_t raw_words(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    return (GROUP_TILES * 32 / f->elements * f->bytes / 4 + 1) | 1;
}

/* The kernel that makes tiles of so many rows of the product's weights. */
static void begin_convert(gpu_call *call, const gpu_node *node, int64_t first,
                          gpu_expr count)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const bool integers = gpu_is_integers(w->dtype);
    const bool shared = gpu_tiles_of(node->target, w).head_tiles > 1;
    if (shared)
        gpu_call_init(call, "convert_tiles_shared",
                      gpu_template_convert_tiles_shared, 16 * GROUP_TILES);
    else if (integers)
        gpu_call_init(call, "convert_tiles", gpu_template_convert_tiles,
                      16 * GROUP_TILES);
    else
        gpu_call_init(call, "convert_tiles_floats",
                      gpu_template_convert_tiles_floats, 64);
    if (w->quant)
        gpu_call_use(call, gpu_template_scales);
    gpu_operand *from = gpu_call_rows(call, "w", &node->in[1], false);
    from->offset = (uint64_t)(first * from->strides[CLV_L_W].constant);
    from->width = count;
    if (w->quant)
        gpu_add_scales(call, node, first);
    gpu_tile_defines(call, node);
    if (integers) {
        gpu_call_use(call, gpu_template_raw_blocks);
        gpu_call_define(call, "GROUP", 16 * GROUP_TILES);
        gpu_call_define(call, "TILES", GROUP_TILES);
        gpu_call_define(call, "RAW_WORDS", raw_words(w->dtype));
        call->groups[0] =
            gpu_constant((w->dims[1] / 32 + GROUP_TILES - 1) / GROUP_TILES);
    } else {
        gpu_call_define(call, "BFLOATS", is_bf16(w));
        call->groups[0] = gpu_constant(w->dims[1] / 32 * 256 / 64);
    }
    call->groups[1] = gpu_ceil(count, 16);
}

clv_status gpu_lower_tiles(gpu_lowering *lowering, const gpu_node *node,
                           int64_t first, int64_t count, uint32_t *buffer)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t row = gpu_tiles_row(node->target, w),
                  rows = (count + 15) / 16;
    const uint64_t size = (uint64_t)(rows * row);
    const bool keep = gpu_keeps_tiles(node);
    gpu_call call;
    *buffer = 0;
    if (are_private(node))
        return CLV_OK;
    CLV_TRY(keep
                ? gpu_build_private(&lowering->builder, size, true, buffer)
                : gpu_share_scratch(lowering, GPU_SCRATCH_TILES, size, buffer));
    if (is_bf16(w))
        CLV_TRY(lower_row_scales(lowering, node, first, count, *buffer));
    begin_convert(&call, node, first, gpu_constant(count));
    gpu_add_private_rows(&call, "tiles", *buffer, CLV_DTYPE_I8,
                         gpu_constant(rows), row, row, true);
    return keep ? gpu_add_setup(lowering, &call) : gpu_add_run(lowering, &call);
}

/* ------------------------------------------------------------------------ */
/* Weights brought into tiles by a program of their own                       */

static bool check_convert(gpu_node *node)
{
    const clv_tensor_desc *x = &node->in[0].d;
    if (!gpu_has_tensor(node->target) || x->rank != 2 || x->symbols[1] ||
        !gpu_has_tiles(node->target, x) || !gpu_private_rows(node->target, x))
        return gpu_no(node, "no kernel reads such weights in another layout");
    return gpu_fits_grid(node, 16, INT32_MAX / GPU_MAX_GROUPS);
}

static clv_status lower_convert(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_node product = *node;
    gpu_call call;
    product.in[1] = node->in[0];
    const int64_t row = gpu_tiles_row(node->target, &product.in[1].d);
    const gpu_expr count = gpu_rows(&node->in[0]);
    begin_convert(&call, &product, 0, count);
    gpu_operand *tiles =
        gpu_add_private_rows(&call, "tiles", node->out.index, CLV_DTYPE_I8,
                             gpu_ceil(count, 16), row, row, true);
    tiles->memory = GPU_MEMORY_TENSOR;
    return gpu_add_run(lowering, &call);
}

const gpu_op gpu_op_convert_private = {
    .op = CLV_OP_CONVERT, .check = check_convert, .lower = lower_convert};
