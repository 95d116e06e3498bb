/*
 * cleave/plugin_op.h - the table of ops
 *
 * One row an op: its operands, attributes and cut axes, how much it computes,
 * and the rule for its shapes. plugin.h says what the ops compute. Whoever must
 * know something about ops in general reads it here, so that a new op is a
 * value of clv_op, a row of this table, and its kernels.
 *
 * Not part of the ABI: data and functions that a plugin or a host compiles into
 * itself, or does without. They need plugin.h and GNU C.
 */
#ifndef CLEAVE_PLUGIN_OP_H_
#define CLEAVE_PLUGIN_OP_H_

#include <cleave/plugin_format.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ */
/* The row of an op                                                          */

/* Ops of one class have the same operands, or differ in optional ones, and cost
 * alike: what is written for the class serves a new op too. */
typedef enum clv_op_class {
    CLV_CLASS_NONE = 0,
    CLV_CLASS_UNARY,     /* elementwise: x */
    CLV_CLASS_BINARY,    /* elementwise: a, and b of its shape or one row */
    CLV_CLASS_GATED,     /* elementwise: gate and up of one shape */
    CLV_CLASS_NORM,      /* rows x, weight, bias or none */
    CLV_CLASS_HEAD_NORM, /* heads x, weight of a head */
    CLV_CLASS_SOFTMAX,   /* rows x */
    CLV_CLASS_SELECT,    /* rows x to indices */
    CLV_CLASS_ROPE,      /* x, positions, frequencies */
    CLV_CLASS_GET_ROWS,  /* table, ids */
    CLV_CLASS_SET_ROWS,  /* state, rows, ids */
    CLV_CLASS_CONVERT,   /* x to another dtype */
    CLV_CLASS_MATMUL,    /* x, weight, bias or none */
    CLV_CLASS_EXPERTS,   /* x, weights, ids, scores or none */
    CLV_CLASS_ATTENTION, /* q, k, v, positions, first rows or none */
} clv_op_class;

/* Axes of a cut: the bit numbers of CLV_SPLIT_*. */
typedef enum clv_cut_axis {
    CLV_CUT_ROWS = 0,
    CLV_CUT_SEQUENCE = 1,
    CLV_CUT_CHANNELS = 2,
    CLV_CUT_HEADS = 3,
    CLV_CUT_EXPERTS = 4,
    CLV_CUT_NONE = 5, /* not cut; also the number of axes */
} clv_cut_axis;

typedef struct clv_operand {
    const char *name; /* NULL: there is none */
    uint8_t first;    /* clv_cut_axis of the outermost dimension */
    uint8_t last;     /* and of the last one; a vector has only this */
    uint8_t groups;   /* last has one head for each group of query heads */
    uint8_t written;  /* an input that the op writes */
} clv_operand;

typedef enum clv_attr_type {
    CLV_ATTR_HEAD_DIM = 0, /* uint32_t: elements of a head */
    CLV_ATTR_SYMBOL = 1,   /* uint32_t: 1 + symbol, 0: none */
    CLV_ATTR_BOOL = 2,     /* uint32_t: 0 or 1 */
    CLV_ATTR_ENUM = 3,     /* uint32_t: index of one of the choices */
    CLV_ATTR_I32 = 4,      /* int32_t, not negative */
    CLV_ATTR_F32 = 5,      /* float, finite */
    CLV_ATTR_F32_POS = 6,  /* float, finite and not negative */
} clv_attr_type;

/* A field of clv_op_attr; each has four bytes. */
typedef struct clv_attr_field {
    const char *name;    /* NULL: there is none */
    uint32_t offset;     /* in clv_op_attr */
    uint32_t type;       /* clv_attr_type */
    const char *choices; /* of an ENUM: "silu|gelu" */
} clv_attr_field;

typedef struct clv_op_shape clv_op_shape;

#define CLV_OP_OPERANDS 5 /* the most inputs of an op */
#define CLV_OP_FIELDS 7   /* the most attributes */

typedef struct clv_op_info {
    const char *name;
    uint32_t op;        /* clv_op */
    uint32_t op_class;  /* clv_op_class */
    uint8_t n_inputs;   /* the optional ones are last */
    uint8_t n_required; /* of the inputs */
    uint8_t work;       /* operations for an element of the output, where they
                           do not follow from the class; exp() is several */
    int (*infer)(clv_op_shape *shape);
    clv_operand inputs[CLV_OP_OPERANDS];
    clv_operand output;
    clv_attr_field fields[CLV_OP_FIELDS]; /* the last ones have no name */
} clv_op_info;

/* The row of an op; NULL for an unknown one. */
static inline const clv_op_info *clv_op_find(uint32_t op);

/* The op of that name, "matmul"; CLV_OP_NONE if there is none. */
static inline uint32_t clv_op_named(const char *name)
{
    const clv_op_info *info;
    for (uint32_t op = 1; (info = clv_op_find(op)); op++)
        if (!strcmp(info->name, name))
            return op;
    return CLV_OP_NONE;
}

/* "matmul"; "unknown op" for an unknown one. */
static inline const char *clv_op_name(uint32_t op)
{
    const clv_op_info *info = clv_op_find(op);
    return info ? info->name : "unknown op";
}

static inline uint32_t clv_op_class_of(uint32_t op)
{
    const clv_op_info *info = clv_op_find(op);
    return info ? info->op_class : (uint32_t)CLV_CLASS_NONE;
}

