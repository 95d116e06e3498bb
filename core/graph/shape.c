#include "shape.h"
#include "dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One inference: what the rules below look at and write to. */
typedef struct inference {
    const struct op_rule *rule;
    const clv_op_attr *attr;
    const clv_tensor_desc *in[CLV_MAX_INPUTS];
    clv_tensor_desc *out;
} inference;

typedef struct op_rule {
    const char *name;
    clv_status (*infer)(inference *f);
    uint8_t n_inputs, n_required;
    bool output;
    const char *inputs[4]; /* their names, for messages */
} op_rule;

const char *core_shape_text(const clv_tensor_desc *desc,
                            char text[CORE_SHAPE_TEXT])
{
    const char *dtype = clv_dtype_name(desc->dtype);
    uint32_t rank = desc->rank < CLV_MAX_RANK ? desc->rank : CLV_MAX_RANK;
    int n = snprintf(text, CORE_SHAPE_TEXT, "%s [", dtype ? dtype : "?");
    for (uint32_t i = 0; i < rank; i++)
        n += snprintf(text + n, (size_t)(CORE_SHAPE_TEXT - n), "%s%s%lld",
                      i ? "," : "", desc->symbols[i] ? "<=" : "",
                      (long long)desc->dims[i]);
    snprintf(text + n, (size_t)(CORE_SHAPE_TEXT - n), "]");
    return text;
}

clv_status core_shape_check(uint32_t dtype, uint32_t rank, const int64_t *dims,
                            uint64_t *size)
{
    uint32_t elements, block_bytes;
    uint64_t n = 1, bytes;
    if (!clv_dtype_block(dtype, &elements, &block_bytes))
        return clv_error(CLV_ERR_INVALID, "element type %u is unknown", dtype);
    if (rank < 1 || rank > CLV_MAX_RANK)
        return clv_error(CLV_ERR_INVALID, "rank %u is outside 1..%d", rank,
                         CLV_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1)
            return clv_error(CLV_ERR_INVALID, "dimension %u is %lld, below 1",
                             i, (long long)dims[i]);
        if (__builtin_mul_overflow(n, (uint64_t)dims[i], &n))
            return clv_error(CLV_ERR_INVALID, "more than 2^64 elements");
    }
    if (dims[rank - 1] % elements)
        return clv_error(CLV_ERR_INVALID,
                         "rows of %lld elements are not whole blocks of %u "
                         "(%s)",
                         (long long)dims[rank - 1], elements,
                         clv_dtype_name(dtype));
    clv_status status = clv_dtype_size(dtype, n, &bytes);
    if (status)
        return status;
    if (bytes > INT64_MAX)
        return clv_error(CLV_ERR_INVALID, "%llu bytes, the limit is 2^63 - 1",
                         (unsigned long long)bytes);
    if (size)
        *size = bytes;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Checks that rules are made of                                             */

static clv_status wrong(const inference *f, uint32_t i, const char *need)
{
    char text[CORE_SHAPE_TEXT];
    return clv_error(CLV_ERR_INVALID, "%s: %s is %s, it must be %s",
                     f->rule->name, f->rule->inputs[i],
                     core_shape_text(f->in[i], text), need);
}

static clv_status differ(const inference *f, uint32_t i, uint32_t j,
                         const char *need)
{
    char a[CORE_SHAPE_TEXT], b[CORE_SHAPE_TEXT];
    return clv_error(CLV_ERR_INVALID,
                     "%s: %s is %s and %s is %s; %s must be "
                     "equal",
                     f->rule->name, f->rule->inputs[i],
                     core_shape_text(f->in[i], a), f->rule->inputs[j],
                     core_shape_text(f->in[j], b), need);
}

static clv_status attr_error(const inference *f, const char *need)
{
    return clv_error(CLV_ERR_INVALID, "%s: %s", f->rule->name, need);
}

static bool same_dim(const clv_tensor_desc *a, uint32_t i,
                     const clv_tensor_desc *b, uint32_t j)
{
    return a->dims[i] == b->dims[j] && a->symbols[i] == b->symbols[j];
}

