/*
 * Every op in every dtype, in shapes of real models and in small ones around
 * the sizes that kernels are made of, dense, padded, as views, by symbol,
 * imported and at odd offsets, with NaN and infinity.
 */
#include "ops.h"
#include "../element.h"
#include "../shapes.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* ------------------------------------------------------------------------ */
/* Specs as cases                                                            */

#define MAX_SPECS 4096

/* Specs live as long as the program; a group may be listed more than once. */
static kit_spec kept[MAX_SPECS];
static uint32_t n_kept;

const kit_spec *kit_keep_spec(const kit_spec *spec)
{
    for (uint32_t i = 0; i < n_kept; i++)
        if (!memcmp(&kept[i], spec, sizeof *spec))
            return &kept[i];
    if (n_kept == MAX_SPECS)
        return NULL;
    memcpy(&kept[n_kept], spec, sizeof *spec);
    return &kept[n_kept++];
}

static void run_spec(kit *k, const void *arg)
{
    KIT_CHECK(k, arg, "the kit has more specs than it keeps");
    kit_judge_case(k, arg);
}

void kit_add_spec(kit_list *list, const kit_spec *spec)
{
    char name[KIT_NAME_SIZE];
    kit_spec_name(spec, name);
    kit_add(list, KIT_PER_DEVICE,
            spec->form & KIT_FORM_IMPORT ? KIT_NEEDS_IMPORT : 0, run_spec,
            kit_keep_spec(spec), "%s.%s", kit_op_name(spec->op), name);
}

/* A field of the spec at one value after the other. */
typedef struct series {
    kit_spec base;
    size_t field; /* of an int64_t in kit_spec */
    const int64_t *values;
    uint32_t n_values;
    int64_t unit; /* the values are multiplied by it */
} series;

#define MAX_SERIES 256
static series all_series[MAX_SERIES];
static uint32_t n_series;

static void run_series(kit *k, const void *arg)
{
    const series *s = arg;
    uint32_t right = 0;
    kit_judgement judgement = {.verdict = KIT_RIGHT};
    KIT_CHECK(k, arg, "the kit has more series than it keeps");
    for (uint32_t i = 0; i < s->n_values; i++) {
        kit_spec spec = s->base;
        int64_t value = s->values[i] * s->unit;
        memcpy((char *)&spec + s->field, &value, sizeof value);
        spec.pad = s->values[i] % 3;
        right += kit_judge_spec(k, &spec, &judgement) == KIT_RIGHT;
    }
    if (!right)
        kit_skip(k, "%s", judgement.reason);
    else
        kit_note(k, "%u of %u shapes", right, s->n_values);
}

static void add_series(kit_list *list, const char *what, const kit_spec *base,
                       size_t field, const int64_t *values, uint32_t n,
                       int64_t unit)
{
    series *s = NULL;
    for (uint32_t i = 0; !s && i < n_series; i++)
        if (!memcmp(&all_series[i].base, base, sizeof *base) &&
            all_series[i].field == field && all_series[i].values == values)
            s = &all_series[i];
    if (!s && n_series < MAX_SERIES) {
        s = &all_series[n_series++];
        memcpy(&s->base, base, sizeof *base);
        s->field = field;
        s->values = values;
        s->n_values = n;
        s->unit = unit;
    }
    char name[KIT_NAME_SIZE];
    kit_spec_name(base, name);
    kit_add(list, KIT_PER_DEVICE, 0, run_series, s, "%s.%s.%s",
            kit_op_name(base->op), what, name);
}

#define SERIES(list, what, base, field, values, unit)                         \
    add_series(list, what, base, offsetof(kit_spec, field), values,           \
               COUNT(values), unit)

/* Around the sizes of vectors, tiles and blocks. */
static const int64_t tails[] = {1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16,
                                17, 20, 24, 31, 32, 33, 40, 47, 48, 49, 63,
                                64, 65, 96, 100, 127, 128, 129};
static const int64_t every[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
                                25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36,
                                37, 38, 39, 40};
static const int64_t blocks[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33};

/* ------------------------------------------------------------------------ */
/* Dtypes                                                                    */

typedef struct weight {
    uint32_t dtype, quant, group;
} weight;

