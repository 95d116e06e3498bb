#include "lower/check.h"

static const gpu_op *const ops[] = {
    &gpu_op_get_rows,   &gpu_op_set_rows,
    &gpu_op_add,        &gpu_op_mul,
    &gpu_op_silu,       &gpu_op_gelu,
    &gpu_op_glu,        &gpu_op_rms_norm,
    &gpu_op_layer_norm, &gpu_op_rope,
    &gpu_op_softmax,    &gpu_op_convert,
    &gpu_op_matmul,     &gpu_op_attention,
    &gpu_op_top_k,      &gpu_op_matmul_experts,
};

const gpu_op *gpu_op_find(uint32_t op)
{
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i]->op == op)
            return ops[i];
    return NULL;
}

bool gpu_no(gpu_node *node, const char *format, ...)
{
    char *reason = node->caps.reason;
    const size_t size = sizeof node->caps.reason;
    int n = snprintf(reason, size, "%s: ", node->op->name);
    va_list args;
    va_start(args, format);
    vsnprintf(reason + n, size - (size_t)n, format, args);
    va_end(args);
    return false;
}

const char *gpu_dtype_name(uint32_t dtype)
{
    static const char *const names[CLV_DTYPE_COUNT] = {
        "none", "f32", "f16", "bf16", "i32", "i8", "i4", "q8_0", "q4_0"};
    return dtype < CLV_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

bool gpu_stride(const gpu_tensor *t, uint32_t i, gpu_expr *out)
{
    const clv_tensor_desc *d = &t->d;
    int64_t elements, bytes;
    clv_block(d->dtype, &elements, &bytes);
    if (!t->dense) {
        *out = gpu_constant(d->strides[i]);
        return true;
    }
    int64_t step = bytes;
    uint32_t symbol = 0;
    for (uint32_t k = i + 1; k < d->rank; k++) {
        if (d->symbols[k] && symbol)
            return false;
        if (d->symbols[k])
            symbol = d->symbols[k];
        else
            step *= k == d->rank - 1 ? d->dims[k] / elements : d->dims[k];
    }
    *out = symbol ? (gpu_expr){.factor = step, .symbol = symbol, .divisor = 1}
                  : gpu_constant(step);
    return true;
}

bool gpu_is_transposed(const gpu_tensor *t)
{
    return t->laid && t->d.strides[1] != clv_align(t->d.dtype);
}

/* The same at the largest. */
static int64_t max_stride(const gpu_tensor *t, uint32_t i)
{
    int64_t elements, bytes;
    clv_block(t->d.dtype, &elements, &bytes);
    if (!t->dense)
        return t->d.strides[i];
    for (uint32_t k = i + 1; k < t->d.rank; k++)
        bytes *= k == t->d.rank - 1 ? t->d.dims[k] / elements : t->d.dims[k];
    return bytes;
}

uint64_t gpu_extent(const gpu_tensor *t)
{
    int64_t elements, bytes, size;
    clv_block(t->d.dtype, &elements, &bytes);
    size = bytes;
    for (uint32_t i = 0; i < t->d.rank; i++) {
        int64_t n = i == t->d.rank - 1 ? t->d.dims[i] / elements : t->d.dims[i];
        size += (n - 1) * max_stride(t, i);
    }
    return (uint64_t)size;
}

static bool is_rows(const gpu_tensor *t)
{
    const clv_tensor_desc *d = &t->d;
    const uint32_t last = d->rank - 1;
    int64_t elements, bytes;
    clv_block(d->dtype, &elements, &bytes);
    uint32_t symbolic = 0;
    for (uint32_t i = 0; i < last; i++)
        symbolic += d->symbols[i] != 0;
    if (symbolic > 1)
        return false;
    if (t->dense)
        return true;
    if (d->strides[last] != bytes && d->dims[last] > elements)
        return false;
    for (uint32_t i = 0; i + 1 < last; i++)
        if (d->symbols[i + 1] ||
            d->strides[i] != d->strides[i + 1] * d->dims[i + 1])
            return false;
    return true;
}

static gpu_expr dim(const clv_tensor_desc *d, uint32_t i)
{
    return d->symbols[i]
               ? (gpu_expr){.factor = 1, .symbol = d->symbols[i], .divisor = 1}
               : gpu_constant(d->dims[i]);
}

bool gpu_rows_extent(const gpu_tensor *t, gpu_expr *rows, gpu_expr *channels,
                     gpu_expr *stride)
{
    const clv_tensor_desc *d = &t->d;
    const uint32_t last = d->rank - 1;
    int64_t fixed = 1;
    uint32_t symbol = 0;
    for (uint32_t i = 0; i < last; i++) {
        if (d->symbols[i])
            symbol = d->symbols[i];
        else
            fixed *= d->dims[i];
    }
    *rows = symbol ? (gpu_expr){.factor = fixed, .symbol = symbol, .divisor = 1}
                   : gpu_constant(fixed);
    *channels = dim(d, last);
    *stride = gpu_constant(0);
    return !last || gpu_stride(t, last - 1, stride);
}

int64_t gpu_max_rows(const gpu_tensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < t->d.rank; i++)
        n *= t->d.dims[i];
    return n;
}