static bool same_shape(const clv_tensor_desc *a, const clv_tensor_desc *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = same_dim(a, i, b, i);
    return same;
}

/* A matrix whose columns are known: [n, C] in f32. */
static clv_status need_rows(const inference *f, uint32_t i)
{
    const clv_tensor_desc *x = f->in[i];
    if (x->dtype != CLV_DTYPE_F32 || x->rank != 2 || x->symbols[1])
        return wrong(f, i, "an f32 matrix with a fixed number of columns");
    return CLV_OK;
}

/* A matrix in any real dtype; its rows may vary between runs. */
static clv_status need_table(const inference *f, uint32_t i)
{
    const clv_tensor_desc *x = f->in[i];
    if (!core_dtype_is_real(x->dtype) || x->rank != 2 || x->symbols[1])
        return wrong(f, i,
                     "a matrix with a fixed number of columns of floats or "
                     "blocks");
    return CLV_OK;
}

/* The same, or integers with their scales. */
static clv_status need_weight(const inference *f, uint32_t i)
{
    const clv_tensor_desc *x = f->in[i];
    if (!core_dtype_is_scaled(x->dtype))
        return need_table(f, i);
    if (x->rank != 2 || !x->quant || !x->quant_scales)
        return wrong(f, i,
                     "a matrix with scales, see clv_tensor_set_quant(), "
                     "or of a float or block type");
    return CLV_OK;
}

/* A float vector as long as dimension dim of input j. */
static clv_status need_vector(const inference *f, uint32_t i, uint32_t j,
                              uint32_t dim)
{
    const clv_tensor_desc *x = f->in[i];
    if (!x)
        return CLV_OK;
    if (!core_dtype_is_float(x->dtype) || x->rank != 1)
        return wrong(f, i, "a vector in f32, f16 or bf16");
    if (!same_dim(x, 0, f->in[j], dim))
        return differ(f, i, j, "their channels");
    return CLV_OK;
}

/* An i32 vector with an entry for each row of input j. */
static clv_status need_row_ids(const inference *f, uint32_t i, uint32_t j)
{
    const clv_tensor_desc *x = f->in[i];
    if (x->dtype != CLV_DTYPE_I32 || x->rank != 1)
        return wrong(f, i, "an i32 vector");
    if (!same_dim(x, 0, f->in[j], 0))
        return differ(f, i, j, "their rows");
    return CLV_OK;
}

static void make_f32_like(clv_tensor_desc *out, const clv_tensor_desc *x)
{
    out->dtype = CLV_DTYPE_F32;
    out->rank = x->rank;
    memcpy(out->dims, x->dims, sizeof out->dims);
    memcpy(out->symbols, x->symbols, sizeof out->symbols);
    memcpy(out->axes, x->axes, sizeof out->axes);
}

/* ------------------------------------------------------------------------ */
/* Rules                                                                     */

static clv_status infer_get_rows(inference *f)
{
    const clv_tensor_desc *table = f->in[0], *ids = f->in[1];
    clv_status status = need_weight(f, 0);
    if (status)
        return status;
    if (ids->dtype != CLV_DTYPE_I32 || ids->rank != 1)
        return wrong(f, 1, "an i32 vector");
    make_f32_like(f->out, table);
    f->out->dims[0] = ids->dims[0];
    f->out->symbols[0] = ids->symbols[0];
    return CLV_OK;
}

static clv_status infer_set_rows(inference *f)
{
    clv_status status = need_table(f, 0);
    if (status)
        return status;
    if (f->in[0]->usage != CLV_USAGE_STATE)
        return attr_error(f, "its first operand must be a state");
    if ((status = need_rows(f, 1)))
        return status;
    if (f->in[0]->dims[1] != f->in[1]->dims[1])
        return differ(f, 0, 1, "their columns");
    return need_row_ids(f, 2, 1);
}

static clv_status infer_matmul(inference *f)
{
    const clv_tensor_desc *x = f->in[0], *w = f->in[1];
    clv_status status = need_rows(f, 0);
    if (!status)
        status = need_weight(f, 1);
    if (status)
        return status;
    if (w->symbols[0])
        return wrong(f, 1, "a matrix with a fixed number of rows");
    if (x->dims[1] != w->dims[1])
        return differ(f, 0, 1, "the last dimensions");
    make_f32_like(f->out, x);
    f->out->dims[1] = w->dims[0];
    return need_vector(f, 2, 1, 0);
}

