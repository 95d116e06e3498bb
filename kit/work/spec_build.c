#include "element.h"
#include "spec.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

/* The next multiple of both from x on. */
static int64_t round_up(int64_t x, int64_t unit, int64_t align)
{
    while (x % unit || x % align)
        x += unit - x % unit;
    return x;
}

/* A tensor of the spec: padded, or a piece out of the middle of a larger one
 * where the spec wants views. */
static uint32_t add(const kit_spec *spec, kit_graph *g, uint32_t dtype,
                    uint32_t usage, int64_t n, int64_t c)
{
    const int64_t elements = kit_block_length(dtype);
    const int64_t bytes = kit_block_size(dtype);
    const int64_t align = spec->align ? spec->align : 1;
    const bool view = n && spec->form & KIT_FORM_VIEW;
    int64_t margin = view ? round_up(4 * bytes, bytes, align) : 0;
    int64_t all = c + 2 * margin / bytes * elements;
    int64_t row = kit_row_bytes(dtype, all), pad = 0;
    if (n && (view || spec->pad))
        pad = round_up(row + spec->pad * bytes, bytes, align) - row;
    if (!view)
        return kit_add_tensor(g, dtype, usage, n, c, pad);
    uint32_t base = kit_add_tensor(g, dtype, usage, n + 3, all, pad);
    return kit_add_view(g, base, 2, n, margin / bytes * elements, c);
}

static uint32_t add_vector(kit_graph *g, int64_t c)
{
    return kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, c, 0);
}

static uint32_t usage_of(const kit_spec *spec, uint32_t input)
{
    uint32_t alias = input ? KIT_FORM_ALIAS_1 : KIT_FORM_ALIAS_0;
    return spec->form & alias ? CLV_USAGE_STATE : CLV_USAGE_INPUT;
}

/* The activation: input i of the node. */
static uint32_t add_x(const kit_spec *spec, kit_graph *g, uint32_t i)
{
    return add(spec, g, CLV_DTYPE_F32, usage_of(spec, i), spec->n,
               kit_spec_width(spec));
}

static uint32_t add_y(const kit_spec *spec, kit_graph *g, int64_t c,
                      const uint32_t *inputs)
{
    if (!(spec->form & (KIT_FORM_ALIAS_0 | KIT_FORM_ALIAS_1)))
        return add(spec, g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, spec->n, c);
    uint32_t over = inputs[spec->form & KIT_FORM_ALIAS_1 ? 1 : 0];
    if (!(spec->form & KIT_FORM_OVERLAY))
        return over;
    uint32_t y = kit_add_view(g, over, 0, spec->n, 0, c);
    memcpy(g->descs[y].strides, g->descs[over].strides,
           sizeof g->descs[y].strides); /* dense as that is */
    return y;
}

static void set_all(kit_graph *g, uint32_t t, double (*value)(kit *k, double x))
{
    const clv_tensor_desc *d = &g->descs[t];
    int64_t n = d->rank < 2 ? 1 : d->dims[0];
    int64_t c = d->dims[d->rank < 2 ? 0 : 1];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            kit_set(g, t, i, j, value(g->k, kit_get(g, t, i, j)));
}

/* The range in which activations are not linear. */
static double spread(kit *k, double x)
{
    (void)k;
    return 8 * x;
}

static double one(kit *k, double x)
{
    (void)k, (void)x;
    return 1;
}

static double extreme(kit *k, double x)
{
    static const double values[] = {0,   -0.0, 1e-30, -20,  20,
                                    -90, 90,   1e4,   -1e4, 1e-8};
    return x * values[kit_random_below(k, 10)];
}

/* --- ids, positions --------------------------------------------------------*/

/* Random row numbers. Some of them do not exist, and one occurs twice. */
static uint32_t add_ids(const kit_spec *spec, kit_graph *g)
{
    static const double bad[] = {-1, INT32_MAX, INT32_MIN, -7};
    uint32_t t =
        kit_add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, spec->n, 0);
    for (int64_t i = 0; i < spec->n; i++) {
        double id = kit_random_below(g->k, (uint32_t)spec->out);
        if (spec->n > 3 && i % 5 == 2)
            id = i % 10 == 2 ? (double)spec->out : bad[i / 10 % 4];
        kit_set(g, t, 0, i, id);
    }
    if (spec->n > 3)
        kit_set(g, t, 0, spec->n - 1, kit_get(g, t, 0, 0));
    return t;
}