bool gpu_same_dim(const gpu_tensor *a, uint32_t i, const gpu_tensor *b,
                  uint32_t j)
{
    return a->d.symbols[i] == b->d.symbols[j] &&
           (a->d.symbols[i] || a->d.dims[i] == b->d.dims[j]);
}

bool gpu_same_dims(const gpu_tensor *a, const gpu_tensor *b)
{
    if (a->d.rank != b->d.rank)
        return false;
    for (uint32_t i = 0; i < a->d.rank; i++)
        if (!gpu_same_dim(a, i, b, i))
            return false;
    return true;
}

bool gpu_need(gpu_node *node, const gpu_tensor *t, const char *what,
              uint32_t dtypes, uint32_t rank)
{
    if (!(dtypes & GPU_BIT(t->d.dtype)))
        return gpu_no(node, "%s cannot be %s", what,
                      gpu_dtype_name(t->d.dtype));
    if ((GPU_INTEGERS & GPU_BIT(t->d.dtype)) && !t->d.quant)
        return gpu_no(node, "%s is %s without scales", what,
                      gpu_dtype_name(t->d.dtype));
    if (rank && t->d.rank != rank)
        return gpu_no(node, "%s has rank %u, not %u", what, (unsigned)t->d.rank,
                      (unsigned)rank);
    if (!is_rows(t))
        return gpu_no(node, "%s must have contiguous rows at one stride", what);
    return true;
}

bool gpu_need_state(gpu_node *node, const gpu_tensor *t, const char *what,
                    uint32_t dtypes)
{
    if (!t->laid)
        return gpu_need(node, t, what, dtypes, 2);
    return (dtypes & GPU_BIT(t->d.dtype)) ||
           gpu_no(node, "%s cannot be %s", what, gpu_dtype_name(t->d.dtype));
}

void gpu_prefer_layout(gpu_node *node, uint32_t input)
{
    const clv_tensor_desc *d = &node->in[input].d;
    if (d->usage == CLV_USAGE_STATE &&
        (d->dtype == CLV_DTYPE_F16 || d->dtype == CLV_DTYPE_F32))
        node->caps.layouts[input] = CLV_LAYOUT_WEIGHTS;
}

int64_t gpu_reach(const gpu_target *target)
{
    const uint64_t slack = 4096; /* memory is bound from below its begin */
    uint64_t most = target->max_binding < INT32_MAX * 2ull ? target->max_binding
                                                           : INT32_MAX * 2ull;
    return most > slack ? (int64_t)(most - slack) : 0;
}

bool gpu_in_reach(gpu_node *node, const gpu_tensor *t, const char *what)
{
    const uint64_t extent = gpu_extent(t);
    const uint64_t reach = (uint64_t)gpu_reach(node->target);
    if (extent > reach)
        return gpu_no(node, "%s has %llu bytes; kernels here reach %llu", what,
                      (unsigned long long)extent, (unsigned long long)reach);
    return true;
}

/* ------------------------------------------------------------------------ */
/* Operands                                                                  */