static clv_status infer_binary(inference *f)
{
    const clv_tensor_desc *a = f->in[0], *b = f->in[1];
    if (a->dtype != CLV_DTYPE_F32)
        return wrong(f, 0, "f32");
    make_f32_like(f->out, a);
    if (b->dtype == CLV_DTYPE_F32 && same_shape(a, b))
        return CLV_OK;
    if (b->rank != 1 || !core_dtype_is_float(b->dtype))
        return wrong(f, 1,
                     "an f32 tensor of the same shape, or a float "
                     "vector");
    return need_vector(f, 1, 0, a->rank - 1);
}

static clv_status infer_unary(inference *f)
{
    if (f->in[0]->dtype != CLV_DTYPE_F32)
        return wrong(f, 0, "f32");
    make_f32_like(f->out, f->in[0]);
    return CLV_OK;
}

static clv_status infer_glu(inference *f)
{
    clv_status status = need_rows(f, 0);
    if (!status)
        status = need_rows(f, 1);
    if (status)
        return status;
    if (!same_shape(f->in[0], f->in[1]))
        return differ(f, 0, 1, "their shapes");
    if (f->attr->glu.activation > CLV_ACT_GELU_TANH)
        return attr_error(f, "the activation is unknown; silu and gelu are");
    make_f32_like(f->out, f->in[0]);
    return CLV_OK;
}

static clv_status infer_norm(inference *f)
{
    clv_status status = need_rows(f, 0);
    if (!status)
        status = need_vector(f, 1, 0, 1);
    if (!status && f->in[2])
        status = need_vector(f, 2, 0, 1);
    if (status)
        return status;
    if (!(f->attr->norm.eps >= 0) || isinf(f->attr->norm.eps))
        return attr_error(f, "eps must be finite and not negative");
    make_f32_like(f->out, f->in[0]);
    return CLV_OK;
}

/* D divides the channels of input i. */
static clv_status need_heads(const inference *f, uint32_t i, uint32_t head_dim)
{
    if (head_dim < 1 || f->in[i]->dims[1] % head_dim)
        return clv_error(CLV_ERR_INVALID,
                         "%s: %s has %lld channels, which are not whole heads "
                         "of %u",
                         f->rule->name, f->rule->inputs[i],
                         (long long)f->in[i]->dims[1], head_dim);
    return CLV_OK;
}

static clv_status infer_rope(inference *f)
{
    uint32_t head_dim = f->attr->rope.head_dim;
    clv_status status = need_rows(f, 0);
    if (!status)
        status = need_heads(f, 0, head_dim);
    if (!status)
        status = need_row_ids(f, 1, 0);
    if (status)
        return status;
    const clv_tensor_desc *freq = f->in[2];
    if (freq->dtype != CLV_DTYPE_F32 || freq->rank != 1 || freq->symbols[0] ||
        freq->dims[0] > head_dim / 2)
        return wrong(f, 2, "an f32 vector of at most half a head's channels");
    if (f->attr->rope.mode > CLV_ROPE_PAIRS)
        return attr_error(f, "the mode is unknown; halves and pairs are");
    if (!isfinite(f->attr->rope.scale))
        return attr_error(f, "scale must be finite");
    make_f32_like(f->out, f->in[0]);
    return CLV_OK;
}

static clv_status infer_softmax(inference *f)
{
    clv_status status = need_rows(f, 0);
    if (!status)
        make_f32_like(f->out, f->in[0]);
    return status;
}

static clv_status need_cache(const inference *f, uint32_t i)
{
    const clv_tensor_desc *x = f->in[i];
    if ((x->dtype != CLV_DTYPE_F32 && x->dtype != CLV_DTYPE_F16) ||
        x->rank != 2 || x->symbols[1])
        return wrong(f, i,
                     "an f32 or f16 matrix with a fixed number of "
                     "columns");
    return need_heads(f, i, f->attr->attention.head_dim);
}