static const weight weights[] = {
    {CLV_DTYPE_F32, 0, 0},
    {CLV_DTYPE_F16, 0, 0},
    {CLV_DTYPE_BF16, 0, 0},
    {CLV_DTYPE_Q8_0, 0, 0},
    {CLV_DTYPE_Q4_0, 0, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 32},
    {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32},
};

static const uint32_t reals[] = {CLV_DTYPE_F32, CLV_DTYPE_F16, CLV_DTYPE_BF16,
                                 CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};

/* The ways a spec is placed in memory and given its rows. */
static void add_forms(kit_list *list, const kit_spec *base)
{
    static const int64_t values[] = {1, 5, 16, 37};
    kit_spec s = *base;
    kit_add_spec(list, &s);
    s.pad = 3;
    kit_add_spec(list, &s);
    s.form = base->form | KIT_FORM_VIEW;
    kit_add_spec(list, &s);
    s = *base;
    static const uint32_t forms[] = {
        KIT_FORM_SPECIAL, KIT_FORM_IMPORT, KIT_FORM_OFFSET,
        KIT_FORM_IMPORT | KIT_FORM_OFFSET, KIT_FORM_OFFSET | KIT_FORM_VIEW};
    for (size_t i = 0; i < COUNT(forms); i++) {
        s.form = base->form | forms[i];
        kit_add_spec(list, &s);
    }
    s.form = base->form | KIT_FORM_SYMBOL;
    s.n = 37;
    for (size_t i = 0; i < COUNT(values); i++) {
        s.value = values[i];
        kit_add_spec(list, &s);
    }
}

/* ------------------------------------------------------------------------ */
/* Matmul                                                                    */

static void list_matmul_shapes(kit_list *list, kit_spec s)
{
    static const int64_t shapes[][3] = {
        {1, 32, 1},   {1, 64, 17},  {2, 96, 33},  {3, 32, 16},
        {5, 256, 40}, {17, 64, 65}, {33, 160, 7}, {1, 1056, 130},
        {4, 2080, 3}, {67, 32, 31}, {530, 32, 5}, {128, 128, 96}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        s.n = shapes[i][0];
        s.in = shapes[i][1];
        s.out = shapes[i][2];
        s.form = i % 2 ? KIT_FORM_BIAS : 0;
        s.pad = 0;
        kit_add_spec(list, &s);
        s.form ^= KIT_FORM_BIAS;
        s.pad = 3;
        kit_add_spec(list, &s);
    }
}

static void run_model(kit *k, const void *arg)
{
    kit_spec s;
    memcpy(&s, arg, sizeof s);
    if (!kit_thorough(k) && s.out > 48)
        s.out = 48; /* of the weight's rows; the length of sums is what counts */
    kit_judge_case(k, &s);
}

/* Lengths of real models' rows; all of the weight where there is time. */
static void list_models(kit_list *list, kit_spec s)
{
    for (uint32_t i = 0; i < kit_n_matmul_shapes; i++) {
        const kit_matmul_shape *shape = &kit_matmul_shapes[i];
        s.n = i % 2 ? 3 : 1;
        s.in = shape->in;
        s.out = shape->out;
        s.form = strstr(shape->name, "phi-2") || strstr(shape->name, "qwen2")
                     ? KIT_FORM_BIAS
                     : 0;
        int64_t unit = kit_spec_unit(&s);
        if (s.in % unit == 0)
            kit_add(list, KIT_PER_DEVICE, 0, run_model, kit_keep_spec(&s),
                    "matmul.%s.%s", kit_dtype_name(s.dtype), shape->name);
    }
}

static void list_matmul(kit_list *list)
{
    for (size_t i = 0; i < COUNT(weights); i++) {
        kit_spec s = {.op = CLV_OP_MATMUL,
                      .dtype = weights[i].dtype,
                      .quant = weights[i].quant,
                      .group = weights[i].group,
                      .n = 5,
                      .in = 96,
                      .out = 40};
        int64_t unit = kit_spec_unit(&s);
        add_forms(list, &s);
        if (s.quant) { /* what follows is about kernels, one scheme will do */
            s.form = KIT_FORM_BIAS;
            kit_add_spec(list, &s);
            SERIES(list, "tails_out", &s, out, tails, 1);
            continue;
        }
        list_matmul_shapes(list, s);
        list_models(list, s);
        s.n = 3;
        SERIES(list, "tails_out", &s, out, tails, 1);
        s.n = 1;
        SERIES(list, "tails_out", &s, out, tails, 1);
        s.out = 19;
        SERIES(list, "tails_rows", &s, n, tails, 1);
        if (unit > 1)
            SERIES(list, "tails_in", &s, in, blocks, unit);
        else
            SERIES(list, "tails_in", &s, in, every, 1);
    }
}

