/*
 * Which ops on single elements become part of the kernel that makes their
 * input.
 *
 * A chain begins at a node whose op fuses; each further link is an elementwise
 * node that is the only reader of the former one's transient output. What the
 * chain makes is written when its first node runs, earlier than the graph's
 * order says; so it is in private memory, as no other tensor may be
 * there, and only transients end a chain, or a SET_ROWS by ids that are an
 * input. A graph with transients that are parts of others (written under one
 * index, read under another) is left as it is.
 *
 * A sum that no chain takes, and an RMS_NORM of it, are one kernel that writes
 * both.
 *
 * Names that gpu_target.disabled may have: fuse_elements, fuse_set_rows,
 * fuse_add_norm.
 */
#pragma once

#include "lower/fused.h"

typedef struct gpu_fusion {
    const clv_host_api *host;
    const gpu_target *target;
    const clv_subgraph *graph;
    struct gpu_use *uses; /* [n_tensors] */
    bool *covered;        /* [n_nodes] by chains that were made */
    uint32_t *moved;      /* [n_tensors] 1 + private buffer, 0: where bound */
    bool *slices;         /* [n_tensors] those who read it do so in slices, or
                             most, and there may be a copy for the others */
    clv_layout_map *maps; /* [n_tensors] of those moved into slices */
    uint32_t *busy;       /* [privates] 1 + last node that uses it */
    uint32_t n_busy, max_busy;
    bool off;
} gpu_fusion;

clv_status gpu_fusion_init(gpu_fusion *f, const clv_host_api *host,
                           const gpu_target *target, const clv_subgraph *graph);
void gpu_fusion_finish(gpu_fusion *f);
/* The uses of tensors in the graph's nodes. */
typedef struct gpu_use {
    uint32_t reads, writes;                 /* operands that are it */
    uint32_t first_read, first_write, last; /* nodes */
    uint32_t by_rows; /* of reads, those that cannot be of slices */
    uint32_t copy;    /* 1 + private buffer that has it as rows, too; or 0 */
} gpu_use;
/* What may follow the node in its kernel; n_links 0: nothing. */
void gpu_fusion_find(const gpu_fusion *f, const gpu_node *node,
                     gpu_chain *chain);
/* Whether `norm`, filled in, is an RMS_NORM of the sum that can be made with
 * it. */
bool gpu_fusion_norm(const gpu_fusion *f, const gpu_node *add, gpu_node *norm);
/* The chain's nodes need no code any more. */
void gpu_fusion_cover(gpu_fusion *f, const gpu_chain *chain);
