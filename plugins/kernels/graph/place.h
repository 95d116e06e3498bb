/*
 * Memory of a program's own for transients: those that end a chain of fused
 * ops, and those that lie in slices of 4 channels, as gpu_target.slices asks
 * for.
 */
#pragma once

#include "graph/fuse.h"

/* Which tensors to keep in slices: those that all who read them can read so,
 * and those that most can. For the others a dispatch makes a copy of rows,
 * once: it costs what one of them takes to read and write the tensor. */
void gpu_place_look(gpu_fusion *f);
/* Whether node's kernel can write t in slices. */
bool gpu_place_slices(const gpu_fusion *f, const gpu_node *node,
                      const gpu_tensor *t);
/* Gives t, which the node's kernel writes, memory of its own. */
clv_status gpu_place(gpu_fusion *f, gpu_builder *b, const gpu_node *node,
                     const gpu_tensor *t);

/* Inputs that lie elsewhere while a node is lowered. */
typedef struct gpu_replaced {
    uint32_t n, tensor[CLV_MAX_INPUTS], moved[CLV_MAX_INPUTS];
    int64_t elements[CLV_MAX_INPUTS]; /* of the map */
} gpu_replaced;

/* Where the node cannot read an input that lies in slices, it is to read the
 * copy, which is made here unless it is there. To be taken back after a
 * failure, too. */
clv_status gpu_place_rows(gpu_fusion *f, gpu_builder *b, const gpu_node *node,
                          gpu_replaced *swapped);
void gpu_place_back(gpu_fusion *f, const gpu_replaced *swapped);
/* Takes it back: t lies where it is bound. */
void gpu_place_undo(gpu_fusion *f, const gpu_tensor *t);