/* ------------------------------------------------------------------------ */
/* Rows                                                                      */

static void list_rows(kit_list *list)
{
    static const uint32_t ops[] = {CLV_OP_GET_ROWS, CLV_OP_SET_ROWS};
    for (size_t o = 0; o < COUNT(ops); o++)
        for (size_t d = 0; d < COUNT(reals); d++) {
            kit_spec s = {.op = ops[o],
                          .dtype = reals[d],
                          .n = 9,
                          .in = 64,
                          .out = 12};
            int64_t unit = kit_spec_unit(&s);
            add_forms(list, &s);
            for (s.in = 32; s.in < 20000; s.in = s.in * 5 + 32) {
                s.pad = d % 2;
                kit_add_spec(list, &s);
            }
            s.in = 96;
            SERIES(list, "tails_rows", &s, n, tails, 1);
            if (unit > 1)
                SERIES(list, "tails_in", &s, in, blocks, unit);
            else
                SERIES(list, "tails_in", &s, in, every, 1);
        }
}

/* A transposed view read into a dense tensor of rank 3. */
static void run_transposed(kit *k, const void *arg)
{
    enum { A = 3, B = 5, C = 7, N = A * B * C };
    const int64_t dims[] = {A, B, C}, strides[] = {4, 4 * A * C, 4 * A};
    char reason[KIT_TEXT_SIZE];
    kit_graph g;
    (void)arg;
    kit_graph_init(k, &g);
    uint32_t x = kit_add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, N, 0);
    uint32_t y = kit_add_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_OUTPUT, 0, N, 0);
    clv_tensor_desc flat[2] = {g.descs[x], g.descs[y]};
    for (int i = 0; i < 3; i++) {
        g.descs[x].dims[i] = g.descs[y].dims[i] = dims[i];
        g.descs[x].strides[i] = strides[i];
    }
    g.descs[x].rank = g.descs[y].rank = 3;
    KIT_NODE(&g, CLV_OP_CONVERT, y, x);
    if (!kit_takes(&g, reason)) {
        kit_skip(k, "%s", reason);
        kit_graph_free(&g);
        return;
    }
    kit_run(&g, KIT_RUN_TWICE);
    g.descs[x] = flat[0];
    g.descs[y] = flat[1];
    for (int64_t i = 0; i < N; i++) {
        int64_t a = i / (B * C), b = i / C % B, c = i % C;
        double want = kit_get(&g, x, 0, a + b * A * C + c * A);
        double got = kit_get(&g, y, 0, i), off = want - got;
        double most = (want < 0 ? -want : want) * 0x1p-11 + 0x1p-25;
        KIT_CHECK(k, off <= most && -off <= most,
                  "element [%d, %d, %d] of a transposed view is %g, not %g",
                  (int)a, (int)b, (int)c, got, want);
    }
    kit_graph_free(&g);
}

static void list_convert(kit_list *list)
{
    for (size_t a = 0; a < COUNT(reals); a++)
        for (size_t b = 0; b < COUNT(reals); b++) {
            kit_spec s = {.op = CLV_OP_CONVERT,
                          .dtype = reals[a],
                          .to = reals[b],
                          .n = 4,
                          .in = 96};
            int64_t unit = kit_spec_unit(&s);
            if (a == 0 || b == 0)
                add_forms(list, &s);
            s.n = 3;
            s.in = 20000;
            s.pad = a % 2;
            kit_add_spec(list, &s);
            if (unit > 1)
                SERIES(list, "tails_in", &s, in, blocks, unit);
            else
                SERIES(list, "tails_in", &s, in, every, 1);
        }
    kit_spec ids = {.op = CLV_OP_CONVERT, .dtype = CLV_DTYPE_I32,
                    .to = CLV_DTYPE_I32, .n = 4, .in = 9, .pad = 1};
    kit_add_spec(list, &ids);
    kit_add(list, KIT_PER_DEVICE, 0, run_transposed, NULL,
            "convert.transposed");
}