static inline int clv_op_is_elementwise(uint32_t op)
{
    const uint32_t op_class = clv_op_class_of(op);
    return op_class == CLV_CLASS_UNARY || op_class == CLV_CLASS_BINARY ||
           op_class == CLV_CLASS_GATED;
}

/* Whether the op writes its input i. */
static inline int clv_op_writes(uint32_t op, uint32_t i)
{
    const clv_op_info *info = clv_op_find(op);
    return info && i < info->n_inputs && info->inputs[i].written;
}

/* The axes along which operands of the op are cut: CLV_SPLIT_*. */
static inline uint32_t clv_op_splits(uint32_t op)
{
    const clv_op_info *info = clv_op_find(op);
    uint32_t axes = 0;
    if (!info)
        return 0;
    for (uint32_t i = 0; i < info->n_inputs; i++)
        axes |= 1u << info->inputs[i].first | 1u << info->inputs[i].last;
    axes |= 1u << info->output.first | 1u << info->output.last;
    return axes & ~(1u << CLV_CUT_NONE);
}

/* Elements in whose multiples a device cuts an axis; 0: 1. */
static inline int64_t clv_split_granularity(const clv_op_caps *caps,
                                            uint32_t axis)
{
    const uint32_t n = sizeof caps->split_granularity / sizeof(int64_t);
    return axis < n ? caps->split_granularity[axis] : 0;
}

/* Experts of which the ids of a MATMUL_EXPERTS choose. held: its weights. */
static inline int64_t clv_experts_total(const clv_op_attr *attr, int64_t held)
{
    return attr->experts.total ? attr->experts.total
                               : attr->experts.first + held;
}

/* Input i of an op, or its output for i the number of the node's inputs. An
 * operand that the op does not have is not cut. */
static inline clv_operand clv_op_operand(const clv_node *node, uint32_t i)
{
    const clv_operand none = {NULL, CLV_CUT_NONE, CLV_CUT_NONE, 0, 0};
    const clv_op_info *info = clv_op_find(node->op);
    if (!info || (i < node->n_inputs && i >= info->n_inputs))
        return none;
    return i < node->n_inputs    ? info->inputs[i]
           : i == node->n_inputs ? info->output
                                 : none;
}

/* The first input that has a row, or an entry, for each row of the activation:
 * static shapes and symbols are about its outermost dimension. */
static inline uint32_t clv_op_sequence_input(uint32_t op)
{
    const clv_op_info *info = clv_op_find(op);
    uint32_t i = 0;
    while (info && i + 1 < info->n_inputs &&
           info->inputs[i].first != CLV_CUT_SEQUENCE &&
           info->inputs[i].last != CLV_CUT_SEQUENCE)
        i++;
    return i;
}

/* ------------------------------------------------------------------------ */
/* Attributes                                                                */

/* Field i of an op; NULL past the last one. */
static inline const clv_attr_field *clv_op_field(const clv_op_info *info,
                                                 uint32_t i)
{
    return i < CLV_OP_FIELDS && info->fields[i].name ? &info->fields[i] : NULL;
}

/* The value of a field: its bits, or as a float. */
static inline uint32_t clv_attr_bits(const clv_op_attr *attr,
                                     const clv_attr_field *field)
{
    uint32_t bits;
    memcpy(&bits, (const char *)attr + field->offset, sizeof bits);
    return bits;
}

static inline float clv_attr_float(const clv_op_attr *attr,
                                   const clv_attr_field *field)
{
    float value;
    memcpy(&value, (const char *)attr + field->offset, sizeof value);
    return value;
}

/* Sets a field; value: a whole number, which a float takes on. */
static inline void clv_attr_set(clv_op_attr *attr, const clv_attr_field *field,
                                uint32_t value)
{
    const float real = (float)value;
    const int is_float =
        field->type == CLV_ATTR_F32 || field->type == CLV_ATTR_F32_POS;
    memcpy((char *)attr + field->offset,
           is_float ? (const void *)&real : &value, sizeof value);
}

/* The value of the op's first field of this type; 0 if it has none. */
static inline uint32_t clv_op_attr_of(uint32_t op, const clv_op_attr *attr,
                                      uint32_t type)
{
    const clv_op_info *info = clv_op_find(op);
    const clv_attr_field *field;
    for (uint32_t i = 0; info && (field = clv_op_field(info, i)); i++)
        if (field->type == type)
            return clv_attr_bits(attr, field);
    return 0;
}

/* Choice i of an ENUM, copied into text; 0 if there is none. */
static inline int clv_attr_choice(const clv_attr_field *field, uint32_t i,
                                  char text[32])
{
    const char *at = field->choices;
    while (at && i-- > 0)
        at = (at = strchr(at, '|')) ? at + 1 : NULL;
    if (!at)
        return 0;
    const int n = (int)strcspn(at, "|");
    snprintf(text, 32, "%.*s", n, at);
    return 1;
}

/* ------------------------------------------------------------------------ */
/* Shapes                                                                    */

