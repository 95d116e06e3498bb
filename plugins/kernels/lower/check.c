#include "lower/check.h"
#include "code/formats.h"

static const gpu_op *const ops[] = {
    &gpu_op_get_rows,     &gpu_op_set_rows,
    &gpu_op_add,          &gpu_op_mul,
    &gpu_op_silu,         &gpu_op_gelu,
    &gpu_op_glu,          &gpu_op_rms_norm,
    &gpu_op_layer_norm,   &gpu_op_rope,
    &gpu_op_softmax,      &gpu_op_convert,
    &gpu_op_matmul,       &gpu_op_attention,
    &gpu_op_top_k,        &gpu_op_matmul_experts,
    &gpu_op_sigmoid,      &gpu_op_scale,
    &gpu_op_softcap,      &gpu_op_head_norm,
    &gpu_op_sparse_mixer, &gpu_op_round,
    &gpu_op_excess,       &gpu_op_nonzero,
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
    int n = snprintf(reason, size, "%s: ", clv_op_name(node->op->op));
    va_list args;
    va_start(args, format);
    vsnprintf(reason + n, size - (size_t)n, format, args);
    va_end(args);
    return false;
}

bool gpu_no_more(gpu_node *node, const char *what, int64_t n, int64_t most)
{
    return gpu_no(node, "%lld %s; it takes %lld at most", (long long)n, what,
                  (long long)most);
}