static uint32_t add_positions(const kit_spec *spec, kit_graph *g)
{
    uint32_t t =
        kit_add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, spec->n, 0);
    for (int64_t i = 0; i < spec->n; i++)
        kit_set(g, t, 0, i,
                clv_op_class_of(spec->op) == CLV_CLASS_ROPE
                    ? (double)kit_random_below(g->k, 5000)
                    : (double)kit_spec_last(spec, i));
    return t;
}

/* ------------------------------------------------------------------------ */
/* Weights with scales of their own                                          */

/* Scales of a weight with CLV_QUANT_*; rows and columns of the scales follow
 * from the scheme. */
static void add_scales(const kit_spec *spec, kit_graph *g, uint32_t w)
{
    int64_t rows = 1, columns = 1;
    if (spec->quant == CLV_QUANT_NONE)
        return;
    if (spec->quant == CLV_QUANT_PER_CHANNEL)
        columns = spec->out;
    if (spec->quant == CLV_QUANT_PER_GROUP) {
        rows = spec->out;
        columns = spec->in / spec->group;
    }
    uint32_t s = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT,
                                spec->quant == CLV_QUANT_PER_GROUP ? rows : 0,
                                columns, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            kit_set(g, s, i, j, 0.005 + 1e-4 * kit_random_below(g->k, 100));
    g->descs[w].quant = spec->quant;
    g->descs[w].quant_group = spec->group;
    g->descs[w].quant_scales = 1 + s;
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

static clv_node *build_rows(const kit_spec *spec, kit_graph *g)
{
    if (spec->op == CLV_OP_CONVERT) {
        uint32_t x =
            add(spec, g, spec->dtype, CLV_USAGE_INPUT, spec->n, spec->in);
        uint32_t y = add(spec, g, kit_spec_to(spec), CLV_USAGE_OUTPUT, spec->n,
                         spec->in);
        return KIT_NODE(g, CLV_OP_CONVERT, y, x);
    }
    bool set = spec->op == CLV_OP_SET_ROWS;
    uint32_t table =
        add(spec, g, spec->dtype, set ? CLV_USAGE_STATE : CLV_USAGE_WEIGHT,
            spec->out, spec->in);
    add_scales(spec, g, table);
    uint32_t x =
        add(spec, g, CLV_DTYPE_F32, set ? CLV_USAGE_INPUT : CLV_USAGE_OUTPUT,
            spec->n, spec->in);
    uint32_t ids = add_ids(spec, g);
    if (!set) /* where rows of NaN are expected, something else */
        set_all(g, x, one);
    return set ? KIT_NODE(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, table, x, ids)
               : KIT_NODE(g, CLV_OP_GET_ROWS, x, table, ids);
}

#define INPUT_SCALE 0.013f

/* Multiples of the scale. */
static double multiple(kit *k, double x)
{
    (void)k;
    return rint(127 * x) * (double)INPUT_SCALE;
}

static clv_node *build_matmul(const kit_spec *spec, kit_graph *g)
{
    uint32_t x = add_x(spec, g, 0);
    uint32_t w =
        add(spec, g, spec->dtype, CLV_USAGE_WEIGHT, spec->out, spec->in);
    add_scales(spec, g, w);
    uint32_t bias = CLV_NO_TENSOR;
    if (spec->form & KIT_FORM_BIAS)
        bias = add_vector(g, spec->out);
    uint32_t y =
        add(spec, g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, spec->n, spec->out);
    clv_node *node = bias == CLV_NO_TENSOR
                         ? KIT_NODE(g, CLV_OP_MATMUL, y, x, w)
                         : KIT_NODE(g, CLV_OP_MATMUL, y, x, w, bias);
    if (spec->form & KIT_FORM_ROUNDED) {
        set_all(g, x, multiple);
        node->attr.matmul.input_scale = INPUT_SCALE;
    }
    return node;
}

void kit_set_attributes(clv_node *node, uint32_t variant)
{
    const clv_op_info *info = clv_op_find(node->op);
    const clv_attr_field *field;
    if (info->op_class == CLV_CLASS_NORM) {
        node->attr.norm.eps = 1e-5f;
        return;
    }
    for (uint32_t i = 0; (field = clv_op_field(info, i)); i++)
        clv_attr_set(&node->attr, field,
                     field->type == CLV_ATTR_ENUM ? variant : 3);
    if (node->op == CLV_OP_SPARSE_MIXER) /* some are near the largest */
        node->attr.mixer.jitter = 0.25f;
    if (node->op == CLV_OP_ROUND) /* quotients are exact, and some too large */
        node->attr.round.scale = 0x1p-7f;
    if (node->op == CLV_OP_EXCESS) /* some are inside */
        node->attr.excess.limit = 0.5f;
}

static clv_node *build_elementwise(const kit_spec *spec, kit_graph *g)
{
    uint32_t in[2] = {add_x(spec, g, 0), CLV_NO_TENSOR};
    const uint32_t n_inputs = clv_op_find(spec->op)->n_inputs;
    if (n_inputs > 1)
        in[1] = spec->form & KIT_FORM_VECTOR ? add_vector(g, spec->in)
                                             : add_x(spec, g, 1);
    uint32_t y = add_y(spec, g, spec->in, in);
    set_all(g, in[0], spec->form & KIT_FORM_EXTREME ? extreme : spread);
    clv_node *node = kit_add_node(g, spec->op, in, n_inputs, y);
    kit_set_attributes(node, spec->variant);
    return node;
}

static clv_node *build_norm(const kit_spec *spec, kit_graph *g)
{
    uint32_t in[3] = {add_x(spec, g, 0)}, n = 1;
    if (spec->form & KIT_FORM_EXTREME)
        set_all(g, in[0], extreme);
    if (clv_op_class_of(spec->op) == CLV_CLASS_NORM)
        in[n++] = add_vector(g, spec->in);
    if (spec->form & KIT_FORM_BIAS)
        in[n++] = add_vector(g, spec->in);
    uint32_t y = add_y(spec, g, spec->in, in);
    clv_node *node = kit_add_node(g, spec->op, in, n, y);
    kit_set_attributes(node, 0);
    return node;
}

static clv_node *build_head_norm(const kit_spec *spec, kit_graph *g)
{
    uint32_t in[2] = {add_x(spec, g, 0)};
    if (spec->form & KIT_FORM_EXTREME)
        set_all(g, in[0], extreme);
    in[1] = add_vector(g, spec->dim);
    uint32_t y = add_y(spec, g, kit_spec_width(spec), in);
    clv_node *node = kit_add_node(g, spec->op, in, 2, y);
    node->attr.norm.eps = 1e-5f;
    node->attr.norm.head_dim = (uint32_t)spec->dim;
    return node;
}

static clv_node *build_rope(const kit_spec *spec, kit_graph *g)
{
    uint32_t in[3] = {add_x(spec, g, 0)};
    int64_t pairs = spec->pairs ? spec->pairs : spec->dim / 2;
    in[1] = add_positions(spec, g);
    in[2] = add_vector(g, pairs);
    for (int64_t j = 0; j < pairs; j++)
        kit_set(g, in[2], 0, j, pow(1e4, -(double)j / (double)pairs));
    uint32_t y = add_y(spec, g, kit_spec_width(spec), in);
    clv_node *node = kit_add_node(g, CLV_OP_ROPE, in, 3, y);
    node->attr.rope.mode = spec->variant;
    node->attr.rope.head_dim = (uint32_t)spec->dim;
    node->attr.rope.scale = spec->scale;
    return node;
}

/* --- experts ------------------------------------------------------------- */

/* Coarse steps, so that many values are equal. */
static double coarse(kit *k, double x)
{
    (void)k;
    return rint(8 * x) / 4;
}

/* The same, and more zeros than others. */
static double sparse(kit *k, double x)
{
    return fabs(x) < 0.6 ? 0 : coarse(k, x);
}

static clv_node *build_select(const kit_spec *spec, kit_graph *g)
{
    uint32_t x = add_x(spec, g, 0);
    set_all(g, x, spec->op == CLV_OP_NONZERO ? sparse : coarse);
    uint32_t y =
        add(spec, g, CLV_DTYPE_I32, CLV_USAGE_OUTPUT, spec->n, spec->out);
    return kit_add_node(g, spec->op, &x, 1, y);
}

/* [E,O,I]: rows lie at one stride. */
static uint32_t add_experts(const kit_spec *spec, kit_graph *g)
{
    kit_spec plain = *spec;
    plain.form &= ~(uint32_t)KIT_FORM_VIEW;
    uint32_t w = add(&plain, g, spec->dtype, CLV_USAGE_WEIGHT,
                     spec->experts * spec->out, spec->in);
    clv_tensor_desc *d = &g->descs[w];
    const int64_t row = d->strides[0];
    d->rank = 3;
    d->dims[0] = spec->experts;
    d->dims[1] = spec->out;
    d->dims[2] = spec->in;
    d->strides[0] = row * spec->out;
    d->strides[1] = row;
    d->strides[2] = row ? kit_block_size(spec->dtype) : 0;
    return w;
}

static int64_t total_of(const kit_spec *spec)
{
    return spec->total ? spec->total : spec->first + spec->experts;
}

static uint32_t add_choice(const kit_spec *spec, kit_graph *g)
{
    static const double bad[] = {-1, INT32_MAX, INT32_MIN};
    uint32_t t =
        add(spec, g, CLV_DTYPE_I32, CLV_USAGE_INPUT, spec->n, spec->used);
    for (int64_t i = 0; i < spec->n * spec->used; i++) {
        double id = kit_random_below(g->k, (uint32_t)total_of(spec));
        if (spec->form & KIT_FORM_ABSENT && i % 3 == 1)
            id = i % 4 ? (double)total_of(spec) : bad[i / 4 % 3];
        kit_set(g, t, i / spec->used, i % spec->used, id);
    }
    return t;
}

static double positive(kit *k, double x)
{
    (void)k;
    return 0.05 + fabs(x);
}

static clv_node *build_matmul_experts(const kit_spec *spec, kit_graph *g)
{
    const bool scored = spec->form & KIT_FORM_SCORES;
    const int64_t parts = spec->form & KIT_FORM_EACH ? spec->used : 1;
    uint32_t in[4] = {add(spec, g, CLV_DTYPE_F32, CLV_USAGE_INPUT, spec->n,
                          parts * spec->in)};
    in[1] = add_experts(spec, g);
    in[2] = add_choice(spec, g);
    if (scored) {
        in[3] = add(spec, g, CLV_DTYPE_F32, CLV_USAGE_INPUT, spec->n,
                    total_of(spec));
        set_all(g, in[3], positive);
    }
    uint32_t y = add(spec, g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, spec->n,
                     spec->out * (scored ? 1 : spec->used));
    clv_node *node =
        kit_add_node(g, CLV_OP_MATMUL_EXPERTS, in, scored ? 4 : 3, y);
    node->attr.experts.normalised = scored && spec->variant;
    node->attr.experts.first = spec->first;
    node->attr.experts.total = (int32_t)spec->total;
    return node;
}

/* ------------------------------------------------------------------------ */

static bool is_float(uint32_t dtype)
{
    return dtype == CLV_DTYPE_F32 || dtype == CLV_DTYPE_F16 ||
           dtype == CLV_DTYPE_BF16;
}

/* Whether some query sees the row of the cache, or would without its window. */
static bool is_seen(const kit_spec *spec, int64_t row)
{
    for (int64_t i = 0; i < spec->n; i++)
        if (row >= kit_spec_first(spec, i) && row <= kit_spec_last(spec, i))
            return true;
    return false;
}

/* Cache rows that no query sees hold NaN: they must not be touched. */
static void poison(const kit_spec *spec, kit_graph *g, uint32_t t)
{
    for (int64_t i = 0; i < spec->out; i++)
        for (int64_t j = 0; !is_seen(spec, i) && j < spec->groups * spec->dim;
             j++)
            kit_set(g, t, i, j, NAN);
}

static uint32_t add_first_rows(const kit_spec *spec, kit_graph *g)
{
    uint32_t t =
        kit_add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, spec->n, 0);
    for (int64_t i = 0; i < spec->n; i++)
        kit_set(g, t, 0, i, (double)kit_spec_first(spec, i));
    return t;
}