/* One use of an op. The caller zeroes it and sets what is marked [in]. */
struct clv_op_shape {
    uint32_t op;                               /* [in] clv_op */
    uint32_t n_inputs;                         /* [in] */
    uint32_t n_symbols;                        /* [in] of the graph */
    const clv_op_attr *attr;                   /* [in] */
    const clv_tensor_desc *in[CLV_MAX_INPUTS]; /* [in] NULL: absent */
    clv_tensor_desc out;     /* [in] what is open: dtype and layout of CONVERT,
                                dims[1] of TOP_K; then the output */
    const clv_op_info *info; /* the op's row */
    char text[320];          /* what is wrong */
};

/* Sets of element types, as bits. */
#define CLV_DTYPE_BIT(dtype) (1u << (dtype))
#define CLV_DTYPES_FLOAT clv_formats_of(CLV_FORMAT_FLOAT)
#define CLV_DTYPES_REAL clv_formats_of(CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK)
/* Those of them that ops can write. */
#define CLV_DTYPES_WRITTEN clv_formats_written()
/* With scales in a tensor of their own. */
#define CLV_DTYPES_SCALED clv_formats_of(CLV_FORMAT_INTEGER)

static inline int clv_dtype_in(uint32_t dtype, uint32_t set)
{
    return dtype < CLV_DTYPE_COUNT && (set >> dtype & 1);
}

static inline const char *clv_dtype_label(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    return f ? f->name : "?";
}

/* "f32 [<=512,64]"; symbols are shown by their bound. Returns text. */
#define CLV_SHAPE_TEXT 128
static inline const char *clv_shape_text(const clv_tensor_desc *desc,
                                         char text[CLV_SHAPE_TEXT])
{
    const uint32_t rank = desc->rank < CLV_MAX_RANK ? desc->rank : CLV_MAX_RANK;
    int n =
        snprintf(text, CLV_SHAPE_TEXT, "%s [", clv_dtype_label(desc->dtype));
    for (uint32_t i = 0; i < rank; i++)
        n += snprintf(text + n, (size_t)(CLV_SHAPE_TEXT - n), "%s%s%lld",
                      i ? "," : "", desc->symbols[i] ? "<=" : "",
                      (long long)desc->dims[i]);
    snprintf(text + n, (size_t)(CLV_SHAPE_TEXT - n), "]");
    return text;
}

/* "f32, f16 or bf16" */
#define CLV_DTYPES_TEXT 320
static inline const char *clv_dtypes_text(uint32_t set,
                                          char text[CLV_DTYPES_TEXT])
{
    size_t n = 0;
    text[0] = 0;
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT && n < CLV_DTYPES_TEXT; i++)
        if (clv_dtype_in(i, set))
            n += (size_t)snprintf(text + n, CLV_DTYPES_TEXT - n, "%s%s",
                                  !n               ? ""
                                  : set >> (i + 1) ? ", "
                                                   : " or ",
                                  clv_dtype_label(i));
    return text;
}

static inline int clv_same_dim(const clv_tensor_desc *a, uint32_t i,
                               const clv_tensor_desc *b, uint32_t j)
{
    return a->dims[i] == b->dims[j] && a->symbols[i] == b->symbols[j];
}

static inline int clv_same_shape(const clv_tensor_desc *a,
                                 const clv_tensor_desc *b)
{
    int same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = clv_same_dim(a, i, b, i);
    return same;
}

/* --- checks that rules are made of: 1, or 0 with the text set --------------
 */

__attribute__((format(printf, 2, 3))) static inline int
clv_op_wrong(clv_op_shape *s, const char *format, ...)
{
    va_list args;
    const int n = snprintf(s->text, sizeof s->text, "%s: ", s->info->name);
    va_start(args, format);
    vsnprintf(s->text + n, sizeof s->text - (size_t)n, format, args);
    va_end(args);
    return 0;
}

/* need: what input i must be. */
static inline int clv_op_must_be(clv_op_shape *s, uint32_t i, const char *need)
{
    char text[CLV_SHAPE_TEXT];
    return clv_op_wrong(s, "%s is %s, it must be %s", s->info->inputs[i].name,
                        clv_shape_text(s->in[i], text), need);
}

/* what: of inputs i and j must be equal. */
static inline int clv_op_differ(clv_op_shape *s, uint32_t i, uint32_t j,
                                const char *what)
{
    char a[CLV_SHAPE_TEXT], b[CLV_SHAPE_TEXT];
    return clv_op_wrong(s, "%s is %s and %s is %s; %s must be equal",
                        s->info->inputs[i].name, clv_shape_text(s->in[i], a),
                        s->info->inputs[j].name, clv_shape_text(s->in[j], b),
                        what);
}

/* A matrix whose columns are known: [n,C] in f32. */
static inline int clv_op_need_rows(clv_op_shape *s, uint32_t i)
{
    const clv_tensor_desc *x = s->in[i];
    return (x->dtype == CLV_DTYPE_F32 && x->rank == 2 && !x->symbols[1]) ||
           clv_op_must_be(s, i, "an f32 matrix with a fixed number of columns");
}

/* A matrix of one of these dtypes; its rows may vary between runs. */
static inline int clv_op_need_matrix(clv_op_shape *s, uint32_t i,
                                     uint32_t dtypes)
{
    const clv_tensor_desc *x = s->in[i];
    char names[CLV_DTYPES_TEXT], need[CLV_DTYPES_TEXT + 64];
    if (clv_dtype_in(x->dtype, dtypes) && x->rank == 2 && !x->symbols[1])
        return 1;
    snprintf(need, sizeof need, "a matrix with a fixed number of columns in %s",
             clv_dtypes_text(dtypes, names));
    return clv_op_must_be(s, i, need);
}

