/*
 * Weights in a layout of the device's own, where it prefers one: the device
 * brings rows into it, whole blocks at a time, and products of them, or rows
 * out of them, are right. A device that prefers none refuses such weights.
 */
#include "../reference/forecast.h"
#include "ops.h"

#include <string.h>

/* Which input of the graph's node the weight is. */
static uint32_t place_of_weight(const kit_graph *g)
{
    return g->nodes[0].op == CLV_OP_GET_ROWS ? 0 : 1;
}

static uint32_t weight_of(const kit_graph *g)
{
    return g->nodes[0].inputs[place_of_weight(g)];
}

static void set_private(kit_graph *g, uint32_t tensor)
{
    clv_tensor_desc *d = &g->descs[tensor];
    d->layout = CLV_LAYOUT_PRIVATE;
    memset(d->strides, 0, sizeof d->strides);
}

/* One CONVERT of this many rows of the weight, of at most all. Returns the
 * tensor with the result. */
static uint32_t build_convert(const kit_graph *product, int64_t rows,
                              kit_graph *g)
{
    const uint32_t w = weight_of(product);
    const kit_tensor *from = &product->tensors[w];
    const int64_t all = kit_rows(product, w), c = kit_columns(product, w);
    const uint32_t dtype = product->descs[w].dtype;
    kit_graph_init(product->k, g);
    uint32_t x = kit_add_tensor(g, dtype, CLV_USAGE_INPUT, all, c, 0);
    uint32_t y = kit_add_tensor(g, dtype, CLV_USAGE_OUTPUT, all, c, 0);
    memcpy(g->tensors[x].data, from->data, from->size);
    set_private(g, y);
    const uint32_t symbol = kit_make_symbol(g, 1, all, rows);
    kit_set_symbol(g, x, 0, symbol);
    kit_set_symbol(g, y, 0, symbol);
    KIT_NODE(g, CLV_OP_CONVERT, y, x);
    return y;
}

/* What it makes of the first rows goes to `private`, the product with the
 * weight in the layout; or is what is there already. Past them it writes
 * nothing, which kit_run() sees to. */
static void convert(kit_graph *product, kit_graph *private, int64_t rows,
                    bool compare)
{
    kit_graph g;
    char reason[KIT_TEXT_SIZE];
    kit_tensor *to = &private->tensors[weight_of(private)];
    const uint32_t y = build_convert(product, rows, &g);
    const uint64_t size = (uint64_t)(rows * g.tensors[y].row);
    KIT_CHECK(g.k, kit_takes(&g, reason),
              "weights cannot be brought into the preferred layout: %s",
              reason);
    kit_run(&g, KIT_RUN_TWICE);
    if (compare)
        KIT_CHECK(g.k, !memcmp(to->data, g.tensors[y].data, size),
                  "the first %lld rows, converted alone, are not what they are "
                  "among all: blocks depend on others",
                  (long long)rows);
    else
        memcpy(to->data, g.tensors[y].data, size);
    kit_graph_free(&g);
}

/* Half of the blocks, in rows; 0: there is but one. */
static int64_t half_of(kit *k, int64_t rows, const clv_op_caps *caps)
{
    const int64_t block = caps->private_rows ? caps->private_rows : 1;
    KIT_CHECK(k, rows % block == 0,
              "a layout of blocks of %lld rows is preferred for a weight of "
              "%lld",
              (long long)block, (long long)rows);
    return rows / block / 2 * block;
}

static void judge_private(kit_graph *product, const clv_op_caps *plain)
{
    kit_graph private;
    clv_op_caps caps;
    char reason[KIT_TEXT_SIZE];
    const int64_t rows = kit_rows(product, weight_of(product));
    const int64_t half = half_of(product->k, rows, plain);
    const uint32_t y = product->nodes[0].outputs[0];
    kit_graph_copy(product, &private);
    set_private(&private, weight_of(&private));
    KIT_CHECK(product->k, kit_takes(&private, reason),
              "a preferred layout is refused: %s", reason);
    kit_caps(&private, &caps);
    convert(product, &private, rows, false);
    if (half)
        convert(product, &private, half, true);
    kit_values want = kit_reference(product, 0);
    kit_run(&private, KIT_RUN_TWICE);
    kit_compare(&private, y, &want, caps.error_class,
                "weights in the device's own layout");
    kit_values_free(&want);
    kit_graph_free(&private);
}