static clv_node *build_attention(const kit_spec *spec, kit_graph *g)
{
    const bool apart = spec->form & KIT_FORM_APART;
    const bool has_first = apart || spec->begin;
    uint32_t in[5] = {add_x(spec, g, 0)};
    for (int i = 1; i < 3; i++) {
        in[i] = add(spec, g, spec->dtype, CLV_USAGE_STATE, spec->out,
                    spec->groups * spec->dim);
        if (spec->form & KIT_FORM_POISON && is_float(spec->dtype))
            poison(spec, g, in[i]);
    }
    in[3] = add_positions(spec, g);
    if (has_first)
        in[4] = add_first_rows(spec, g);
    uint32_t y = add(spec, g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, spec->n,
                     kit_spec_width(spec));
    clv_node *node =
        kit_add_node(g, CLV_OP_ATTENTION, in, has_first ? 5 : 4, y);
    node->attr.attention.head_dim = (uint32_t)spec->dim;
    node->attr.attention.scale =
        spec->scale ? spec->scale : 1 / sqrtf((float)spec->dim);
    node->attr.attention.softcap = spec->softcap;
    node->attr.attention.window = spec->window;
    node->attr.attention.apart = apart;
    if (spec->form & KIT_FORM_BOUND) {
        int64_t used = apart ? spec->out : spec->first + spec->n;
        node->attr.attention.rows_symbol =
            1 + kit_make_symbol(g, 1, spec->out, used);
    }
    return node;
}