static clv_status infer_attention(inference *f)
{
    clv_status status = need_rows(f, 0);
    if (!status)
        status = need_heads(f, 0, f->attr->attention.head_dim);
    for (uint32_t i = 1; !status && i <= 2; i++)
        status = need_cache(f, i);
    if (!status)
        status = need_row_ids(f, 3, 0);
    if (status)
        return status;
    if (!same_shape(f->in[1], f->in[2]) || f->in[1]->dtype != f->in[2]->dtype)
        return differ(f, 1, 2, "their types and shapes");
    if (f->in[0]->dims[1] % f->in[1]->dims[1])
        return clv_error(
            CLV_ERR_INVALID,
            "attention: q has %lld heads, not a multiple of the "
            "%lld of k",
            (long long)f->in[0]->dims[1] / f->attr->attention.head_dim,
            (long long)f->in[1]->dims[1] / f->attr->attention.head_dim);
    if (!isfinite(f->attr->attention.scale) ||
        !(f->attr->attention.softcap >= 0) || isinf(f->attr->attention.softcap))
        return attr_error(f, "scale and softcap must be finite, softcap not "
                             "negative");
    if (f->attr->attention.window < 0)
        return attr_error(f, "the window is negative");
    make_f32_like(f->out, f->in[0]);
    return CLV_OK;
}

/* The target dtype is in f->out already. */
static clv_status infer_convert(inference *f)
{
    uint32_t dtype = f->out->dtype;
    if (!core_dtype_is_real(f->in[0]->dtype))
        return wrong(f, 0, "floats or blocks");
    if (!core_dtype_is_writable(dtype))
        return attr_error(f, "values cannot be converted to the type asked "
                             "for");
    make_f32_like(f->out, f->in[0]);
    f->out->dtype = dtype;
    return CLV_OK;
}

/* The number of columns is in f->out already. */
static clv_status infer_top_k(inference *f)
{
    const int64_t k = f->out->dims[1];
    clv_status status = need_rows(f, 0);
    if (status)
        return status;
    if (k < 1 || k > f->in[0]->dims[1])
        return clv_error(CLV_ERR_INVALID,
                         "%s: %lld of %lld columns; it takes "
                         "1 to all",
                         f->rule->name, (long long)k,
                         (long long)f->in[0]->dims[1]);
    make_f32_like(f->out, f->in[0]);
    f->out->dtype = CLV_DTYPE_I32;
    f->out->dims[1] = k;
    return CLV_OK;
}

/* Weights of experts [E,O,I], of which ids [n,K] choose. */
static clv_status need_experts(const inference *f)
{
    const clv_tensor_desc *x = f->in[0], *w = f->in[1], *ids = f->in[2];
    if (!core_dtype_is_real(w->dtype) || w->rank != 3 || w->symbols[0] ||
        w->symbols[1] || w->symbols[2])
        return wrong(f, 1, "of rank 3 and fixed size, of floats or blocks");
    if (ids->dtype != CLV_DTYPE_I32 || ids->rank != 2 || ids->symbols[1])
        return wrong(f, 2, "an i32 matrix with a fixed number of columns");
    if (!same_dim(x, 0, ids, 0))
        return differ(f, 0, 2, "their rows");
    if (x->dims[1] != w->dims[2] &&
        (x->dims[1] % ids->dims[1] || x->dims[1] / ids->dims[1] != w->dims[2]))
        return differ(f, 0, 1,
                      "the last dimensions, or for each of the ids a "
                      "part of x,");
    return CLV_OK;
}

