/* Rotation and attention. */
#include "../work/shapes.h"
#include "ops.h"

static void list_rope(kit_list *list)
{
    static const int64_t counts[] = {1, 2,  3,  4,  5,  6,  7, 8,
                                     9, 10, 11, 12, 13, 14, 15};
    static const struct {
        int64_t n, heads, dim, pairs;
        float scale;
    } shapes[] = {{1, 1, 2, 1, 0},       {1, 32, 64, 0, 0},
                  {70, 4, 128, 0, 0.5f}, {5, 3, 80, 16, 1.25f},
                  {3, 32, 80, 16, 0},    {2, 8, 256, 0, 0},
                  {4, 6, 48, 0, 0},      {3, 2, 30, 0, 0.75f}};
    for (uint32_t mode = 0; mode < 2; mode++) {
        kit_spec s = {.op = CLV_OP_ROPE,
                      .dtype = CLV_DTYPE_F32,
                      .variant = mode,
                      .n = 5,
                      .heads = 3,
                      .dim = 32};
        kit_add_forms(list, &s);
        kit_add_aliases(list, &s, 1);
        KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
        s.dim = 30;
        KIT_SERIES(list, "partial", &s, pairs, counts, KIT_COUNT(counts), 1);
        for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
            s.n = shapes[i].n;
            s.heads = shapes[i].heads;
            s.dim = shapes[i].dim;
            s.pairs = shapes[i].pairs;
            s.scale = shapes[i].scale;
            kit_add_spec(list, &s);
        }
    }
}

static void list_head_norm(kit_list *list)
{
    static const struct {
        int64_t n, heads, dim;
    } shapes[] = {{1, 1, 1},    {1, 32, 128}, {70, 4, 128}, {5, 3, 80},
                  {3, 16, 256}, {2, 7, 33},   {9, 2, 1024}};
    kit_spec s = {.op = CLV_OP_HEAD_NORM,
                  .dtype = CLV_DTYPE_F32,
                  .n = 5,
                  .heads = 3,
                  .dim = 32};
    kit_add_forms(list, &s);
    kit_add_aliases(list, &s, 1);
    KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
    KIT_SERIES(list, "tails_in", &s, dim, kit_every, kit_n_every, 1);
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i].n;
        s.heads = shapes[i].heads;
        s.dim = shapes[i].dim;
        s.form = i % 2 ? KIT_FORM_EXTREME : 0;
        kit_add_spec(list, &s);
    }
}

static const kit_spec attention_specs[] = {
    {.n = 1, .out = 1, .heads = 1, .groups = 1, .dim = 1},
    {.n = 1, .out = 64, .heads = 8, .groups = 2, .dim = 64, .first = 50},
    {.n = 1, .out = 700, .heads = 6, .groups = 3, .dim = 80, .first = 699},
    {.n = 37, .out = 37, .heads = 4, .groups = 4, .dim = 32},
    {.n = 70,
     .out = 300,
     .heads = 8,
     .groups = 1,
     .dim = 16,
     .first = 200,
     .pad = 4},
    {.n = 33,
     .out = 400,
     .heads = 2,
     .groups = 1,
     .dim = 128,
     .first = 300,
     .window = 100},
    {.n = 5,
     .out = 20,
     .heads = 2,
     .groups = 2,
     .dim = 40,
     .first = 3,
     .window = 1},
    {.n = 9,
     .out = 64,
     .heads = 4,
     .groups = 2,
     .dim = 256,
     .first = 20,
     .softcap = 2},
    /* Nothing to see before row 0, and past the last one. */
    {.n = 6, .out = 10, .heads = 2, .groups = 1, .dim = 24, .first = -3},
    {.n = 6, .out = 10, .heads = 2, .groups = 1, .dim = 24, .first = 8},
    {.n = 3,
     .out = 10,
     .heads = 2,
     .groups = 1,
     .dim = 24,
     .first = 1000,
     .window = 7},
    {.n = 2,
     .out = 10,
     .heads = 3,
     .groups = 1,
     .dim = 7,
     .first = INT32_MAX - 2},
    {.n = 3, .out = 30, .heads = 2, .groups = 2, .dim = 1024, .first = 20},
    /* Of one of several sequences. */
    {.n = 1,
     .out = 700,
     .heads = 8,
     .groups = 2,
     .dim = 64,
     .first = 640,
     .begin = 300},
    {.n = 37,
     .out = 400,
     .heads = 4,
     .groups = 1,
     .dim = 32,
     .first = 260,
     .begin = 250,
     .window = 20},
    {.n = 3,
     .out = 40,
     .heads = 4,
     .groups = 2,
     .dim = 64,
     .first = 9,
     .begin = 10},
    /* And of one each. */
    {.n = 8,
     .out = 1600,
     .heads = 8,
     .groups = 2,
     .dim = 64,
     .first = 190,
     .form = KIT_FORM_APART},
    {.n = 5,
     .out = 600,
     .heads = 7,
     .groups = 1,
     .dim = 96,
     .first = 100,
     .window = 33,
     .form = KIT_FORM_APART},
    {.n = 70,
     .out = 700,
     .heads = 6,
     .groups = 2,
     .dim = 32,
     .first = 3,
     .softcap = 2,
     .form = KIT_FORM_APART},
    {.n = 4,
     .out = 40,
     .heads = 20,
     .groups = 1,
     .dim = 64,
     .first = 1,
     .form = KIT_FORM_APART},
};