/* The same of any real dtype, or integers with their scales. */
static inline int clv_op_need_weight(clv_op_shape *s, uint32_t i)
{
    const clv_tensor_desc *x = s->in[i];
    if (!clv_format_is(x->dtype, CLV_FORMAT_INTEGER))
        return clv_op_need_matrix(s, i, CLV_DTYPES_REAL);
    return (x->rank == 2 && x->quant && x->quant_scales) ||
           clv_op_must_be(s, i,
                          "a matrix with scales, see clv_tensor_set_quant(), "
                          "or of a float or block type");
}

/* A float vector as long as dimension dim of input j, or absent. */
static inline int clv_op_need_vector(clv_op_shape *s, uint32_t i, uint32_t j,
                                     uint32_t dim)
{
    const clv_tensor_desc *x = s->in[i];
    if (!x)
        return 1;
    if (!clv_dtype_in(x->dtype, CLV_DTYPES_FLOAT) || x->rank != 1)
        return clv_op_must_be(s, i, "a vector in f32, f16 or bf16");
    return clv_same_dim(x, 0, s->in[j], dim) ||
           clv_op_differ(s, i, j, "their channels");
}

/* An i32 vector; with an entry for each row of input j unless j is i. */
static inline int clv_op_need_ids(clv_op_shape *s, uint32_t i, uint32_t j)
{
    const clv_tensor_desc *x = s->in[i];
    if (x->dtype != CLV_DTYPE_I32 || x->rank != 1)
        return clv_op_must_be(s, i, "an i32 vector");
    return clv_same_dim(x, 0, s->in[j], 0) ||
           clv_op_differ(s, i, j, "their rows");
}

/* Whole heads of that many channels. */
static inline int clv_op_need_heads(clv_op_shape *s, uint32_t i,
                                    uint32_t head_dim)
{
    const int64_t channels = s->in[i]->dims[1];
    return (head_dim && channels % head_dim == 0) ||
           clv_op_wrong(s,
                        "%s has %lld channels, which are not whole heads of "
                        "%u",
                        s->info->inputs[i].name, (long long)channels,
                        (unsigned)head_dim);
}

/* The output is f32 of input i's shape. Returns 1. */
static inline int clv_op_make_like(clv_op_shape *s, uint32_t i)
{
    const clv_tensor_desc *x = s->in[i];
    s->out.dtype = CLV_DTYPE_F32;
    s->out.rank = x->rank;
    memcpy(s->out.dims, x->dims, sizeof x->dims);
    memcpy(s->out.symbols, x->symbols, sizeof x->symbols);
    memcpy(s->out.axes, x->axes, sizeof x->axes);
    return 1;
}

/* --- rules: fill out, from what is open in it ------------------------------
 */

static inline int clv_infer_get_rows(clv_op_shape *s)
{
    if (!clv_op_need_weight(s, 0) || !clv_op_need_ids(s, 1, 1))
        return 0;
    clv_op_make_like(s, 0);
    s->out.dims[0] = s->in[1]->dims[0];
    s->out.symbols[0] = s->in[1]->symbols[0];
    return 1;
}

static inline int clv_infer_set_rows(clv_op_shape *s)
{
    if (!clv_op_need_matrix(s, 0, CLV_DTYPES_WRITTEN))
        return 0;
    if (s->in[0]->usage != CLV_USAGE_STATE)
        return clv_op_wrong(s, "its first operand must be a state");
    if (!clv_op_need_rows(s, 1))
        return 0;
    if (s->in[0]->dims[1] != s->in[1]->dims[1])
        return clv_op_differ(s, 0, 1, "their columns");
    return clv_op_need_ids(s, 2, 1);
}

static inline int clv_infer_matmul(clv_op_shape *s)
{
    const clv_tensor_desc *x = s->in[0], *w = s->in[1];
    if (!clv_op_need_rows(s, 0) || !clv_op_need_weight(s, 1))
        return 0;
    if (w->symbols[0])
        return clv_op_must_be(s, 1, "a matrix with a fixed number of rows");
    if (x->dims[1] != w->dims[1])
        return clv_op_differ(s, 0, 1, "the last dimensions");
    clv_op_make_like(s, 0);
    s->out.dims[1] = w->dims[0];
    return clv_op_need_vector(s, 2, 1, 0);
}

static inline int clv_infer_unary(clv_op_shape *s)
{
    return s->in[0]->dtype == CLV_DTYPE_F32 ? clv_op_make_like(s, 0)
                                            : clv_op_must_be(s, 0, "f32");
}

static inline int clv_infer_binary(clv_op_shape *s)
{
    const clv_tensor_desc *a = s->in[0], *b = s->in[1];
    if (!clv_infer_unary(s))
        return 0;
    if (b->dtype == CLV_DTYPE_F32 && clv_same_shape(a, b))
        return 1;
    if (b->rank != 1 || !clv_dtype_in(b->dtype, CLV_DTYPES_FLOAT))
        return clv_op_must_be(s, 1,
                              "an f32 tensor of the same shape, or a float "
                              "vector");
    return clv_op_need_vector(s, 1, 0, a->rank - 1);
}