/* ------------------------------------------------------------------------ */
/* Elements and whole rows                                                   */

static void add_aliases(kit_list *list, const kit_spec *base, uint32_t inputs)
{
    kit_spec s = *base;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t alias = i ? KIT_FORM_ALIAS_1 : KIT_FORM_ALIAS_0;
        s.form = base->form | alias;
        kit_add_spec(list, &s);
        s.form |= KIT_FORM_OVERLAY;
        kit_add_spec(list, &s);
    }
}

static void list_element_op(kit_list *list, kit_spec s)
{
    const bool two = s.op == CLV_OP_ADD || s.op == CLV_OP_MUL ||
                     s.op == CLV_OP_GLU;
    s.n = 5;
    s.in = 77;
    add_forms(list, &s);
    add_aliases(list, &s, two ? 2 : 1);
    SERIES(list, "tails_in", &s, in, every, 1);
    s.in = 33;
    SERIES(list, "tails_rows", &s, n, tails, 1);
    s.form = KIT_FORM_EXTREME;
    kit_add_spec(list, &s);
    s.form = 0;
    s.n = 1;
    s.in = 50001;
    kit_add_spec(list, &s);
    s.n = 45;
    s.in = 777;
    s.pad = 1;
    kit_add_spec(list, &s);
    for (uint32_t i = 0; i < kit_n_widths; i += 3) {
        s.n = 2;
        s.in = kit_widths[i];
        kit_add_spec(list, &s);
    }
    if (s.op != CLV_OP_ADD && s.op != CLV_OP_MUL)
        return;
    s = (kit_spec){.op = s.op, .dtype = s.dtype, .form = KIT_FORM_VECTOR,
                   .n = 5, .in = 77};
    add_forms(list, &s);
    add_aliases(list, &s, 1);
    s.n = 300;
    s.in = 129;
    s.pad = 2;
    kit_add_spec(list, &s);
}

static void list_elements(kit_list *list)
{
    static const uint32_t ops[][2] = {
        {CLV_OP_ADD, 0},  {CLV_OP_MUL, 0},
        {CLV_OP_SILU, 0}, {CLV_OP_GELU, 0},
        {CLV_OP_GLU, CLV_ACT_SILU}, {CLV_OP_GLU, CLV_ACT_GELU_TANH}};
    for (size_t i = 0; i < COUNT(ops); i++)
        list_element_op(list, (kit_spec){.op = ops[i][0],
                                         .variant = ops[i][1],
                                         .dtype = CLV_DTYPE_F32});
}

static void list_norms(kit_list *list)
{
    static const uint32_t ops[][2] = {{CLV_OP_RMS_NORM, 0},
                                      {CLV_OP_LAYER_NORM, 0},
                                      {CLV_OP_LAYER_NORM, KIT_FORM_BIAS},
                                      {CLV_OP_SOFTMAX, 0}};
    for (size_t i = 0; i < COUNT(ops); i++) {
        kit_spec s = {.op = ops[i][0], .form = ops[i][1],
                      .dtype = CLV_DTYPE_F32, .n = 5, .in = 77};
        add_forms(list, &s);
        add_aliases(list, &s, 1);
        SERIES(list, "tails_in", &s, in, every, 1);
        s.in = 33;
        SERIES(list, "tails_rows", &s, n, tails, 1);
        for (uint32_t j = 0; j < kit_n_widths; j++) {
            s.in = kit_widths[j];
            s.n = j % 2 ? 1 : 4;
            s.pad = j % 3;
            kit_add_spec(list, &s);
        }
        s.n = 40;
        s.in = 2048;
        s.pad = 16;
        kit_add_spec(list, &s);
    }
    kit_spec logits = {.op = CLV_OP_SOFTMAX, .dtype = CLV_DTYPE_F32, .n = 1,
                       .in = 151936};
    kit_add_spec(list, &logits);
}

/* ------------------------------------------------------------------------ */
/* Heads                                                                     */

