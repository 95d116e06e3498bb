#include "lower/objects.h"
#include "code/formats.h"

#define ITEMS 64

bool gpu_map_fits(const gpu_target *target, const clv_layout_map *map,
                  uint32_t storage, uint32_t dtype)
{
    const int64_t object = map->n_elements / map->extent[CLV_PHYS_OBJECT];
    const bool halves = dtype == CLV_DTYPE_F16;
    if (object > INT32_MAX || object * (halves ? 2 : 4) > gpu_reach(target) ||
        (halves && storage && !target->image_halves[storage]))
        return false;
    for (uint32_t i = 0; i < 3 && storage != CLV_STORAGE_BUFFER; i++)
        if (map->extent[CLV_PHYS_X + i] > target->image[storage][i])
            return false;
    return true;
}

/* A call from src to dst. */
static void begin(gpu_call *call, const char *name, const char *text,
                  const gpu_operand *src, const gpu_operand *dst)
{
    gpu_call_init(call, name, text, ITEMS);
    call->operands[0] = *src;
    call->operands[0].name = "src";
    call->operands[0].written = false;
    call->operands[1] = *dst;
    call->operands[1].name = "dst";
    call->operands[1].written = true;
    call->n_operands = 2;
}

clv_status gpu_convert(gpu_builder *b, const gpu_operand *src,
                       const gpu_operand *dst, gpu_expr rows, bool setup)
{
    gpu_call call;
    begin(&call, "convert_layout", gpu_template_convert_layout, src, dst);
    gpu_call_param(&call, "rows", rows);
    call.groups[0] = gpu_ceil(dst->channels, 4 * ITEMS);
    call.groups[1] = rows;
    return gpu_build(b, &call, setup);
}

/* ------------------------------------------------------------------------ */
/* Weights                                                                   */

/* Slices of 4 outputs in a group. Matrices have nothing between groups and
 * slices, so that more would be padding alone. */
#define GROUP_SLICES 1

/* Of a texel of words. */
static int64_t channels_of(const clv_tensor_desc *w)
{
    return 128 / (int64_t)gpu_packed_bits(w->dtype);
}

/* Halves stay halves, where images can have them. */
static uint32_t element_of(const gpu_target *target, const clv_tensor_desc *w)
{
    const uint32_t storage = target->weights - 1;
    if (gpu_is_integers(w->dtype))
        return CLV_DTYPE_I32;
    return w->dtype == CLV_DTYPE_F16 && (storage == CLV_STORAGE_BUFFER ||
                                         target->image_halves[storage])
               ? CLV_DTYPE_F16
               : CLV_DTYPE_F32;
}

static bool make_map(const gpu_target *target, const clv_tensor_desc *w,
                     int64_t outputs, clv_layout_map *map)
{
    const int64_t texel = channels_of(w);
    const int64_t channels = gpu_is_integers(w->dtype)
                                 ? (w->dims[1] + texel - 1) / texel * 4
                                 : w->dims[1];
    const int64_t dims[CLV_LAYOUT_AXES] = {outputs, 1, 1, 1, channels};
    return clv_layout_init(map, CLV_LAYOUT_WEIGHTS, target->weights - 1, dims,
                           GROUP_SLICES) &&
           gpu_map_fits(target, map, target->weights - 1,
                        element_of(target, w));
}

/* What is read at a time has one scale. */
static bool has_scales_apart(const clv_tensor_desc *w)
{
    return !gpu_is_integers(w->dtype) ||
           (gpu_has_canonical(w->dtype) &&
            (w->quant != CLV_QUANT_PER_GROUP ||
             w->quant_group % channels_of(w) == 0));
}

/* Rows that the setup can read at a time, and has groups for. */
static int64_t rows_at_once(const gpu_node *product)
{
    int64_t rows = gpu_reach(product->target) / gpu_step_bytes(&product->in[1]);
    if (rows > GPU_MAX_GROUPS)
        rows = GPU_MAX_GROUPS;
    return rows >= 64 ? rows / 64 * 64 : rows >= 4 ? rows / 4 * 4 : rows;
}