static inline int clv_infer_gated(clv_op_shape *s)
{
    if (!clv_op_need_rows(s, 0) || !clv_op_need_rows(s, 1))
        return 0;
    return clv_same_shape(s->in[0], s->in[1])
               ? clv_op_make_like(s, 0)
               : clv_op_differ(s, 0, 1, "their shapes");
}

static inline int clv_infer_rows(clv_op_shape *s)
{
    return clv_op_need_rows(s, 0) && clv_op_make_like(s, 0);
}

static inline int clv_infer_norm(clv_op_shape *s)
{
    return clv_infer_rows(s) && clv_op_need_vector(s, 1, 0, 1) &&
           clv_op_need_vector(s, 2, 0, 1);
}

static inline int clv_infer_head_norm(clv_op_shape *s)
{
    const uint32_t head_dim = s->attr->norm.head_dim;
    const clv_tensor_desc *w = s->in[1];
    if (!clv_infer_rows(s) || !clv_op_need_heads(s, 0, head_dim))
        return 0;
    return (clv_dtype_in(w->dtype, CLV_DTYPES_FLOAT) && w->rank == 1 &&
            !w->symbols[0] && w->dims[0] == head_dim) ||
           clv_op_must_be(s, 1, "a float vector as long as a head");
}

static inline int clv_infer_rope(clv_op_shape *s)
{
    const uint32_t head_dim = s->attr->rope.head_dim;
    const clv_tensor_desc *freq = s->in[2];
    if (!clv_infer_rows(s) || !clv_op_need_heads(s, 0, head_dim) ||
        !clv_op_need_ids(s, 1, 0))
        return 0;
    return (freq->dtype == CLV_DTYPE_F32 && freq->rank == 1 &&
            !freq->symbols[0] && freq->dims[0] <= head_dim / 2) ||
           clv_op_must_be(s, 2,
                          "an f32 vector of at most half a head's channels");
}

static inline int clv_op_need_cache(clv_op_shape *s, uint32_t i)
{
    const clv_tensor_desc *x = s->in[i];
    const uint32_t head_dim = s->attr->attention.head_dim;
    if ((x->dtype != CLV_DTYPE_F32 && x->dtype != CLV_DTYPE_F16 &&
         x->dtype != CLV_DTYPE_Q8_0) ||
        x->rank != 2 || x->symbols[1])
        return clv_op_must_be(
            s, i, "an f32, f16 or q8_0 matrix with a fixed number of columns");
    const uint32_t block = clv_format_of(x->dtype)->elements;
    if (head_dim % block)
        return clv_op_wrong(s, "heads of %u columns are not whole blocks of %u",
                            head_dim, block);
    return clv_op_need_heads(s, i, head_dim);
}

static inline int clv_infer_attention(clv_op_shape *s)
{
    const uint32_t head_dim = s->attr->attention.head_dim;
    const clv_tensor_desc *q = s->in[0], *k = s->in[1], *v = s->in[2];
    if (!clv_infer_rows(s) || !clv_op_need_heads(s, 0, head_dim) ||
        !clv_op_need_cache(s, 1) || !clv_op_need_cache(s, 2) ||
        !clv_op_need_ids(s, 3, 0) || (s->in[4] && !clv_op_need_ids(s, 4, 0)))
        return 0;
    if (!clv_same_shape(k, v) || k->dtype != v->dtype)
        return clv_op_differ(s, 1, 2, "their types and shapes");
    return q->dims[1] % k->dims[1] == 0 ||
           clv_op_wrong(s, "q has %lld heads, not a multiple of the %lld of k",
                        (long long)q->dims[1] / head_dim,
                        (long long)k->dims[1] / head_dim);
}

/* The dtype and the layout are in out. */
static inline int clv_infer_convert(clv_op_shape *s)
{
    const uint32_t dtype = s->out.dtype;
    const int same =
        s->out.layout == CLV_LAYOUT_PRIVATE && dtype == s->in[0]->dtype;
    char names[CLV_DTYPES_TEXT];
    if (!clv_dtype_in(s->in[0]->dtype, CLV_DTYPES_REAL))
        return clv_op_must_be(s, 0, clv_dtypes_text(CLV_DTYPES_REAL, names));
    if (!same && !clv_dtype_in(dtype, CLV_DTYPES_WRITTEN))
        return clv_op_wrong(s, "the type asked for is not %s",
                            clv_dtypes_text(CLV_DTYPES_WRITTEN, names));
    clv_op_make_like(s, 0);
    s->out.dtype = dtype;
    return 1;
}

/* The number of columns is in out. */
static inline int clv_infer_top_k(clv_op_shape *s)
{
    const int64_t k = s->out.dims[1];
    if (!clv_infer_rows(s))
        return 0;
    if (k < 1 || k > s->in[0]->dims[1])
        return clv_op_wrong(s, "%lld of %lld columns; it takes 1 to all",
                            (long long)k, (long long)s->in[0]->dims[1]);
    s->out.dtype = CLV_DTYPE_I32;
    s->out.dims[1] = k;
    return 1;
}

