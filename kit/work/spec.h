/*
 * One op in one shape, and the graph made from it. Cases about ops, splits and
 * speed are lists of these.
 */
#pragma once

#include "graph.h"

enum {
    KIT_FORM_BIAS = 1u << 0,    /* MATMUL, LAYER_NORM: with a bias */
    KIT_FORM_VECTOR = 1u << 1,  /* ADD, MUL: b is one row */
    KIT_FORM_SYMBOL = 1u << 2,  /* rows are a symbol in 1..n, value in a run */
    KIT_FORM_VIEW = 1u << 3,    /* operands are pieces of larger tensors */
    KIT_FORM_SPECIAL = 1u << 4, /* NaN and infinity among the inputs */
    KIT_FORM_EXTREME = 1u << 5, /* large and tiny magnitudes */
    KIT_FORM_POISON = 1u << 6,  /* ATTENTION: NaN in rows no query sees */
    KIT_FORM_BOUND = 1u << 7,   /* ATTENTION: a symbol bounds the rows in use */
    KIT_FORM_ALIAS_0 = 1u << 8, /* the output is input 0 */
    KIT_FORM_ALIAS_1 = 1u << 9, /* the output is input 1 */
    KIT_FORM_OVERLAY = 1u << 10, /* with those: as a tensor of its own in the
                                    same memory */
    KIT_FORM_IMPORT = 1u << 11,  /* host memory, imported */
    KIT_FORM_OFFSET = 1u << 12,  /* at odd multiples of the pointer alignment */
    KIT_FORM_EACH = 1u << 13,    /* MATMUL_EXPERTS: x has a part for each id */
    KIT_FORM_SCORES = 1u << 14,  /* with scores, so that products are added */
    KIT_FORM_ABSENT = 1u << 15,  /* some ids are of no expert */
    KIT_FORM_ROUNDED = 1u << 16, /* MATMUL: x has a scale that is told */
    KIT_FORM_APART = 1u << 17,   /* ATTENTION: each query has a part of the
                                    cache */
};

typedef struct kit_spec {
    uint32_t op;
    uint32_t dtype;   /* of the weight, table, state or cache; CONVERT: from */
    uint32_t to;      /* CONVERT: to; 0: dtype */
    uint32_t form;    /* KIT_FORM_* */
    uint32_t variant; /* clv_activation, clv_rope_mode; MATMUL_EXPERTS:
                         normalised */
    uint32_t quant;   /* clv_quant of the weight, with its group */
    uint32_t group;
    int64_t n;     /* rows of the activation */
    int64_t value; /* rows in a run, with KIT_FORM_SYMBOL */
    int64_t in;    /* MATMUL and MATMUL_EXPERTS: input features; else the
                      width of a row */
    int64_t out;   /* the same: output features; GET_ROWS, SET_ROWS,
                      ATTENTION: rows of the table, state, cache; TOP_K: ids
                      of a row */
    int64_t experts, used; /* MATMUL_EXPERTS: E and K */
    int64_t pad;           /* between rows, units of storage; 0: dense */
    int64_t align; /* of views and padded rows, bytes; 0: the element's */
    int64_t heads, groups, dim; /* ROPE, ATTENTION: in place of in */
    int64_t pairs;              /* ROPE: rotated pairs; 0: dim / 2 */
    int32_t first;              /* ATTENTION: position of query 0, of those
                                   apart in its part of the cache;
                                   MATMUL_EXPERTS: first expert of w */
    int64_t begin;              /* ATTENTION: row that all see first */
    int64_t total;              /* MATMUL_EXPERTS: of all; 0: first + E */
    int32_t window;
    float softcap, scale;
} kit_spec;

/* Multiple that the width of the spec's rows must have for its dtypes. */
int64_t kit_spec_unit(const kit_spec *spec);
/* Whether rows of the op are heads of so many elements. */
bool kit_op_has_heads(uint32_t op);
/* ATTENTION: the first row of the cache that query i sees, but for its window,
 * and the last. */
int64_t kit_spec_first(const kit_spec *spec, int64_t i);
int64_t kit_spec_last(const kit_spec *spec, int64_t i);
/* Elements in a row of the activation. */
int64_t kit_spec_width(const kit_spec *spec);
uint32_t kit_spec_to(const kit_spec *spec); /* CONVERT: destination */
/* "q8_0.17x256x40.bias.padded", without the op. */
void kit_spec_name(const kit_spec *spec, char name[KIT_NAME_SIZE]);
/* Fills an empty graph: tensors, one node. */
clv_node *kit_spec_build(const kit_spec *spec, kit_graph *g);
/* Whether a spec of the op needs only n and in: elementwise ops, norms,
 * softmax.
 */
bool kit_is_plain_op(uint32_t op);
/* Sets the attributes of an elementwise op or a norm; variant: of an ENUM. */
void kit_set_attributes(clv_node *node, uint32_t variant);
/* Multiply-adds and bytes of one run, for speeds. */
double kit_spec_flops(const kit_spec *spec);
double kit_spec_bytes(const kit_spec *spec);