/* ------------------------------------------------------------------------ */

/* NaN and infinity, each in a row of its own, and a zero that meets one. */
static void add_specials(const kit_spec *spec, kit_graph *g,
                         const clv_node *node)
{
    const uint32_t op_class = clv_op_class_of(spec->op);
    const bool sets = op_class == CLV_CLASS_SET_ROWS;
    const uint32_t x = node->inputs[sets ? 1 : 0];
    const int64_t middle = kit_spec_width(spec) / 2;
    const int64_t n = op_class == CLV_CLASS_GET_ROWS ? spec->out : spec->n;
    const uint32_t stored = op_class == CLV_CLASS_CONVERT ? kit_spec_to(spec)
                            : sets                        ? spec->dtype
                                   : (uint32_t)CLV_DTYPE_F32;
    if (!is_float(stored))
        return; /* blocks hold neither */
    if (is_float(g->descs[x].dtype)) {
        kit_set(g, x, 0, 0, NAN);
        if (n > 1)
            kit_set(g, x, 1, middle, INFINITY);
        if (n > 2)
            kit_set(g, x, 2, 0, 0);
        if (n > 3 && op_class != CLV_CLASS_UNARY && op_class != CLV_CLASS_GATED)
            kit_set(g, x, 3, middle, -INFINITY);
    }
    if ((op_class == CLV_CLASS_MATMUL || op_class == CLV_CLASS_EXPERTS) &&
        is_float(spec->dtype))
        kit_set(g, node->inputs[1], 0, 0, INFINITY); /* 0 * inf in row 2 */
    if (op_class == CLV_CLASS_ATTENTION && is_float(spec->dtype))
        kit_set(g, node->inputs[2], 0, 0, INFINITY);
    if (op_class == CLV_CLASS_BINARY && n > 2 &&
        !(spec->form & KIT_FORM_VECTOR)) {
        kit_set(g, node->inputs[1], 1, middle, -INFINITY);
        kit_set(g, node->inputs[1], 2, 0, INFINITY);
    }
}

