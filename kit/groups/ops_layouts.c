/*
 * States in the layout that a device prefers: rows are set in two of them
 * and attention reads both, as they are and stored as weights. What is set
 * must be the same, what attention makes of it right, and padding zeros.
 */
#include "../work/element.h"
#include "../reference/forecast.h"
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    uint32_t dtype;
    int64_t n, rows, heads, groups, dim, first, window;
    const char *name;
} shape;

static const shape shapes[] = {
    {CLV_DTYPE_F16, 5, 90, 4, 2, 32, 40, 0, "f16.5x4h32g2x90"},
    {CLV_DTYPE_F32, 5, 90, 4, 2, 32, 40, 0, "f32.5x4h32g2x90"},
    {CLV_DTYPE_F16, 1, 701, 6, 3, 80, 699, 0, "f16.1x6h80g3x701"},
    {CLV_DTYPE_F16, 9, 37, 2, 1, 30, 20, 6, "f16.9x2h30g1x37.window6"},
    {CLV_DTYPE_F32, 3, 5, 2, 1, 7, 0, 0, "f32.3x2h7g1x5"},
    {CLV_DTYPE_F16, 33, 130, 8, 2, 64, 97, 50, "f16.33x8h64g2x130.window50"},
};

typedef struct tensors {
    uint32_t states[2], y; /* k and v */
    uint32_t attention;    /* the node */
} tensors;

/* Rows of k are an input, those of v a product, whose kernel may set them. */
static tensors build(kit_graph *g, const shape *s)
{
    const int64_t width = s->groups * s->dim;
    tensors t;
    uint32_t x =
        kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, s->n, width, 0);
    uint32_t q = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, s->n,
                                s->heads * s->dim, 0);
    uint32_t w =
        kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, width, width, 0);
    uint32_t pos =
        kit_add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, s->n, 0);
    uint32_t v =
        kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, s->n, width, 0);
    for (int i = 0; i < 2; i++)
        t.states[i] =
            kit_add_tensor(g, s->dtype, CLV_USAGE_STATE, s->rows, width, 0);
    t.y = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, s->n,
                         s->heads * s->dim, 0);
    for (int64_t i = 0; i < s->n; i++)
        kit_set(g, pos, 0, i, (double)(s->first + i));
    KIT_NODE(g, CLV_OP_MATMUL, v, x, w);
    KIT_NODE(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, t.states[0], x, pos);
    KIT_NODE(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, t.states[1], v, pos);
    t.attention = g->n_nodes;
    clv_node *node =
        KIT_NODE(g, CLV_OP_ATTENTION, t.y, q, t.states[0], t.states[1], pos);
    node->attr.attention.head_dim = (uint32_t)s->dim;
    node->attr.attention.scale = 0.3f;
    node->attr.attention.window = (int32_t)s->window;
    return t;
}

static int64_t in_slices(int64_t n)
{
    return (n + 3) / 4 * 4;
}

/* Where an element is: of k row by row, of v channel by channel, both in whole
 * slices of 4. */
static int64_t place(const clv_tensor_desc *d, int64_t row, int64_t column)
{
    return d->axes[0] == CLV_AXIS_O ? row * in_slices(d->dims[1]) + column
                                    : column * in_slices(d->dims[0]) + row;
}

/* Stores the state as weights, with its contents. */
static void lay(kit_graph *g, uint32_t index, bool is_v)
{
    clv_tensor_desc *d = &g->descs[index];
    kit_tensor *t = &g->tensors[index];
    const uint64_t count =
        (uint64_t)(in_slices(d->dims[0]) * in_slices(d->dims[1]));
    const uint64_t size = count * (uint64_t)kit_block_size(d->dtype);
    uint8_t *data = calloc(1, size);
    if (!data)
        kit_fail(g->k, "the kit has no memory for a state");
    d->layout = CLV_LAYOUT_WEIGHTS;
    d->axes[0] = is_v ? CLV_AXIS_I : CLV_AXIS_O;
    d->axes[1] = is_v ? CLV_AXIS_O : CLV_AXIS_I;
    for (int64_t i = 0; i < d->dims[0]; i++)
        for (int64_t j = 0; j < d->dims[1]; j++)
            kit_encode(d->dtype, data, place(d, i, j), kit_get(g, index, i, j));
    free(t->data);
    *t = (kit_tensor){.data = data,
                      .size = size,
                      .base = index,
                      .rows = 1,
                      .row = (int64_t)size,
                      .stride = (int64_t)size};
}

/* plain: the same graph with rows, which has run. */
static void check_state(const kit_graph *plain, const kit_graph *stored,
                        uint32_t index)
{
    const clv_tensor_desc *d = &stored->descs[index];
    uint8_t *rest = stored->tensors[index].data;
    for (int64_t i = 0; i < d->dims[0]; i++)
        for (int64_t j = 0; j < d->dims[1]; j++) {
            double want = kit_get(plain, index, i, j);
            double got = kit_decode(d->dtype, rest, place(d, i, j));
            KIT_CHECK(stored->k, got == want,
                      "element [%lld, %lld] of a state stored as weights is "
                      "%g, not %g",
                      (long long)i, (long long)j, got, want);
            kit_encode(d->dtype, rest, place(d, i, j), 0);
        }
    for (uint64_t i = 0; i < stored->tensors[index].size; i++)
        KIT_CHECK(stored->k, !rest[i],
                  "padding of a state stored as weights "
                  "was written, at byte %llu",
                  (unsigned long long)i);
}

static bool has_preference(const kit_judgement *judgement, const tensors *t)
{
    const clv_op_caps *caps = judgement->caps;
    for (int i = 0; i < 2; i++)
        if (caps[t->attention].layouts[1 + i] != CLV_LAYOUT_WEIGHTS ||
            caps[1 + i].layouts[0] != CLV_LAYOUT_WEIGHTS)
            return false;
    return true;
}

static void run(kit *k, const void *arg)
{
    kit_graph plain, stored;
    kit_judgement judgement;
    clv_op_caps caps[KIT_MAX_NODES];
    char reason[KIT_TEXT_SIZE];
    kit_graph_init(k, &plain);
    const tensors t = build(&plain, arg);
    kit_graph_copy(&plain, &stored);
    kit_judged judged = kit_judge(&plain, 0, &judgement);
    if (judged != KIT_RIGHT || !has_preference(&judgement, &t)) {
        kit_skip(k, "%s",
                 judged != KIT_RIGHT ? judgement.reason
                                     : "no layout is preferred");
    } else {
        for (int i = 0; i < 2; i++)
            lay(&stored, t.states[i], i);
        KIT_CHECK(k, kit_takes(&stored, reason),
                  "a preferred layout is refused: %s", reason);
        kit_caps(&stored, caps);
        kit_run(&stored, KIT_RUN_TWICE);
        kit_values want = kit_reference(&plain, t.attention);
        kit_compare(&stored, t.y, &want, caps[t.attention].error_class,
                    "attention of states stored as weights");
        kit_values_free(&want);
        for (int i = 0; i < 2; i++)
            check_state(&plain, &stored, t.states[i]);
    }
    kit_graph_free(&stored);
    kit_graph_free(&plain);
}

void kit_list_layouts(kit_list *list)
{
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++)
        kit_add(list, KIT_PER_DEVICE, 0, run, &shapes[i], "layouts.%s",
                shapes[i].name);
}
