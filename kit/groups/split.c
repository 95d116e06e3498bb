/*
 * A cut never changes the answer: along every axis that a device declares, the
 * op is divided at the declared granularity in two to four parts, even, uneven
 * and as small as may be, and the parts' results, put side by side or summed,
 * must be the whole's.
 */
#include "split.h"
#include "../work/element.h"
#include "../reference/reference.h"
#include "../work/fit.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define MAX_PARTS 4

static const char *const axis_names[] = {"rows", "sequence", "channels",
                                         "heads", "experts"};

/* Another tensor like t, with the same content. */
static uint32_t twin(split *s, uint32_t t)
{
    kit_graph *g = &s->g;
    const clv_tensor_desc d = g->descs[t];
    uint32_t other =
        kit_add_tensor(g, d.dtype, d.usage, d.dims[0], d.dims[1], 0);
    memcpy(g->tensors[other].data, g->tensors[t].data, g->tensors[t].size);
    return other;
}

/* ------------------------------------------------------------------------ */
/* A division                                                                */

/* Whether parts are added up: of experts also where they lie side by side, as
 * each is 0 where others are not. */
static bool is_summed(const split *s)
{
    return s->axis == CHANNELS || s->axis == EXPERTS;
}

/* Partial sums end in the first part's tensor. */
static void sum_parts(split *s, const uint32_t *to, uint32_t parts)
{
    const int64_t rows = kit_rows(&s->g, to[0]);
    const int64_t columns = kit_columns(&s->g, to[0]);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (uint32_t p = 0; p < parts; p++)
                sum += kit_get(&s->g, to[p], i, j);
            kit_set(&s->g, to[0], i, j, sum);
        }
}

static void check_taken(split *s)
{
    clv_op_caps caps[KIT_MAX_NODES];
    kit_caps(&s->g, caps);
    for (uint32_t i = 1; i < s->g.n_nodes; i++)
        if (caps[i].answer != CLV_ANSWER_YES)
            kit_fail(s->k,
                     "%s may be split along %s by %lld, but part %u of the "
                     "division is refused: %s",
                     clv_op_name(s->spec.op), axis_names[s->axis],
                     (long long)clv_split_granularity(&s->caps, s->axis), i,
                     caps[i].answer ? "only in another form" : caps[i].reason);
}

static void compare(split *s, uint32_t whole, uint32_t parts, kit_values *want)
{
    const bool exact = s->caps.error_class == CLV_ERROR_EXACT;
    uint32_t error_class = s->caps.error_class;
    if (exact && is_summed(s)) /* sums in another order */
        error_class = CLV_ERROR_F32;
    const double bound = kit_error_bound(error_class);
    kit_compare(&s->g, parts, want, error_class, "%s in parts along %s",
                clv_op_name(s->spec.op), axis_names[s->axis]);
    kit_values got = kit_read(&s->g, whole);
    memcpy(want->v, got.v, (size_t)(got.rows * got.columns) * sizeof *want->v);
    kit_values_free(&got);
    /* Both may be off by the class, in the same and in opposite ways. */
    kit_compare_within(&s->g, parts, want, 4 * bound,
                       "%s in parts along %s against the whole",
                       clv_op_name(s->spec.op), axis_names[s->axis]);
}

/* sizes: of the parts along the axis. False where alignment forbids it. */
static bool divide(split *s, const int64_t *sizes, uint32_t parts)
{
    kit_graph_init(s->k, &s->g);
    s->misaligned = false;
    const clv_node *node = kit_spec_build(&s->spec, &s->g);
    const uint32_t whole = node->n_outputs ? node->outputs[0] : node->inputs[0];
    uint32_t to[MAX_PARTS];
    s->begin = 0;
    for (uint32_t i = 0; i < parts; i++) {
        s->n = sizes[i];
        to[i] = i && !is_summed(s) ? to[0] : twin(s, whole);
        split_add_part(s, to[i]);
        s->begin += s->n;
    }
    if (!s->misaligned) {
        check_taken(s);
        kit_values want = kit_reference(&s->g, 0);
        kit_run(&s->g, 0);
        if (is_summed(s))
            sum_parts(s, to, parts);
        compare(s, whole, to[0], &want);
        kit_values_free(&want);
    }
    kit_graph_free(&s->g);
    return !s->misaligned;
}