/* Weights of experts [E,O,I], of which ids [n,K] choose. */
static inline int clv_op_need_experts(clv_op_shape *s)
{
    const clv_tensor_desc *x = s->in[0], *w = s->in[1], *ids = s->in[2];
    char names[CLV_DTYPES_TEXT], need[CLV_DTYPES_TEXT + 64];
    if (!clv_dtype_in(w->dtype, CLV_DTYPES_REAL) || w->rank != 3 ||
        w->symbols[0] || w->symbols[1] || w->symbols[2]) {
        snprintf(need, sizeof need, "of rank 3 and fixed size in %s",
                 clv_dtypes_text(CLV_DTYPES_REAL, names));
        return clv_op_must_be(s, 1, need);
    }
    if (ids->dtype != CLV_DTYPE_I32 || ids->rank != 2 || ids->symbols[1])
        return clv_op_must_be(s, 2,
                              "an i32 matrix with a fixed number of columns");
    if (!clv_same_dim(x, 0, ids, 0))
        return clv_op_differ(s, 0, 2, "their rows");
    return x->dims[1] == w->dims[2] ||
           (x->dims[1] % ids->dims[1] == 0 &&
            x->dims[1] / ids->dims[1] == w->dims[2]) ||
           clv_op_differ(s, 0, 1,
                         "the last dimensions, or for each of the ids a part "
                         "of x,");
}

static inline int clv_infer_experts(clv_op_shape *s)
{
    const clv_tensor_desc *w = s->in[1], *scores = s->in[3];
    const int32_t first = s->attr->experts.first;
    if (!clv_infer_rows(s) || !clv_op_need_experts(s) ||
        (scores && !clv_op_need_rows(s, 3)))
        return 0;
    if (first < 0 || w->dims[0] > INT32_MAX - first)
        return clv_op_wrong(s,
                            "%lld experts from number %d on; there are 2^31 "
                            "at most",
                            (long long)w->dims[0], first);
    const int64_t total = clv_experts_total(s->attr, w->dims[0]);
    if (total - first < w->dims[0])
        return clv_op_wrong(s, "%lld experts from number %d on, of %lld in all",
                            (long long)w->dims[0], first, (long long)total);
    if (scores && !clv_same_dim(scores, 0, s->in[0], 0))
        return clv_op_differ(s, 3, 0, "their rows");
    if (scores && scores->dims[1] != total)
        return clv_op_differ(s, 3, 1, "the number of experts");
    if (s->attr->experts.normalised && !scores)
        return clv_op_wrong(s, "only with scores it can be normalised");
    return !__builtin_mul_overflow(scores ? (int64_t)1 : s->in[2]->dims[1],
                                   w->dims[1], &s->out.dims[1]) ||
           clv_op_wrong(s, "the output has more than 2^63 columns");
}

/* ------------------------------------------------------------------------ */
/* The table                                                                 */

