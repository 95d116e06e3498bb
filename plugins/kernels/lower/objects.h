/*
 * Tensors brought into other layouts and storages, and weights in layout
 * WEIGHTS, as gpu_target.weights asks for it: in one object or several. Those
 * of 8 and 4 bits become words of bits, four to a texel, with their scales
 * apart.
 */
#pragma once

#include "lower/lower.h"

/* Whether the map's objects keep to the limits of the target; dtype: of their
 * elements, F32, F16 or I32. */
bool gpu_map_fits(const gpu_target *target, const clv_layout_map *map,
                  uint32_t storage, uint32_t dtype);

/* Appends what brings src into dst, both of as many channels; rows: of dst,
 * with its padding. Either may be an operand in slices. */
clv_status gpu_convert(gpu_builder *b, const gpu_operand *src,
                       const gpu_operand *dst, gpu_expr rows, bool setup);

/* The name, in gpu_target.disabled, of all products with weights in objects. */
#define GPU_WEIGHT_OBJECTS "weight_objects"

/* How many output channels of the product's weights go into objects at a time:
 * a multiple of 64 unless all do, or unless so many are too many. 0: the
 * weights are read where they are bound, as no limit of the device lets even 4
 * of them go, as what is read at a time has several scales, or as nobody wants
 * it. */
int64_t gpu_weights_part(const gpu_node *product);

/* Has the call use the words that read them. */
void gpu_use_objects(gpu_call *call, const gpu_node *product);

/* Makes w, an operand of the call that is the product's weights as they are
 * bound, into output channels first to first + count - 1 of them in objects,
 * which the setup fills. Of formats whose blocks hold their scales these
 * become operand scale, with the param group. */
clv_status gpu_weights_place(gpu_lowering *lowering, const gpu_node *product,
                             int64_t first, int64_t count, gpu_call *call,
                             gpu_operand *w);
