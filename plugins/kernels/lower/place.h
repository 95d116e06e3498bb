/*
 * Memory of a program's own for transients: those that end a chain of fused ops,
 * and those that lie in slices of 4 channels, as gpu_target.slices asks for.
 */
#pragma once

#include "lower/fuse.h"

/* Whether the map's objects keep to the limits of the target; dtype: of their
 * elements, F32, F16 or I32. */
bool gpu_place_fits(const gpu_target *target, const clv_layout_map *map,
                    uint32_t storage, uint32_t dtype);
/* Which tensors can be read in slices by all who read them. */
void gpu_place_look(gpu_fusion *f);
/* Whether node's kernel can write t in slices. */
bool gpu_place_slices(const gpu_fusion *f, const gpu_node *node,
                      const gpu_tensor *t);
/* Gives t, which the node's kernel writes, memory of its own. */
clv_status gpu_place(gpu_fusion *f, gpu_builder *b, const gpu_node *node,
                     const gpu_tensor *t);
/* Takes it back: t lies where it is bound. */
void gpu_place_undo(gpu_fusion *f, const gpu_tensor *t);