static bool check_shape(gpu_node *node, const gpu_tensor *t)
{
    const clv_tensor_desc *d = &t->d;
    int64_t elements, bytes, dense;
    const uint32_t last = d->rank - 1;
    clv_block(d->dtype, &elements, &bytes);
    if (d->dims[last] % elements || (elements > 1 && d->symbols[last]))
        return gpu_no(node, "tensor %u: %s rows must be whole blocks of %lld",
                      (unsigned)t->index, gpu_dtype_name(d->dtype),
                      (long long)elements);
    dense = bytes;
    for (uint32_t i = d->rank; i-- > 0;) {
        int64_t n = i == last ? d->dims[i] / elements : d->dims[i];
        int64_t step = t->dense ? dense : d->strides[i];
        if ((n > 1 && step <= 0) || step % clv_align(d->dtype))
            return gpu_no(node,
                          "tensor %u: stride %lld of dimension %u is not "
                          "positive or splits elements",
                          (unsigned)t->index, (long long)step, (unsigned)i);
        if (step > INT32_MAX || d->dims[i] > INT32_MAX)
            return gpu_no(node, "tensor %u: dimension %u is past 2^31",
                          (unsigned)t->index, (unsigned)i);
        if (__builtin_mul_overflow(dense, n, &dense) || dense > CLV_MAX_EXTENT)
            return gpu_no(node, "tensor %u: larger than 2^56 bytes",
                          (unsigned)t->index);
    }
    return true;
}

/* The order of elements: by strides, of a state that is laid out too. */
static bool read_layout(gpu_node *node, gpu_tensor *t)
{
    clv_tensor_desc *d = &t->d;
    int64_t elements, bytes;
    clv_block(d->dtype, &elements, &bytes);
    t->laid = d->usage == CLV_USAGE_STATE && d->rank == 2 && elements == 1 &&
              clv_layout_strides(d, bytes, d->strides);
    if (!t->laid &&
        (d->storage != CLV_STORAGE_BUFFER || d->layout != CLV_LAYOUT_LINEAR))
        return gpu_no(node,
                      "tensor %u: only linear buffers and states as "
                      "weights, not storage %u in layout %u",
                      (unsigned)t->index, (unsigned)d->storage,
                      (unsigned)d->layout);
    t->dense = true;
    for (uint32_t i = 0; i < d->rank; i++)
        if (d->strides[i])
            t->dense = false;
    return true;
}

static bool read_tensor(const clv_subgraph *graph, gpu_node *node,
                        uint32_t index, gpu_tensor *out)
{
    const clv_tensor_desc *theirs = clv_graph_tensor(graph, index);
    int64_t elements, bytes;
    if (!theirs)
        return gpu_no(node, "tensor %u of %u does not exist or is malformed",
                      (unsigned)index, (unsigned)graph->n_tensors);
    clv_read(&out->d, sizeof out->d, theirs);
    out->index = index;
    const clv_tensor_desc *d = &out->d;
    const bool integers =
        d->dtype < CLV_DTYPE_COUNT && (GPU_INTEGERS & GPU_BIT(d->dtype));
    if (!clv_block(d->dtype, &elements, &bytes))
        return gpu_no(node, "tensor %u: dtype %u is not known here",
                      (unsigned)index, (unsigned)d->dtype);
    if ((d->quant && !integers) || d->quant > CLV_QUANT_PER_GROUP)
        return gpu_no(node, "tensor %u: no scales by scheme %u for %s",
                      (unsigned)index, (unsigned)d->quant,
                      gpu_dtype_name(d->dtype));
    return read_layout(node, out) && check_shape(node, out);
}

