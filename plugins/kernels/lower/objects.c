#include "lower/objects.h"
#include "lower/place.h"

#define ITEMS 64

clv_status gpu_convert(gpu_builder *b, uint32_t node, const gpu_operand *src,
                       const gpu_operand *dst, gpu_expr rows, bool setup)
{
    gpu_call call;
    gpu_call_init(&call, "convert_layout", gpu_template_convert_layout, node,
                  ITEMS);
    call.operands[0] = *src;
    call.operands[0].name = "src";
    call.operands[0].written = false;
    call.operands[1] = *dst;
    call.operands[1].name = "dst";
    call.operands[1].written = true;
    call.n_operands = 2;
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

/* Halves stay halves, where images can have them. */
static uint32_t element_of(const gpu_target *target, const clv_tensor_desc *w)
{
    const uint32_t storage = target->weights - 1;
    return w->dtype == CLV_DTYPE_F16 &&
                   (storage == CLV_STORAGE_BUFFER ||
                    target->image_halves[storage])
               ? CLV_DTYPE_F16
               : CLV_DTYPE_F32;
}

static bool make_map(const gpu_target *target, const clv_tensor_desc *w,
                     int64_t outputs, clv_layout_map *map)
{
    const int64_t dims[CLV_LAYOUT_AXES] = {outputs, 1, 1, 1, w->dims[1]};
    return clv_layout_init(map, CLV_LAYOUT_WEIGHTS, target->weights - 1, dims,
                           GROUP_SLICES) &&
           gpu_place_fits(target, map, target->weights - 1,
                          element_of(target, w));
}

int64_t gpu_weights_part(const gpu_node *product)
{
    const gpu_target *target = product->target;
    const clv_tensor_desc *w = &product->in[1].d;
    const int64_t most = GPU_MAX_GROUPS / 64 * 64;
    clv_layout_map map;
    if (!target->weights || !(GPU_FLOATS & GPU_BIT(w->dtype)) ||
        w->usage != CLV_USAGE_WEIGHT ||
        gpu_is_disabled(target, "convert_layout"))
        return 0;
    int64_t part = w->dims[0] < most ? w->dims[0] : most;
    while (part > 4 && !make_map(target, w, part, &map)) {
        const int64_t step = part > 128 ? 64 : 4;
        part = (part / 2 + step - 1) / step * step;
    }
    return make_map(target, w, part, &map) ? part : 0;
}

clv_status gpu_weights_place(gpu_lowering *lowering, const gpu_node *product,
                             int64_t first, int64_t count, gpu_operand *w)
{
    gpu_builder *b = &lowering->builder;
    gpu_operand bound = *w;
    bound.offset += (uint64_t)(first * w->strides[CLV_L_W].constant);
    bound.width = gpu_constant(count);
    w->width = bound.width;
    w->dtype = element_of(lowering->target, &product->in[1].d);
    w->memory = GPU_MEMORY_PRIVATE;
    w->sliced = true;
    w->storage = lowering->target->weights - 1;
    make_map(lowering->target, &product->in[1].d, count, &w->map);
    clv_status status = gpu_build_objects(b, &w->map, w->storage, w->dtype,
                                          true, &w->index);
    return status ? status
                  : gpu_convert(b, product->index, &bound, w,
                                gpu_constant((count + 3) / 4 * 4), true);
}