int64_t gpu_weights_part(const gpu_node *product)
{
    const gpu_target *target = product->target;
    const clv_tensor_desc *w = &product->in[1].d;
    clv_layout_map map;
    if (!target->weights || !gpu_may_repack(product) || !has_scales_apart(w) ||
        gpu_is_disabled(target, GPU_WEIGHT_OBJECTS))
        return 0;
    const int64_t most = rows_at_once(product);
    int64_t part = w->dims[0] < most ? w->dims[0] : most;
    while (part > 4 && !make_map(target, w, part, &map)) {
        const int64_t step = part > 128 ? 64 : 4;
        part = (part / 2 + step - 1) / step * step;
    }
    return part > 0 && make_map(target, w, part, &map) ? part : 0;
}

void gpu_use_objects(gpu_call *call, const gpu_node *product)
{
    const uint32_t dtype = product->in[1].d.dtype;
    if (gpu_is_integers(dtype)) {
        gpu_call_use(call, gpu_template_scales);
        gpu_call_use(call, gpu_template_objects_words);
        gpu_call_define(call, "BITS", gpu_packed_bits(dtype));
    } else {
        gpu_call_use(call, gpu_template_objects_floats);
    }
}

/* Integers, as words of bytes or nibbles. */
static clv_status convert_words(gpu_builder *b, const gpu_operand *src,
                                const gpu_operand *dst, int64_t rows)
{
    gpu_call call;
    begin(&call, "convert_words", gpu_template_convert_words, src, dst);
    gpu_call_define(&call, "BITS", gpu_packed_bits(src->dtype));
    gpu_call_param(&call, "rows", gpu_constant(rows));
    gpu_call_param(&call, "channels", src->channels);
    call.groups[0] = gpu_ceil(dst->channels, 4 * ITEMS);
    call.groups[1] = gpu_constant(rows);
    return gpu_build(b, &call, true);
}

/* The scales of blocks that hold their own, as rows of halves; those of
 * sub-blocks, which are products, as floats. */
static clv_status place_scales(gpu_lowering *lowering, const gpu_node *product,
                               const gpu_operand *bound, int64_t count,
                               gpu_call *call)
{
    const clv_tensor_desc *w = &product->in[1].d;
    const clv_format *f = clv_format_of(w->dtype);
    const int64_t group = f->group, n = w->dims[1] / group;
    const uint32_t dtype =
        f->group == f->elements ? CLV_DTYPE_F16 : CLV_DTYPE_F32;
    const int64_t bytes = clv_format_of(dtype)->bytes;
    const uint64_t size = (uint64_t)((count * n * bytes + 3) / 4 * 4);
    gpu_call setup;
    uint32_t index;
    CLV_TRY(gpu_build_private(&lowering->builder, size, true, &index));
    const gpu_operand *scale = gpu_add_private_rows(
        call, "scale", index, dtype, gpu_constant(count), n, bytes * n, false);
    gpu_call_param(call, "group", gpu_constant(group));
    begin(&setup, "convert_scales", gpu_template_convert_scales, bound, scale);
    gpu_call_define(&setup, "GROUP", group);
    setup.groups[0] = gpu_constant((n + ITEMS - 1) / ITEMS);
    setup.groups[1] = gpu_constant(count);
    return gpu_add_setup(lowering, &setup);
}

clv_status gpu_weights_place(gpu_lowering *lowering, const gpu_node *product,
                             int64_t first, int64_t count, gpu_call *call,
                             gpu_operand *w)
{
    gpu_builder *b = &lowering->builder;
    const clv_tensor_desc *d = &product->in[1].d;
    const int64_t rows = (count + 3) / 4 * 4;
    gpu_operand bound = *w;
    bound.offset += (uint64_t)(first * w->strides[CLV_L_W].constant);
    bound.width = w->width = gpu_constant(count);
    w->dtype = element_of(lowering->target, d);
    w->memory = GPU_MEMORY_PRIVATE;
    w->sliced = true;
    w->storage = lowering->target->weights - 1;
    make_map(lowering->target, d, count, &w->map);
    w->channels = gpu_constant(w->map.dims[CLV_L_I]);
    CLV_TRY(
        gpu_build_objects(b, &w->map, w->storage, w->dtype, true, &w->index));
    if (!gpu_is_integers(d->dtype))
        return gpu_convert(b, &bound, w, gpu_constant(rows), true);
    CLV_TRY(convert_words(b, &bound, w, rows));
    return d->quant ? CLV_OK
                    : place_scales(lowering, product, &bound, count, call);
}
