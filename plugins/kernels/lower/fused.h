/* Nodes that one kernel computes, as data: chains of elementwise ops behind an
 * op, and fused groups of products. graph/ finds them, ops/ lowers them. */
#pragma once

#include "lower/check.h"

#define GPU_MAX_LINKS 4

typedef struct gpu_link {
    gpu_post_op op;
    gpu_tensor operand; /* index CLV_NO_TENSOR: none */
    float value;
} gpu_link;

typedef struct gpu_chain {
    gpu_link links[GPU_MAX_LINKS];
    uint32_t n_links;
    uint32_t nodes[GPU_MAX_LINKS + 1]; /* that are covered */
    uint32_t n_nodes;
    gpu_tensor out;        /* of the last that has one */
    bool sets;             /* a SET_ROWS is the last: to the rows of */
    gpu_tensor state, ids; /* state that ids say */
    uint32_t map;          /* private buffer: the row of each, or -1 */
} gpu_chain;

/* Appends what an elementwise node does with its input `at`, as links; false:
 * that is no post. */
static inline bool gpu_add_links(gpu_chain *chain, const gpu_node *node,
                                 uint32_t at)
{
    const gpu_tensor none = {.index = CLV_NO_TENSOR}, *other = &node->in[!at];
    const bool silu = node->node.attr.glu.activation == CLV_ACT_SILU;
    gpu_link *link = &chain->links[chain->n_links++];
    switch (node->node.op) {
    case CLV_OP_ADD:
        *link = (gpu_link){GPU_POST_ADD, *other, 0};
        return true;
    case CLV_OP_MUL:
        *link = (gpu_link){GPU_POST_MUL, *other, 0};
        return true;
    case CLV_OP_SILU:
        *link = (gpu_link){GPU_POST_SILU, none, 0};
        return true;
    case CLV_OP_GELU:
        *link = (gpu_link){GPU_POST_GELU, none, 0};
        return true;
    case CLV_OP_SIGMOID:
        *link = (gpu_link){GPU_POST_SIGMOID, none, 0};
        return true;
    case CLV_OP_SCALE:
        *link = (gpu_link){GPU_POST_SCALE, none, node->node.attr.scale.factor};
        return true;
    case CLV_OP_SOFTCAP:
        *link = (gpu_link){GPU_POST_SOFTCAP, none, node->node.attr.softcap.cap};
        if (link->value == 0) /* none */
            *link = (gpu_link){GPU_POST_SCALE, none, 1};
        return true;
    case CLV_OP_EXCESS:
        *link = (gpu_link){GPU_POST_EXCESS, none, node->node.attr.excess.limit};
        return true;
    case CLV_OP_ROUND:
        *link = (gpu_link){GPU_POST_ROUND, none, node->node.attr.round.scale};
        if (link->value == 0) /* not at all */
            *link = (gpu_link){GPU_POST_SCALE, none, 1};
        return true;
    case CLV_OP_GLU:
        if (at) { /* the input is what is gated */
            *link = (gpu_link){silu ? GPU_POST_MUL_SILU : GPU_POST_MUL_GELU,
                               *other, 0};
            return true;
        }
        *link = (gpu_link){silu ? GPU_POST_SILU : GPU_POST_GELU, none, 0};
        chain->links[chain->n_links++] = (gpu_link){GPU_POST_MUL, *other, 0};
        return true;
    }
    chain->n_links--;
    return false;
}

#define GPU_FUSED_MAX 3
#define GPU_MAX_TERMS 4

/* What is added to x of a group, in this order. */
typedef struct gpu_sum {
    gpu_tensor terms[GPU_MAX_TERMS];
    uint32_t n;
    gpu_tensor out; /* where the sum is written as well; index CLV_NO_TENSOR:
                       nowhere */
} gpu_sum;

typedef struct gpu_fused_member {
    gpu_node product;
    bool rotated;   /* by a ROPE */
    gpu_node rope;  /* if rotated */
    gpu_tensor out; /* of the last node but a SET_ROWS */
    gpu_chain sets; /* if sets.sets: where the rows of out go instead */
} gpu_fused_member;

typedef struct gpu_fused {
    gpu_fused_member members[GPU_FUSED_MAX]; /* with a GLU: gate, up */
    uint32_t n;
    gpu_node norm; /* if has_norm */
    gpu_tensor x;  /* of the products; with a norm, that one's */
    bool has_norm, has_glu;
    const gpu_node
        *rope; /* of one that is rotated: all have the same positions,
                  frequencies and attributes; NULL: none is */
    uint32_t activation;
    uint32_t n_outs; /* as many as members, which have them; 1 with a GLU */
    /* Nodes, the first among them. */
    uint32_t covered[3 * GPU_FUSED_MAX + 2 + GPU_MAX_TERMS];
    uint32_t n_covered;
    uint32_t n_others; /* products of x that can be a group of their own, whose
                          weights lie otherwise */
} gpu_fused;