/* Nobody has asked for it: it is refused. */
static void judge_refused(kit_graph *product)
{
    kit_judgement judgement;
    set_private(product, weight_of(product));
    KIT_CHECK(product->k, kit_judge(product, 0, &judgement) == KIT_REFUSED,
              "weights in a layout of the device's own are taken, and are not "
              "preferred");
    kit_skip(product->k, "no layout is preferred");
}

static void run(kit *k, const void *arg)
{
    kit_graph g;
    clv_op_caps caps;
    char reason[KIT_TEXT_SIZE];
    kit_graph_init(k, &g);
    kit_spec_build(arg, &g);
    kit_caps(&g, &caps);
    if (!kit_takes(&g, reason))
        kit_skip(k, "%s", reason);
    else if (caps.layouts[place_of_weight(&g)] == CLV_LAYOUT_PRIVATE)
        judge_private(&g, &caps);
    else
        judge_refused(&g);
    kit_graph_free(&g);
}

static void add(kit_list *list, const kit_spec *s)
{
    char name[KIT_NAME_SIZE];
    kit_spec_name(s, name);
    kit_add(list, KIT_PER_DEVICE, 0, run, kit_store_spec(s), "private.%s.%s",
            clv_op_name(s->op), name);
}

/* Whole blocks of the format. */
static int64_t channels_of(uint32_t dtype, int64_t n)
{
    const int64_t block = clv_format_of(dtype)->elements;
    return (n + block - 1) / block * block;
}

static void list_products(kit_list *list, kit_spec s)
{
    static const struct {
        int64_t n, in, out;
        uint32_t form;
    } shapes[] = {
        {1, 64, 16, 0},   {5, 64, 16, 0},   {40, 96, 16, 0},
        {1, 96, 64, 0},   {40, 96, 64, 0},  {5, 96, 64, KIT_FORM_BIAS},
        {1, 256, 400, 0}, {5, 256, 400, 0}, {40, 256, 400, 0}};
    /* The first are of less than a large block. */
    const uint32_t first = clv_format_of(s.dtype)->elements > 64 ? 3 : 0;
    s.op = CLV_OP_MATMUL;
    for (uint32_t i = first; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i].n;
        s.in = channels_of(s.dtype, shapes[i].in);
        s.out = shapes[i].out;
        s.form = shapes[i].form;
        add(list, &s);
    }
}

static void list_experts(kit_list *list, kit_spec s)
{
    static const int64_t shapes[][3] = {{1, 64, 16}, {5, 64, 48}, {40, 96, 64}};
    s.op = CLV_OP_MATMUL_EXPERTS;
    s.experts = 3;
    s.used = 2;
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i][0];
        s.in = channels_of(s.dtype, shapes[i][1]);
        s.out = shapes[i][2];
        add(list, &s);
    }
    /* Some of the experts, whose products are added. */
    s.n = 3;
    s.in = channels_of(s.dtype, 352);
    s.out = 32;
    s.first = 1;
    s.total = 6;
    s.form = KIT_FORM_EACH | KIT_FORM_SCORES | KIT_FORM_ABSENT;
    add(list, &s);
}

/* Rows out of a table, some more than once. */
static void list_tables(kit_list *list, kit_spec s)
{
    static const int64_t shapes[][3] = {
        {1, 64, 16}, {9, 96, 48}, {40, 1056, 400}};
    s.op = CLV_OP_GET_ROWS;
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i][0];
        s.in = channels_of(s.dtype, shapes[i][1]);
        s.out = shapes[i][2];
        add(list, &s);
    }
}

void kit_list_private(kit_list *list)
{
    static const uint32_t dtypes[] = {
        CLV_DTYPE_F32,  CLV_DTYPE_F16,  CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
        CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K, CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K};
    for (uint32_t i = 0; i < KIT_COUNT(dtypes); i++) {
        const kit_spec s = {.dtype = dtypes[i]};
        list_products(list, s);
        list_experts(list, s);
        list_tables(list, s);
    }
}