bool gpu_fits_grid(gpu_node *node, int64_t rows, int64_t channels)
{
    const clv_tensor_desc *y = &node->out.d;
    const int64_t n = gpu_max_rows(&node->out), c = y->dims[y->rank - 1];
    rows *= GPU_MAX_GROUPS;
    channels *= GPU_MAX_GROUPS;
    return (n <= rows || gpu_no_more(node, "rows", n, rows)) &&
           (c <= channels || gpu_no_more(node, "channels", c, channels));
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
    return t->is_weights_layout && t->d.strides[1] != clv_align(t->d.dtype);
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

bool gpu_is_rows(const gpu_tensor *t)
{
    uint32_t symbolic = 0;
    for (uint32_t i = 0; i + 1 < t->d.rank; i++)
        symbolic += t->d.symbols[i] != 0;
    return symbolic <= 1 && clv_is_rows(&t->d);
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

gpu_expr gpu_rows(const gpu_tensor *t)
{
    gpu_expr rows, channels, stride;
    gpu_rows_extent(t, &rows, &channels, &stride);
    return rows;
}

int64_t gpu_max_rows(const gpu_tensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < t->d.rank; i++)
        n *= t->d.dims[i];
    return n;
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

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

/* Kernels compute offsets in 32 bits. */
static bool take_tensor(gpu_node *node, const clv_tensor_desc *d,
                        uint32_t index, gpu_tensor *t)
{
    t->index = d->rank ? index : CLV_NO_TENSOR;
    t->d = *d;
    t->dense = clv_is_dense(d);
    t->is_weights_layout = d->layout == CLV_LAYOUT_WEIGHTS;
    for (uint32_t i = 0; i < d->rank; i++)
        if (d->dims[i] > INT32_MAX || max_stride(t, i) > INT32_MAX)
            return gpu_no(node, "tensor %u: dimension %u is past 2^31",
                          (unsigned)index, (unsigned)i);
    return true;
}

/* Whether the op can write operand i in its dtype. */
static bool can_write(const gpu_op *op, uint32_t i, uint32_t dtype)
{
    return clv_format_is(dtype, CLV_FORMAT_FLOAT) ||
           op == &gpu_op_convert_private ||
           (dtype == CLV_DTYPE_Q8_0 && i < CLV_OP_OPERANDS &&
            op->blocks >> i & 1);
}

/* Operand i as a tensor, within the limits of every kernel. */
static bool take_operand(const clv_checked_node *n, uint32_t i, gpu_node *node)
{
    const bool input = i < CLV_OP_OPERANDS;
    const clv_tensor_desc *d = input ? &n->in[i] : &n->out;
    const char *name = clv_operand_name(n, i);
    gpu_tensor *t = input ? &node->in[i] : &node->out;
    gpu_tensor *scales = &node->scales[input ? i : 0];
    const uint64_t reach = (uint64_t)gpu_reach(node->target);
    if (!take_tensor(node, d, input ? n->node.inputs[i] : n->node.outputs[0],
                     t) ||
        (input &&
         !take_tensor(node, &n->scales[i], d->quant_scales - 1, scales)))
        return false;
    if (!gpu_has(t))
        return true;
    if (d->dtype != CLV_DTYPE_I32 &&
        (!gpu_has_format(d->dtype) ||
         ((!input || clv_op_writes(n->node.op, i)) &&
          !can_write(node->op, i, d->dtype))))
        return gpu_no(node, "%s cannot be %s here", name,
                      clv_dtype_label(d->dtype));
    if ((!node->op->any_strides && !t->is_weights_layout && !gpu_is_rows(t)) ||
        (input && gpu_has(scales) && !gpu_is_rows(scales)))
        return gpu_no(node, "%s must have contiguous rows at one stride", name);
    if (!(node->op->parts >> i & 1) && gpu_extent(t) > reach)
        return gpu_no(node, "%s has %llu bytes; kernels here reach %llu", name,
                      (unsigned long long)gpu_extent(t),
                      (unsigned long long)reach);
    return true;
}

/* Where kernels read weights in a layout of their own; false: they are given so
 * and cannot be read. */
static bool prefer_private(gpu_node *node)
{
    const uint32_t rows =
        node->op->private_rows ? node->op->private_rows(node) : 0;
    const uint32_t weights = node->op->private_input;
    for (uint32_t i = 0; i < CLV_OP_OPERANDS; i++)
        if (gpu_has(&node->in[i]) &&
            node->in[i].d.layout == CLV_LAYOUT_PRIVATE &&
            (i != weights || !rows))
            return gpu_no(node,
                          "input %u is in a layout that no kernel for it "
                          "reads",
                          (unsigned)i);
    if (rows && node->in[weights].d.usage == CLV_USAGE_WEIGHT) {
        node->caps.layouts[weights] = CLV_LAYOUT_PRIVATE;
        node->caps.private_rows = rows;
    }
    return true;
}

static bool check(clv_checked_node *n, gpu_node *node)
{
    for (uint32_t i = 0; i <= CLV_OP_OPERANDS; i++)
        if (!take_operand(n, i, node))
            return false;
    if (!node->op->any_strides && !clv_node_vectors(n)) {
        memcpy(node->caps.reason, n->reason, sizeof n->reason);
        return false;
    }
    clv_node_caps(n, &node->caps);
    return (!node->op->check || node->op->check(node)) && prefer_private(node);
}

void gpu_check_node(const gpu_target *target, const clv_subgraph *graph,
                    uint32_t index, gpu_node *node)
{
    clv_checked_node n;
    memset(node, 0, sizeof *node);
    node->target = target;
    node->index = index;
    for (uint32_t i = CLV_OP_OPERANDS; i < CLV_MAX_INPUTS; i++)
        node->in[i].index = node->scales[i].index = CLV_NO_TENSOR;
    const bool right = clv_check_node(
        graph, index, CLV_NODE_WEIGHT_STATES | CLV_NODE_PRIVATE_WEIGHTS, &n);
    memcpy(node->caps.reason, n.reason, sizeof n.reason);
    node->node = n.node;
    node->op = n.out.layout == CLV_LAYOUT_PRIVATE ? &gpu_op_convert_private
                                                  : gpu_op_find(n.node.op);
    if (right && !node->op)
        snprintf(node->caps.reason, sizeof node->caps.reason,
                 "%s: there is no kernel for it", n.op->name);
    if (!right || !node->op || !check(&n, node))
        node->caps.answer = CLV_ANSWER_NO;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t gpu_parts_bytes(const gpu_node *node)
{
    return at_most(GPU_MAX_PARTS * gpu_extent(&node->out), GPU_PART_BYTES);
}

/* An upper bound for most programs: what the op's kernels take, the output,
 * which a program that fuses nodes may keep in memory of its own, parts of
 * weights, and where values lie in slices, inputs as rows. */
static uint64_t scratch_of(const gpu_node *node)
{
    uint64_t size = gpu_extent(&node->out);
    if (node->op->scratch)
        size += node->op->scratch(node);
    for (uint32_t i = 0; i < CLV_OP_OPERANDS; i++) {
        const uint32_t usage = node->in[i].d.usage;
        if (!gpu_has(&node->in[i]))
            continue;
        if (node->op->parts >> i & 1)
            size += at_most(gpu_extent(&node->in[i]), GPU_PART_BYTES);
        else if (node->target->slices && usage != CLV_USAGE_WEIGHT &&
                 usage != CLV_USAGE_STATE)
            size += gpu_extent(&node->in[i]);
    }
    return size;
}

void gpu_caps(const gpu_target *target, const clv_subgraph *graph,
              clv_op_caps *out, uint32_t stride)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        gpu_node node;
        gpu_check_node(target, graph, i, &node);
        if (node.caps.answer != CLV_ANSWER_NO)
            node.caps.scratch_size = scratch_of(&node);
        clv_write(clv_at(out, i, stride), &node.caps, sizeof node.caps);
    }
}