static inline const clv_op_info *clv_op_find(uint32_t op)
{
/* clang-format off */
#define CLV_O_(name, first, last)                                              \
    {name, CLV_CUT_##first, CLV_CUT_##last, 0, 0}
#define CLV_G_(name, first, last)                                              \
    {name, CLV_CUT_##first, CLV_CUT_##last, 1, 0}
#define CLV_W_(name, first, last)                                              \
    {name, CLV_CUT_##first, CLV_CUT_##last, 0, 1}
#define CLV_A_(name, member, type)                                             \
    {name, (uint32_t)offsetof(clv_op_attr, member), CLV_ATTR_##type, NULL}
#define CLV_E_(name, member, choices)                                          \
    {name, (uint32_t)offsetof(clv_op_attr, member), CLV_ATTR_ENUM, choices}
#define CLV_NO_OUTPUT_ {NULL, CLV_CUT_NONE, CLV_CUT_NONE, 0, 0}
#define CLV_NO_ATTR_ {{NULL, 0, 0, NULL}}
#define CLV_ONE_(...) {__VA_ARGS__}
#define CLV_UNARY_(name, op, work, fields)                                     \
    {name, CLV_OP_##op, CLV_CLASS_UNARY, 1, 1, work, clv_infer_unary,          \
     {CLV_O_("x", SEQUENCE, ROWS)}, CLV_O_("y", SEQUENCE, ROWS), fields}
#define CLV_BINARY_(name, op, work, fields)                                    \
    {name, CLV_OP_##op, CLV_CLASS_BINARY, 2, 2, work, clv_infer_binary,        \
     {CLV_O_("a", SEQUENCE, ROWS), CLV_O_("b", SEQUENCE, ROWS)},               \
     CLV_O_("y", SEQUENCE, ROWS), fields}
    /* In the order of clv_op, from 1. */
    static const clv_op_info ops[] = {
        {"get_rows", CLV_OP_GET_ROWS, CLV_CLASS_GET_ROWS, 2, 2, 1,
         clv_infer_get_rows,
         {CLV_O_("table", NONE, ROWS), CLV_O_("ids", NONE, SEQUENCE)},
         CLV_O_("y", SEQUENCE, ROWS), CLV_NO_ATTR_},
        {"set_rows", CLV_OP_SET_ROWS, CLV_CLASS_SET_ROWS, 3, 3, 1,
         clv_infer_set_rows,
         {CLV_W_("state", NONE, ROWS), CLV_O_("src", SEQUENCE, ROWS),
          CLV_O_("ids", NONE, SEQUENCE)},
         CLV_NO_OUTPUT_, CLV_NO_ATTR_},
        {"matmul", CLV_OP_MATMUL, CLV_CLASS_MATMUL, 3, 2, 0,
         clv_infer_matmul,
         {CLV_O_("x", SEQUENCE, CHANNELS), CLV_O_("w", ROWS, CHANNELS),
          CLV_O_("bias", NONE, ROWS)},
         CLV_O_("y", SEQUENCE, ROWS),
         {CLV_A_("input_scale", matmul.input_scale, F32_POS)}},
        CLV_BINARY_("add", ADD, 1, CLV_NO_ATTR_),
        CLV_BINARY_("mul", MUL, 1, CLV_NO_ATTR_),
        CLV_UNARY_("silu", SILU, 8, CLV_NO_ATTR_),
        CLV_UNARY_("gelu", GELU, 8, CLV_NO_ATTR_),
        {"glu", CLV_OP_GLU, CLV_CLASS_GATED, 2, 2, 8,
         clv_infer_gated,
         {CLV_O_("gate", SEQUENCE, ROWS), CLV_O_("up", SEQUENCE, ROWS)},
         CLV_O_("y", SEQUENCE, ROWS),
         {CLV_E_("activation", glu.activation, "silu|gelu")}},
        {"rms_norm", CLV_OP_RMS_NORM, CLV_CLASS_NORM, 2, 2, 4,
         clv_infer_norm,
         {CLV_O_("x", SEQUENCE, NONE), CLV_O_("weight", NONE, NONE)},
         CLV_O_("y", SEQUENCE, NONE), {CLV_A_("eps", norm.eps, F32_POS)}},
        {"layer_norm", CLV_OP_LAYER_NORM, CLV_CLASS_NORM, 3, 2, 4,
         clv_infer_norm,
         {CLV_O_("x", SEQUENCE, NONE), CLV_O_("weight", NONE, NONE),
          CLV_O_("bias", NONE, NONE)},
         CLV_O_("y", SEQUENCE, NONE), {CLV_A_("eps", norm.eps, F32_POS)}},
        {"rope", CLV_OP_ROPE, CLV_CLASS_ROPE, 3, 3, 4,
         clv_infer_rope,
         {CLV_O_("x", SEQUENCE, HEADS), CLV_O_("pos", NONE, SEQUENCE),
          CLV_O_("inv_freq", NONE, NONE)},
         CLV_O_("y", SEQUENCE, HEADS),
         {CLV_E_("mode", rope.mode, "halves|pairs"),
          CLV_A_("head_dim", rope.head_dim, HEAD_DIM),
          CLV_A_("scale", rope.scale, F32)}},
        {"softmax", CLV_OP_SOFTMAX, CLV_CLASS_SOFTMAX, 1, 1, 8,
         clv_infer_rows, {CLV_O_("x", SEQUENCE, NONE)},
         CLV_O_("y", SEQUENCE, NONE), CLV_NO_ATTR_},
        {"attention", CLV_OP_ATTENTION, CLV_CLASS_ATTENTION, 5, 4, 0,
         clv_infer_attention,
         {CLV_O_("q", SEQUENCE, HEADS), CLV_G_("k", NONE, HEADS),
          CLV_G_("v", NONE, HEADS), CLV_O_("pos", NONE, SEQUENCE),
          CLV_O_("first", NONE, SEQUENCE)},
         CLV_O_("y", SEQUENCE, HEADS),
         {CLV_A_("head_dim", attention.head_dim, HEAD_DIM),
          CLV_A_("scale", attention.scale, F32),
          CLV_A_("softcap", attention.softcap, F32_POS),
          CLV_A_("window", attention.window, I32),
          CLV_A_("rows", attention.rows_symbol, SYMBOL),
          CLV_A_("seen", attention.seen_symbol, SYMBOL),
          CLV_A_("apart", attention.apart, BOOL)}},
        {"convert", CLV_OP_CONVERT, CLV_CLASS_CONVERT, 1, 1, 1,
         clv_infer_convert, {CLV_O_("x", SEQUENCE, ROWS)},
         CLV_O_("y", SEQUENCE, ROWS), CLV_NO_ATTR_},
        {"top_k", CLV_OP_TOP_K, CLV_CLASS_SELECT, 1, 1, 0,
         clv_infer_top_k, {CLV_O_("x", SEQUENCE, NONE)},
         CLV_O_("ids", SEQUENCE, NONE), CLV_NO_ATTR_},
        {"matmul_experts", CLV_OP_MATMUL_EXPERTS, CLV_CLASS_EXPERTS, 4, 3, 0,
         clv_infer_experts,
         {CLV_O_("x", SEQUENCE, NONE), CLV_O_("w", EXPERTS, NONE),
          CLV_O_("ids", SEQUENCE, NONE), CLV_O_("scores", SEQUENCE, NONE)},
         CLV_O_("y", SEQUENCE, NONE),
         {CLV_A_("normalised", experts.normalised, BOOL),
          CLV_A_("first", experts.first, I32),
          CLV_A_("total", experts.total, I32)}},
        CLV_UNARY_("sigmoid", SIGMOID, 8, CLV_NO_ATTR_),
        CLV_UNARY_("scale", SCALE, 1,
                   CLV_ONE_(CLV_A_("factor", scale.factor, F32))),
        CLV_UNARY_("softcap", SOFTCAP, 8,
                   CLV_ONE_(CLV_A_("cap", softcap.cap, F32_POS))),
        {"head_norm", CLV_OP_HEAD_NORM, CLV_CLASS_HEAD_NORM, 2, 2, 4,
         clv_infer_head_norm,
         {CLV_O_("x", SEQUENCE, HEADS), CLV_O_("weight", NONE, NONE)},
         CLV_O_("y", SEQUENCE, HEADS),
         {CLV_A_("eps", norm.eps, F32_POS),
          CLV_A_("head_dim", norm.head_dim, HEAD_DIM)}},
        {"sparse_mixer", CLV_OP_SPARSE_MIXER, CLV_CLASS_SOFTMAX, 1, 1, 8,
         clv_infer_rows, {CLV_O_("x", SEQUENCE, NONE)},
         CLV_O_("y", SEQUENCE, NONE),
         {CLV_A_("jitter", mixer.jitter, F32_POS)}},
        CLV_UNARY_("round", ROUND, 4,
                   CLV_ONE_(CLV_A_("scale", round.scale, F32_POS))),
        CLV_UNARY_("excess", EXCESS, 2,
                   CLV_ONE_(CLV_A_("limit", excess.limit, F32_POS))),
        {"nonzero", CLV_OP_NONZERO, CLV_CLASS_SELECT, 1, 1, 0,
         clv_infer_top_k, {CLV_O_("x", SEQUENCE, NONE)},
         CLV_O_("ids", SEQUENCE, NONE), CLV_NO_ATTR_},
    };
#undef CLV_UNARY_
#undef CLV_BINARY_
#undef CLV_O_
#undef CLV_G_
#undef CLV_W_
#undef CLV_A_
#undef CLV_E_
#undef CLV_NO_OUTPUT_
#undef CLV_NO_ATTR_
#undef CLV_ONE_
    /* clang-format on */
    return op - 1 < sizeof ops / sizeof *ops ? &ops[op - 1] : NULL;
}

/* Every attribute is in its range. */
static inline int clv_op_check_attr(clv_op_shape *s)
{
    const clv_attr_field *f;
    for (uint32_t i = 0; (f = clv_op_field(s->info, i)); i++) {
        const uint32_t bits = clv_attr_bits(s->attr, f);
        const float value = clv_attr_float(s->attr, f);
        char choice[32];
        if (f->type == CLV_ATTR_ENUM && !clv_attr_choice(f, bits, choice))
            return clv_op_wrong(s, "%s %u is unknown; it is one of %s", f->name,
                                (unsigned)bits, f->choices);
        if (f->type == CLV_ATTR_BOOL && bits > 1)
            return clv_op_wrong(s, "%s must be 0 or 1", f->name);
        if (f->type == CLV_ATTR_I32 && bits > INT32_MAX)
            return clv_op_wrong(s, "the %s is negative", f->name);
        if (f->type == CLV_ATTR_F32 && !isfinite(value))
            return clv_op_wrong(s, "%s must be finite", f->name);
        if (f->type == CLV_ATTR_F32_POS && !(isfinite(value) && value >= 0))
            return clv_op_wrong(s, "%s must be finite and not negative",
                                f->name);
        if (f->type == CLV_ATTR_SYMBOL && bits > s->n_symbols)
            return clv_op_wrong(s, "%s is no symbol of this graph", f->name);
    }
    return 1;
}

/* Gives the output of an op (usage TRANSIENT) by its inputs and attributes.
 * CLV_ERR_UNSUPPORTED for an unknown op; CLV_ERR_INVALID where they do not go
 * together, with the text set, which begins with the op's name. */
static inline clv_status clv_op_infer(clv_op_shape *s)
{
    const uint32_t dtype = s->out.dtype, layout = s->out.layout;
    const int64_t columns = s->out.dims[1];
    s->info = clv_op_find(s->op);
    s->text[0] = 0;
    memset(&s->out, 0, sizeof s->out);
    s->out.header.struct_size = (uint32_t)sizeof s->out;
    s->out.header.struct_type = CLV_STRUCT_TENSOR_DESC;
    s->out.dtype = dtype;
    if (s->op == CLV_OP_CONVERT)
        s->out.layout = layout;
    s->out.dims[1] = columns;
    if (!s->info) {
        snprintf(s->text, sizeof s->text, "op %u is unknown", (unsigned)s->op);
        return CLV_ERR_UNSUPPORTED;
    }
    int right = s->n_inputs <= s->info->n_inputs ||
                clv_op_wrong(s, "%u operands, it takes %u",
                             (unsigned)s->n_inputs, s->info->n_inputs);
    for (uint32_t i = 0; right && i < s->info->n_required; i++)
        right = (i < s->n_inputs && s->in[i]) ||
                clv_op_wrong(s, "%s is missing", s->info->inputs[i].name);
    return right && s->info->infer(s) && clv_op_check_attr(s) ? CLV_OK
                                                              : CLV_ERR_INVALID;
}

/* Whether the output of a node, in s->out, is what the op gives; as above. */
static inline clv_status clv_op_check(clv_op_shape *s)
{
    const clv_tensor_desc out = s->out;
    char is[CLV_SHAPE_TEXT], need[CLV_SHAPE_TEXT];
    const clv_status status = clv_op_infer(s);
    if (status != CLV_OK || !s->info->output.name)
        return status;
    clv_shape_text(&s->out, need);
    const int same = out.dtype == s->out.dtype && clv_same_shape(&out, &s->out);
    s->out = out;
    if (!same)
        clv_op_wrong(s, "the output is %s, it must be %s",
                     clv_shape_text(&out, is), need);
    return same ? CLV_OK : CLV_ERR_INVALID;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_OP_H_ */