/* ------------------------------------------------------------------------ */
/* All divisions                                                             */

static bool is_matmul(const split *s)
{
    return clv_op_class_of(s->spec.op) == CLV_CLASS_MATMUL;
}

static int64_t *extent_of(split *s)
{
    switch (s->axis) {
    case ROWS:
        return is_matmul(s) ? &s->spec.out : &s->spec.in;
    case SEQUENCE:
        return &s->spec.n;
    case CHANNELS:
        return &s->spec.in;
    case EXPERTS:
        return &s->spec.experts;
    }
    return &s->spec.heads;
}

/* Shares of a whole in units of the granularity; 0: what is left. */
static const int64_t divisions[][MAX_PARTS + 1] = {
    {2, 1, 0},    {2, -1, 1},      {2, -2, 0},      {3, 1, 1, 0},
    {3, 2, 0, 1}, {4, 1, 1, 1, 0}, {4, 1, 0, 2, 1}, {4, 1, 2, 1, 0}};

/* Sizes from shares; false where the extent has too few units for them. */
static bool sizes_of(const int64_t *division, int64_t extent, int64_t unit,
                     int64_t sizes[MAX_PARTS])
{
    int64_t left = extent, rest = -1;
    const int64_t units = extent / unit;
    for (int64_t i = 0; i < division[0]; i++) {
        int64_t share = division[i + 1];
        if (share == -1) /* all but one */
            share = units - 1;
        if (share == -2)
            share = units / 2;
        if (!share)
            rest = i;
        sizes[i] = share * unit;
        left -= sizes[i];
    }
    /* The last unit may be short: only the last part may hold it. */
    if (rest < 0) {
        sizes[division[0] - 1] += left;
        left = 0;
    } else if (rest < division[0] - 1) {
        int64_t tail = extent % unit;
        sizes[rest] = left - tail;
        sizes[division[0] - 1] += tail;
    } else {
        sizes[rest] = left;
    }
    for (int64_t i = 0; i < division[0]; i++)
        if (sizes[i] <= 0)
            return false;
    return true;
}

/* The smallest part: at the granularity, and inside the limits of the axis. */
static int64_t unit_of(const split *s)
{
    const int64_t granularity = clv_split_granularity(&s->caps, s->axis);
    clv_axis_limit limit = {0};
    if (s->axis == SEQUENCE)
        limit = s->caps.sequence;
    else if (s->axis != HEADS && s->axis != EXPERTS)
        limit =
            s->axis == ROWS && is_matmul(s) ? s->caps.rows : s->caps.channels;
    limit.max = 0;
    return kit_inside(&limit, granularity > 0 ? granularity : 1, 1);
}

/* Whether an operand of the op has the axis. */
static bool is_legal(const split *s, uint32_t axis)
{
    const clv_op_info *info = clv_op_find(s->spec.op);
    for (uint32_t i = 0; i < info->n_inputs; i++)
        if (info->inputs[i].first == axis || info->inputs[i].last == axis)
            return true;
    return false;
}

/* Room for four parts, the last of them short where it may be. */
static void stretch(split *s, int64_t unit)
{
    int64_t *extent = extent_of(s);
    if (*extent / unit >= 5)
        return;
    *extent = 5 * unit;
    if (s->axis == HEADS && clv_op_class_of(s->spec.op) == CLV_CLASS_ATTENTION)
        s->spec.groups = 5 * unit / (s->spec.heads / s->spec.groups);
}

static void run_axis(split *s)
{
    int64_t sizes[MAX_PARTS];
    const int64_t unit = unit_of(s);
    uint32_t done = 0, tried = 0;
    const uint32_t most = s->caps.split_max_parts;
    for (size_t i = 0; i < COUNT(divisions); i++) {
        if ((most && divisions[i][0] > most) ||
            !sizes_of(divisions[i], *extent_of(s), unit, sizes))
            continue;
        tried++;
        done += divide(s, sizes, (uint32_t)divisions[i][0]);
    }
    if (done)
        kit_note(s->k, "%u divisions by %lld", done, (long long)unit);
    else if (tried)
        kit_skip(s->k, "parts by %lld are not at the stated alignment",
                 (long long)unit);
    else
        kit_skip(s->k, "at most %u parts", most);
}

typedef struct split_case {
    const kit_spec *spec;
    uint32_t axis;
} split_case;