/* Rows of everything that has the activation's become a symbol. */
static void make_symbolic(const kit_spec *spec, kit_graph *g,
                          const clv_node *node)
{
    uint32_t symbol = kit_make_symbol(g, 1, spec->n, spec->value);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t t = node->inputs[i];
        const clv_operand operand = clv_op_operand(node, i);
        const uint32_t axis =
            g->descs[t].rank > 1 ? operand.first : operand.last;
        if (axis == CLV_CUT_SEQUENCE)
            kit_set_symbol(g, t, 0, symbol);
    }
    if (node->n_outputs)
        kit_set_symbol(g, node->outputs[0], 0, symbol);
}

clv_node *kit_spec_build(const kit_spec *spec, kit_graph *g)
{
    clv_node *node;
    switch (clv_op_class_of(spec->op)) {
    case CLV_CLASS_GET_ROWS:
    case CLV_CLASS_SET_ROWS:
    case CLV_CLASS_CONVERT:
        node = build_rows(spec, g);
        break;
    case CLV_CLASS_MATMUL:
        node = build_matmul(spec, g);
        break;
    case CLV_CLASS_SELECT:
        node = build_select(spec, g);
        break;
    case CLV_CLASS_EXPERTS:
        node = build_matmul_experts(spec, g);
        break;
    case CLV_CLASS_ROPE:
        node = build_rope(spec, g);
        break;
    case CLV_CLASS_ATTENTION:
        node = build_attention(spec, g);
        break;
    case CLV_CLASS_HEAD_NORM:
        node = build_head_norm(spec, g);
        break;
    case CLV_CLASS_NORM:
    case CLV_CLASS_SOFTMAX:
        node = build_norm(spec, g);
        break;
    default:
        node = build_elementwise(spec, g);
    }
    if (spec->form & KIT_FORM_SPECIAL)
        add_specials(spec, g, node);
    if (spec->form & KIT_FORM_SYMBOL)
        make_symbolic(spec, g, node);
    return node;
}