static void list_attention_models(kit_list *list, kit_spec s)
{
    for (uint32_t i = 0; i < kit_n_attention_shapes; i++) {
        const kit_attention_shape *shape = &kit_attention_shapes[i];
        if (shape->head_dim % kit_spec_unit(&s))
            continue;
        s.heads = shape->heads;
        s.groups = shape->groups;
        s.dim = shape->head_dim;
        s.softcap = shape->softcap;
        s.scale = 0;
        s.form = KIT_FORM_POISON;
        s.n = i % 2 ? 1 : 2;
        s.first = 60;
        s.out = 96;
        s.window = shape->window ? 33 : 0; /* it must cut something off */
        kit_add_spec(list, &s);
    }
}

static void list_attention(kit_list *list)
{
    static const uint32_t caches[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_Q8_0};
    for (uint32_t d = 0; d < KIT_COUNT(caches); d++) {
        kit_spec s = {.op = CLV_OP_ATTENTION,
                      .dtype = caches[d],
                      .n = 5,
                      .out = 90,
                      .heads = 4,
                      .groups = 2,
                      .dim = 32,
                      .first = 40,
                      .scale = 0.7f};
        kit_add_forms(list, &s);
        s.form = KIT_FORM_BOUND | KIT_FORM_POISON;
        kit_add_spec(list, &s);
        s.form = KIT_FORM_SPECIAL; /* tanh of NaN is NaN */
        s.softcap = 2;
        kit_add_spec(list, &s);
        s.form = 0;
        s.softcap = 0;
        KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
        const int64_t unit = kit_spec_unit(&s);
        if (unit > 1)
            KIT_SERIES(list, "blocks", &s, dim, kit_blocks, kit_n_blocks, unit);
        else
            KIT_SERIES(list, "tails_dim", &s, dim, kit_every, kit_n_every, 1);
        s.first = 0;
        s.n = 2;
        KIT_SERIES(list, "tails_cache", &s, out, kit_tails, kit_n_tails, 1);
        for (uint32_t i = 0; i < KIT_COUNT(attention_specs); i++) {
            if (attention_specs[i].dim % unit)
                continue;
            s = attention_specs[i];
            s.op = CLV_OP_ATTENTION;
            s.dtype = caches[d];
            s.scale = 0.7f;
            s.form |= KIT_FORM_POISON;
            kit_add_spec(list, &s);
        }
        list_attention_models(list, s);
    }
}

void kit_list_heads(kit_list *list)
{
    list_rope(list);
    list_head_norm(list);
    list_attention(list);
}