static bool read_scales(const clv_subgraph *graph, gpu_node *node, uint32_t i)
{
    const gpu_tensor *t = &node->in[i];
    gpu_tensor *s = &node->scales[i];
    const clv_tensor_desc *d = &t->d;
    const uint32_t rank = d->quant == CLV_QUANT_PER_GROUP ? 2 : 1;
    int64_t elements, bytes;
    clv_block(d->dtype, &elements, &bytes);
    s->index = CLV_NO_TENSOR;
    if (!d->quant)
        return true;
    if (d->rank != 2 || d->symbols[0] || d->symbols[1])
        return gpu_no(node,
                      "tensor %u: with scales only matrices of fixed "
                      "size",
                      (unsigned)t->index);
    if (rank == 2 && (!d->quant_group || d->dims[1] % d->quant_group ||
                      d->quant_group % elements))
        return gpu_no(node,
                      "tensor %u: rows of %lld are no whole groups of "
                      "%u",
                      (unsigned)t->index, (long long)d->dims[1],
                      (unsigned)d->quant_group);
    if (!read_tensor(graph, node, d->quant_scales - 1, s) ||
        !gpu_need(node, s, "the scales", GPU_BIT(CLV_DTYPE_F32), rank))
        return false;
    if (s->d.symbols[0] || s->d.symbols[rank - 1] ||
        s->d.dims[0] != (d->quant == CLV_QUANT_PER_TENSOR ? 1 : d->dims[0]) ||
        (rank == 2 && s->d.dims[1] != d->dims[1] / d->quant_group))
        return gpu_no(node,
                      "tensor %u: its scales are not of the scheme's "
                      "shape",
                      (unsigned)t->index);
    return true;
}

static bool read_operands(const clv_subgraph *graph, gpu_node *node)
{
    const clv_node *n = &node->node;
    const gpu_op *op = node->op;
    if (!clv_chain_known(&n->header))
        return gpu_no(node, "it needs an extension that is not known here");
    if (n->revision != 1)
        return gpu_no(node, "revision %u is not known, 1 is",
                      (unsigned)n->revision);
    if (n->n_inputs > op->max_inputs || n->n_outputs != op->outputs)
        return gpu_no(node, "%u inputs and %u outputs, not %u to %u and %u",
                      (unsigned)n->n_inputs, (unsigned)n->n_outputs,
                      (unsigned)op->min_inputs, (unsigned)op->max_inputs,
                      (unsigned)op->outputs);
    for (uint32_t i = 0; i < op->max_inputs; i++) {
        uint32_t index = i < n->n_inputs ? n->inputs[i] : CLV_NO_TENSOR;
        if (index == CLV_NO_TENSOR && i < op->min_inputs)
            return gpu_no(node, "input %u is missing", (unsigned)i);
        if (index != CLV_NO_TENSOR &&
            (!read_tensor(graph, node, index, &node->in[i]) ||
             !read_scales(graph, node, i)))
            return false;
    }
    if (!op->outputs)
        return true;
    if (!read_tensor(graph, node, n->outputs[0], &node->out))
        return false;
    if (node->out.d.usage == CLV_USAGE_WEIGHT ||
        node->out.d.usage == CLV_USAGE_INPUT)
        return gpu_no(node, "output 0 is not to be written");
    return true;
}

void gpu_check_node(const gpu_target *target, const clv_subgraph *graph,
                    uint32_t index, gpu_node *node)
{
    memset(node, 0, sizeof *node);
    node->target = target;
    node->index = index;
    node->out.index = CLV_NO_TENSOR;
    for (uint32_t i = 0; i < CLV_MAX_INPUTS; i++)
        node->in[i].index = node->scales[i].index = CLV_NO_TENSOR;
    node->n_symbols = graph->n_symbols;
    clv_read(&node->node, sizeof node->node,
             clv_at(graph->nodes, index, graph->node_stride));
    node->op = gpu_op_find(node->node.op);
    if (!node->op) {
        snprintf(node->caps.reason, sizeof node->caps.reason,
                 "op %u is not known here", (unsigned)node->node.op);
        return;
    }
    if (!read_operands(graph, node))
        return;
    node->caps.error_class = CLV_ERROR_F32;
    node->caps.accumulate = CLV_DTYPE_F32;
    if (node->op->check(node))
        node->caps.answer = CLV_ANSWER_YES;
}

void gpu_caps(const gpu_target *target, const clv_subgraph *graph,
              clv_op_caps *out, uint32_t stride)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        gpu_node node;
        gpu_check_node(target, graph, i, &node);
        clv_write(clv_at(out, i, stride), &node.caps, sizeof node.caps);
    }
}