static void list_rope(kit_list *list)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                     14, 15};
    static const struct {
        int64_t n, heads, dim, pairs;
        float scale;
    } shapes[] = {{1, 1, 2, 1, 0},     {1, 32, 64, 0, 0},
                  {70, 4, 128, 0, 0.5f}, {5, 3, 80, 16, 1.25f},
                  {3, 32, 80, 16, 0},  {2, 8, 256, 0, 0},
                  {4, 6, 48, 0, 0}};
    for (uint32_t mode = 0; mode < 2; mode++) {
        kit_spec s = {.op = CLV_OP_ROPE, .dtype = CLV_DTYPE_F32,
                      .variant = mode, .n = 5, .heads = 3, .dim = 32};
        add_forms(list, &s);
        add_aliases(list, &s, 1);
        SERIES(list, "tails_rows", &s, n, tails, 1);
        s.dim = 30;
        SERIES(list, "partial", &s, pairs, counts, 1);
        for (size_t i = 0; i < COUNT(shapes); i++) {
            s.n = shapes[i].n;
            s.heads = shapes[i].heads;
            s.dim = shapes[i].dim;
            s.pairs = shapes[i].pairs;
            s.scale = shapes[i].scale;
            kit_add_spec(list, &s);
        }
    }
}

static const kit_spec attention_specs[] = {
    {.n = 1, .out = 1, .heads = 1, .groups = 1, .dim = 1},
    {.n = 1, .out = 64, .heads = 8, .groups = 2, .dim = 64, .first = 50},
    {.n = 1, .out = 700, .heads = 6, .groups = 3, .dim = 80, .first = 699},
    {.n = 37, .out = 37, .heads = 4, .groups = 4, .dim = 32},
    {.n = 70, .out = 300, .heads = 8, .groups = 1, .dim = 16, .first = 200,
     .pad = 4},
    {.n = 33, .out = 400, .heads = 2, .groups = 1, .dim = 128, .first = 300,
     .window = 100},
    {.n = 5, .out = 20, .heads = 2, .groups = 2, .dim = 40, .first = 3,
     .window = 1},
    {.n = 9, .out = 64, .heads = 4, .groups = 2, .dim = 256, .first = 20,
     .softcap = 2},
    /* Nothing to see before row 0, and past the last one. */
    {.n = 6, .out = 10, .heads = 2, .groups = 1, .dim = 24, .first = -3},
    {.n = 6, .out = 10, .heads = 2, .groups = 1, .dim = 24, .first = 8},
    {.n = 3, .out = 10, .heads = 2, .groups = 1, .dim = 24, .first = 1000,
     .window = 7},
    {.n = 2, .out = 10, .heads = 3, .groups = 1, .dim = 7,
     .first = INT32_MAX - 2},
    {.n = 3, .out = 30, .heads = 2, .groups = 2, .dim = 1024, .first = 20},
};

static void list_attention_models(kit_list *list, kit_spec s)
{
    for (uint32_t i = 0; i < kit_n_attention_shapes; i++) {
        const kit_attention_shape *shape = &kit_attention_shapes[i];
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
    static const uint32_t caches[] = {CLV_DTYPE_F32, CLV_DTYPE_F16};
    for (size_t d = 0; d < COUNT(caches); d++) {
        kit_spec s = {.op = CLV_OP_ATTENTION, .dtype = caches[d], .n = 5,
                      .out = 90, .heads = 4, .groups = 2, .dim = 32,
                      .first = 40, .scale = 0.7f};
        add_forms(list, &s);
        s.form = KIT_FORM_BOUND | KIT_FORM_POISON;
        kit_add_spec(list, &s);
        s.form = 0;
        SERIES(list, "tails_rows", &s, n, tails, 1);
        SERIES(list, "tails_dim", &s, dim, every, 1);
        s.first = 0;
        s.n = 2;
        SERIES(list, "tails_cache", &s, out, tails, 1);
        for (size_t i = 0; i < COUNT(attention_specs); i++) {
            s = attention_specs[i];
            s.op = CLV_OP_ATTENTION;
            s.dtype = caches[d];
            s.scale = 0.7f;
            s.form = KIT_FORM_POISON;
            kit_add_spec(list, &s);
        }
        list_attention_models(list, s);
    }
}

static void list_ops(kit_list *list)
{
    list_matmul(list);
    list_rows(list);
    list_convert(list);
    list_elements(list);
    list_norms(list);
    list_rope(list);
    list_attention(list);
    kit_list_limits(list);
    kit_list_graphs(list);
    kit_list_random(list);
}

const kit_group kit_group_ops = {"ops", "Ops: results equal the reference's",
                                 list_ops};