static void run_split(kit *k, const void *arg)
{
    const split_case *c = arg;
    split s = {.k = k, .spec = *c->spec, .axis = c->axis};
    bool is_static;
    kit_fit_spec(k, &s.spec, &is_static);
    kit_spec_caps(k, &s.spec, &s.caps);
    if (s.caps.answer != CLV_ANSWER_YES) {
        kit_skip(k, "%s",
                 s.caps.answer ? "only in other forms" : s.caps.reason);
        return;
    }
    if (!(s.caps.split_axes >> s.axis & 1)) {
        kit_skip(k, "is not split along %s", axis_names[s.axis]);
        return;
    }
    KIT_CHECK(k, is_legal(&s, s.axis), "%s has no axis %s to split along",
              clv_op_name(s.spec.op), axis_names[s.axis]);
    KIT_CHECK(k, clv_split_granularity(&s.caps, s.axis) >= 0,
              "the granularity along %s is %lld", axis_names[s.axis],
              (long long)clv_split_granularity(&s.caps, s.axis));
    if (is_static && s.axis == SEQUENCE) {
        kit_skip(k, "parts of the sequence would not be listed shapes");
        return;
    }
    stretch(&s, unit_of(&s));
    kit_spec_caps(k, &s.spec, &s.caps);
    if (s.caps.answer == CLV_ANSWER_YES)
        run_axis(&s);
    else
        kit_skip(k, "no room for several parts: %s", s.caps.reason);
}

/* ------------------------------------------------------------------------ */
/* Cases                                                                     */