static clv_status infer_matmul_experts(inference *f)
{
    const clv_tensor_desc *w = f->in[1], *scores = f->in[3];
    int64_t columns;
    clv_status status = need_rows(f, 0);
    if (!status)
        status = need_experts(f);
    if (!status && scores)
        status = need_rows(f, 3);
    if (status)
        return status;
    if (scores && !same_dim(scores, 0, f->in[0], 0))
        return differ(f, 3, 0, "their rows");
    if (scores && scores->dims[1] != w->dims[0])
        return differ(f, 3, 1, "the number of experts");
    if (f->attr->experts.normalised > 1 ||
        (f->attr->experts.normalised && !scores))
        return attr_error(f, "only with scores it can be normalised, by 1");
    if (__builtin_mul_overflow(scores ? 1 : f->in[2]->dims[1], w->dims[1],
                               &columns))
        return attr_error(f, "the output has more than 2^63 columns");
    make_f32_like(f->out, f->in[0]);
    f->out->dims[1] = columns;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static const op_rule rules[CLV_OP_COUNT] = {
    [CLV_OP_GET_ROWS] =
        {"get_rows", infer_get_rows, 2, 2, true, {"table", "ids"}},
    [CLV_OP_SET_ROWS] =
        {"set_rows", infer_set_rows, 3, 3, false, {"state", "src", "ids"}},
    [CLV_OP_MATMUL] = {"matmul", infer_matmul, 3, 2, true, {"x", "w", "bias"}},
    [CLV_OP_ADD] = {"add", infer_binary, 2, 2, true, {"a", "b"}},
    [CLV_OP_MUL] = {"mul", infer_binary, 2, 2, true, {"a", "b"}},
    [CLV_OP_SILU] = {"silu", infer_unary, 1, 1, true, {"x"}},
    [CLV_OP_GELU] = {"gelu", infer_unary, 1, 1, true, {"x"}},
    [CLV_OP_GLU] = {"glu", infer_glu, 2, 2, true, {"gate", "up"}},
    [CLV_OP_RMS_NORM] = {"rms_norm", infer_norm, 2, 2, true, {"x", "weight"}},
    [CLV_OP_LAYER_NORM] =
        {"layer_norm", infer_norm, 3, 2, true, {"x", "weight", "bias"}},
    [CLV_OP_ROPE] = {"rope", infer_rope, 3, 3, true, {"x", "pos", "inv_freq"}},
    [CLV_OP_SOFTMAX] = {"softmax", infer_softmax, 1, 1, true, {"x"}},
    [CLV_OP_ATTENTION] =
        {"attention", infer_attention, 4, 4, true, {"q", "k", "v", "pos"}},
    [CLV_OP_CONVERT] = {"convert", infer_convert, 1, 1, true, {"x"}},
    [CLV_OP_TOP_K] = {"top_k", infer_top_k, 1, 1, true, {"x"}},
    [CLV_OP_MATMUL_EXPERTS] = {"matmul_experts",
                               infer_matmul_experts,
                               4,
                               3,
                               true,
                               {"x", "w", "ids", "scores"}},
};

const char *core_op_name(uint32_t op)
{
    if (op == CLV_OP_NONE)
        return "copy"; /* of plans alone */
    return op < CLV_OP_COUNT && rules[op].name ? rules[op].name : "unknown op";
}

clv_status core_shape_infer(uint32_t op, const clv_op_attr *attr,
                            const clv_tensor_desc *const in[], uint32_t n_in,
                            clv_tensor_desc *out, bool *has_output)
{
    if (op >= CLV_OP_COUNT || !rules[op].name)
        return clv_error(CLV_ERR_UNSUPPORTED, "op %u is unknown", op);
    const op_rule *rule = &rules[op];
    clv_tensor_desc result = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    result.dtype = out->dtype;
    result.dims[1] = out->dims[1];
    inference f = {.rule = rule, .attr = attr, .out = &result};
    if (n_in > rule->n_inputs)
        return clv_error(CLV_ERR_INVALID, "%s: %u operands, it takes %u",
                         rule->name, n_in, rule->n_inputs);
    for (uint32_t i = 0; i < n_in; i++)
        f.in[i] = in[i];
    for (uint32_t i = 0; i < rule->n_required; i++)
        if (!f.in[i])
            return clv_error(CLV_ERR_INVALID, "%s: %s is missing", rule->name,
                             rule->inputs[i]);
    clv_status status = rule->infer(&f);
    if (status)
        return status;
    if (rule->output) {
        status = core_shape_check(result.dtype, result.rank, result.dims, NULL);
        if (status)
            return clv_error_prefix(status, "%s: output", rule->name);
        *out = result;
    }
    *has_output = rule->output;
    return CLV_OK;
}