static const kit_spec specs[] = {
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_F32, .n = 7, .in = 160, .out = 47},
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_F16, .n = 7, .in = 160, .out = 47},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_BF16,
     .n = 7,
     .in = 160,
     .out = 47},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_Q8_0,
     .n = 7,
     .in = 160,
     .out = 47},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_Q4_0,
     .n = 7,
     .in = 160,
     .out = 47},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .n = 37,
     .in = 71,
     .out = 65,
     .form = KIT_FORM_BIAS},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_Q8_0,
     .n = 37,
     .in = 320,
     .out = 65,
     .form = KIT_FORM_BIAS},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_Q4_0,
     .n = 1,
     .in = 320,
     .out = 65,
     .form = KIT_FORM_BIAS},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_I8,
     .n = 7,
     .in = 160,
     .out = 48,
     .quant = CLV_QUANT_PER_TENSOR},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_I8,
     .n = 7,
     .in = 160,
     .out = 48,
     .quant = CLV_QUANT_PER_CHANNEL},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_I4,
     .n = 7,
     .in = 160,
     .out = 48,
     .quant = CLV_QUANT_PER_CHANNEL},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_I4,
     .n = 7,
     .in = 160,
     .out = 48,
     .quant = CLV_QUANT_PER_GROUP,
     .group = 32},
    {.op = CLV_OP_GET_ROWS, .dtype = CLV_DTYPE_F32, .n = 9, .in = 77, .out = 6},
    {.op = CLV_OP_GET_ROWS,
     .dtype = CLV_DTYPE_Q8_0,
     .n = 9,
     .in = 160,
     .out = 6},
    {.op = CLV_OP_GET_ROWS,
     .dtype = CLV_DTYPE_Q4_0,
     .n = 9,
     .in = 160,
     .out = 6},
    {.op = CLV_OP_SET_ROWS,
     .dtype = CLV_DTYPE_F32,
     .n = 9,
     .in = 77,
     .out = 12},
    {.op = CLV_OP_SET_ROWS,
     .dtype = CLV_DTYPE_F16,
     .n = 9,
     .in = 77,
     .out = 12},
    {.op = CLV_OP_SET_ROWS,
     .dtype = CLV_DTYPE_Q8_0,
     .n = 9,
     .in = 160,
     .out = 12},
    {.op = CLV_OP_ADD,
     .dtype = CLV_DTYPE_F32,
     .n = 7,
     .in = 77,
     .form = KIT_FORM_VECTOR},
    {.op = CLV_OP_ROPE,
     .dtype = CLV_DTYPE_F32,
     .n = 7,
     .heads = 6,
     .dim = 24,
     .pairs = 8},
    {.op = CLV_OP_ROPE,
     .dtype = CLV_DTYPE_F32,
     .n = 7,
     .heads = 6,
     .dim = 32,
     .variant = CLV_ROPE_PAIRS},
    {.op = CLV_OP_HEAD_NORM,
     .dtype = CLV_DTYPE_F32,
     .n = 7,
     .heads = 6,
     .dim = 24},
    {.op = CLV_OP_ATTENTION,
     .dtype = CLV_DTYPE_F32,
     .n = 7,
     .out = 40,
     .heads = 10,
     .groups = 5,
     .dim = 16,
     .first = 20},
    {.op = CLV_OP_ATTENTION,
     .dtype = CLV_DTYPE_F16,
     .n = 37,
     .out = 80,
     .heads = 5,
     .groups = 5,
     .dim = 24,
     .first = 30,
     .window = 40,
     .softcap = 20},
    {.op = CLV_OP_ATTENTION,
     .dtype = CLV_DTYPE_F16,
     .n = 6,
     .out = 80,
     .heads = 15,
     .groups = 5,
     .dim = 64,
     .first = 30},
    {.op = CLV_OP_ATTENTION,
     .dtype = CLV_DTYPE_F16,
     .form = KIT_FORM_APART,
     .n = 6,
     .out = 90,
     .heads = 15,
     .groups = 5,
     .dim = 64,
     .first = 9},
    {.op = CLV_OP_CONVERT,
     .dtype = CLV_DTYPE_F32,
     .to = CLV_DTYPE_F16,
     .n = 7,
     .in = 77},
    {.op = CLV_OP_CONVERT,
     .dtype = CLV_DTYPE_F32,
     .to = CLV_DTYPE_Q8_0,
     .n = 7,
     .in = 160},
    {.op = CLV_OP_CONVERT,
     .dtype = CLV_DTYPE_Q4_0,
     .to = CLV_DTYPE_F32,
     .n = 7,
     .in = 160},
    {.op = CLV_OP_TOP_K, .dtype = CLV_DTYPE_F32, .n = 7, .in = 60, .out = 4},
    {.op = CLV_OP_NONZERO, .dtype = CLV_DTYPE_F32, .n = 7, .in = 60, .out = 9},
    {.op = CLV_OP_MATMUL_EXPERTS,
     .dtype = CLV_DTYPE_F16,
     .n = 9,
     .in = 64,
     .out = 40,
     .experts = 5,
     .used = 2},
    {.op = CLV_OP_MATMUL_EXPERTS,
     .dtype = CLV_DTYPE_Q8_0,
     .n = 9,
     .in = 160,
     .out = 40,
     .experts = 5,
     .used = 3,
     .form = KIT_FORM_EACH | KIT_FORM_SCORES,
     .variant = 1},
    {.op = CLV_OP_MATMUL_EXPERTS,
     .dtype = CLV_DTYPE_F16,
     .n = 9,
     .in = 1,
     .out = 40,
     .experts = 50,
     .used = 6,
     .form = KIT_FORM_SCORES | KIT_FORM_ABSENT},
};

static kit_spec plain[CLV_OP_COUNT]; /* by op */
static split_case cases[COUNT(specs) + COUNT(plain)][N_AXES];

static void list_spec(kit_list *list, const kit_spec *spec, split_case *of)
{
    char name[KIT_NAME_SIZE];
    kit_spec_name(spec, name);
    for (uint32_t axis = 0; axis < N_AXES; axis++) {
        of[axis] = (split_case){spec, axis};
        kit_add(list, KIT_PER_DEVICE, 0, run_split, &of[axis], "%s.%s.%s",
                clv_op_name(spec->op), name, axis_names[axis]);
    }
}

static void list_splits(kit_list *list)
{
    const clv_op_info *info;
    for (uint32_t i = 0; i < COUNT(specs); i++)
        list_spec(list, &specs[i], cases[i]);
    for (uint32_t op = 1; (info = clv_op_find(op)); op++) {
        const bool bias = info->n_inputs > info->n_required;
        if (!kit_is_plain_op(op))
            continue;
        plain[op] = (kit_spec){.op = op,
                               .dtype = CLV_DTYPE_F32,
                               .n = 7,
                               .in = 77,
                               .form = bias ? KIT_FORM_BIAS : 0};
        list_spec(list, &plain[op], cases[COUNT(specs) + op]);
    }
}

const kit_group kit_group_split = {
    "split", "Splits: parts put together equal the whole", list_splits};
