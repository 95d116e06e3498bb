/*
 * What a device states as its limits: at every bound it must run and be right;
 * one past it may refuse, or be right all the same.
 */
#include "../work/element.h"
#include "../work/fit.h"
#include "ops.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
/* Larger shapes are left to --thorough. */
#define LARGE ((int64_t)1 << 20)

/* ------------------------------------------------------------------------ */
/* Axes                                                                      */

typedef struct axis {
    const char *name;
    size_t field; /* of an int64_t in kit_spec */
    clv_axis_limit limit;
    int64_t unit; /* of what is stored */
    int64_t step; /* values are multiples of it */
} axis;

static int64_t *field_of(kit_spec *spec, const axis *a)
{
    return (int64_t *)(void *)((char *)spec + a->field);
}

static axis make_axis(const char *name, size_t field, clv_axis_limit limit,
                      int64_t unit)
{
    axis a = {name, field, limit, unit, 0};
    clv_axis_limit none = {.multiple = limit.multiple};
    a.step = kit_inside(&none, unit, 1);
    return a;
}

static bool is_stated(const axis *a)
{
    return a->limit.min > 1 || a->limit.max > 0 || a->limit.multiple > 1;
}

/* The axes of the spec's op that limits speak of. */
static uint32_t axes_of(const kit_spec *spec, const clv_op_caps *caps,
                        axis out[3])
{
    const int64_t unit = kit_spec_unit(spec);
    const uint32_t op_class = clv_op_class_of(spec->op);
    const bool rope = op_class == CLV_CLASS_ROPE;
    const bool heads = kit_op_has_heads(spec->op);
    uint32_t n = 0;
    if (caps->answer != CLV_ANSWER_STATIC)
        out[n++] =
            make_axis("sequence", offsetof(kit_spec, n), caps->sequence, 1);
    if (op_class == CLV_CLASS_MATMUL) {
        out[n++] = make_axis("rows", offsetof(kit_spec, out), caps->rows, 1);
        out[n++] =
            make_axis("channels", offsetof(kit_spec, in), caps->channels, unit);
    } else {
        out[n++] =
            make_axis("channels",
                      heads ? offsetof(kit_spec, dim) : offsetof(kit_spec, in),
                      caps->channels, rope ? 2 : unit);
    }
    return n;
}

static int64_t inside(const axis *a, int64_t value)
{
    return kit_inside(&a->limit, a->unit, value);
}

static int64_t size_of(const kit_spec *spec)
{
    int64_t c = kit_spec_width(spec), x = spec->n * c, w = spec->out * c;
    return x > w ? x : w;
}

/* Judges the spec as it is, not fitted to the device. */
static kit_judged judge(kit *k, const kit_spec *spec, kit_judgement *judgement)
{
    kit_graph g;
    kit_graph_init(k, &g);
    kit_spec_build(spec, &g);
    kit_judged judged = kit_judge(&g, KIT_RUN_TWICE, judgement);
    kit_graph_free(&g);
    return judged;
}

static void at_bound(kit *k, kit_spec spec, const axis *a, int64_t value)
{
    kit_judgement judgement;
    *field_of(&spec, a) = value;
    if (size_of(&spec) > LARGE && !kit_thorough(k))
        return;
    if (judge(k, &spec, &judgement) != KIT_RIGHT)
        kit_fail(k,
                 "%lld on axis %s is inside the limits stated (%lld to %lld, "
                 "by %lld), the answer is no: %s",
                 (long long)value, a->name, (long long)a->limit.min,
                 (long long)a->limit.max, (long long)a->limit.multiple,
                 judgement.reason);
}

static void past_bound(kit *k, kit_spec spec, const axis *a, int64_t value)
{
    kit_judgement judgement;
    *field_of(&spec, a) = value;
    if (value > 0 && (size_of(&spec) <= LARGE || kit_thorough(k)))
        judge(k, &spec, &judgement);
}

static void try_axis(kit *k, const kit_spec *spec, const axis *a)
{
    const int64_t unit = a->unit;
    const clv_axis_limit *limit = &a->limit;
    int64_t least = inside(a, 1);
    at_bound(k, *spec, a, least);
    at_bound(k, *spec, a, inside(a, least + 1));
    past_bound(k, *spec, a, least - a->step);
    if (limit->multiple > unit) {
        at_bound(k, *spec, a, inside(a, 3 * a->step));
        past_bound(k, *spec, a, least + unit);
        past_bound(k, *spec, a, least + a->step - unit);
    }
    if (limit->max > 0) {
        at_bound(k, *spec, a, limit->max / a->step * a->step);
        past_bound(k, *spec, a, limit->max / unit * unit + unit);
    }
}

static void run_limits(kit *k, const void *arg)
{
    kit_spec spec;
    clv_op_caps caps;
    axis axes[3];
    uint32_t stated = 0;
    KIT_CHECK(k, arg, "the kit has more specs than it keeps");
    memcpy(&spec, arg, sizeof spec);
    kit_spec_caps(k, &spec, &caps);
    uint32_t n = axes_of(&spec, &caps, axes);
    for (uint32_t i = 0; i < n; i++)
        *field_of(&spec, &axes[i]) =
            inside(&axes[i], *field_of(&spec, &axes[i]));
    if (caps.answer == CLV_ANSWER_NO && spec.n == ((const kit_spec *)arg)->n &&
        spec.in == ((const kit_spec *)arg)->in &&
        spec.out == ((const kit_spec *)arg)->out &&
        spec.dim == ((const kit_spec *)arg)->dim) {
        kit_skip(k, "%s", caps.reason);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (is_stated(&axes[i]))
            try_axis(k, &spec, &axes[i]);
        stated += is_stated(&axes[i]);
    }
    if (!stated)
        kit_skip(k, "no limits stated");
}

/* ------------------------------------------------------------------------ */
/* Static shapes                                                             */

static void run_static(kit *k, const void *arg)
{
    kit_spec spec;
    clv_op_caps caps;
    kit_judgement judgement;
    KIT_CHECK(k, arg, "the kit has more specs than it keeps");
    memcpy(&spec, arg, sizeof spec);
    spec.form |= KIT_FORM_SYMBOL; /* a range, as a planner asks */
    spec.value = spec.n;
    kit_spec_caps(k, &spec, &caps);
    if (caps.answer != CLV_ANSWER_STATIC) {
        kit_skip(k, "no static shapes");
        return;
    }
    spec.form &= ~(uint32_t)KIT_FORM_SYMBOL;
    for (uint32_t i = 0; i < caps.n_static; i++) {
        spec.n = caps.static_shapes[i];
        KIT_CHECK(k, spec.n > 0, "static shape %u is %lld rows", i,
                  (long long)spec.n);
        if (size_of(&spec) > LARGE && !kit_thorough(k))
            continue;
        if (judge(k, &spec, &judgement) != KIT_RIGHT)
            kit_fail(k, "%lld rows are a static shape, the answer is no: %s",
                     (long long)spec.n, judgement.reason);
        for (int off = -1; off <= 1; off += 2) {
            kit_spec other = spec;
            other.n += off;
            if (other.n > 0)
                judge(k, &other, &judgement);
        }
    }
    kit_note(k, "%u shapes", caps.n_static);
}

/* ------------------------------------------------------------------------ */
/* Alignment                                                                 */

/* All tensors that much behind where they ought to be: a refusal that says why,
 * or the right result. */
static void run_misaligned(kit *k, kit_graph *g, uint64_t delta)
{
    kit_program p;
    clv_subgraph view;
    const kit_plugin *s = kit_under_test(k);
    kit_program_make(g, 0, true, &p);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        p.leads[i] += delta;
    for (uint32_t i = 0; i < p.n_weights; i++)
        p.weights[i].offset += delta;
    for (uint32_t i = 0; i < p.n_bindings; i++)
        p.bindings[i].offset += delta;
    kit_program_upload(&p);
    view = kit_subgraph(g);
    clv_compile compile = kit_program_compile_info(&p, &view);
    clv_plugin_timeline *tl = NULL;
    KIT_OK(k, s->api.timeline_create(s->dev, 0, &tl), "timeline_create");
    clv_status status = s->api.program_compile(s->dev, &compile, &p.handle);
    if (!status) {
        clv_command command = kit_program_command(&p);
        status = kit_submit(k, &command, 1, NULL, 0, tl, 1);
        if (!status)
            status = kit_wait(k, tl, 1);
    }
    if (status)
        kit_expect(k, status, CLV_ERR_INVALID,
                   "tensors %d bytes off their alignment", (int)delta);
    else
        kit_program_download(&p);
    s->api.timeline_destroy(tl);
    kit_program_free(&p);
}

static void run_alignment(kit *k, const void *arg)
{
    const kit_spec *spec = arg;
    kit_judgement judgement;
    kit_graph g;
    clv_op_caps caps;
    KIT_CHECK(k, arg, "the kit has more specs than it keeps");
    kit_spec_caps(k, spec, &caps);
    if (caps.answer != CLV_ANSWER_YES) {
        kit_skip(k, "%s", caps.answer ? "only in other forms" : caps.reason);
        return;
    }
    uint64_t align = caps.pointer_align ? caps.pointer_align : 4;
    align = align > 128 ? 128 : align;
    for (uint64_t delta = align / 2; delta; delta /= 2) {
        kit_graph_init(k, &g);
        kit_spec_build(spec, &g);
        run_misaligned(k, &g, delta);
        kit_graph_free(&g);
    }
    /* Rows at a stride that is not what was stated. */
    align = caps.stride_align ? caps.stride_align : 4;
    for (uint64_t delta = align / 2; delta; delta /= 2) {
        kit_graph_init(k, &g);
        kit_spec other = *spec;
        other.pad = (int64_t)delta; /* a unit is at least a byte */
        other.align = 4;
        clv_node *node = kit_spec_build(&other, &g);
        uint32_t x = node->inputs[0];
        g.descs[x].strides[0] = g.tensors[x].row + (int64_t)delta;
        g.tensors[x].stride = g.descs[x].strides[0];
        g.tensors[x].size =
            (uint64_t)(g.tensors[x].stride * (g.tensors[x].rows - 1) +
                       g.tensors[x].row);
        kit_judge(&g, 0, &judgement);
        kit_graph_free(&g);
    }
}

/* ------------------------------------------------------------------------ */

static const kit_spec bases[] = {
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_F32, .n = 4, .in = 64, .out = 16},
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_F16, .n = 4, .in = 64, .out = 16},
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_BF16, .n = 4, .in = 64, .out = 16},
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_Q8_0, .n = 4, .in = 64, .out = 16},
    {.op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_Q4_0, .n = 4, .in = 64, .out = 16},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_I8,
     .n = 4,
     .in = 64,
     .out = 16,
     .quant = CLV_QUANT_PER_CHANNEL},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_I4,
     .n = 4,
     .in = 64,
     .out = 16,
     .quant = CLV_QUANT_PER_CHANNEL},
    {.op = CLV_OP_GET_ROWS,
     .dtype = CLV_DTYPE_F32,
     .n = 4,
     .in = 64,
     .out = 16},
    {.op = CLV_OP_SET_ROWS,
     .dtype = CLV_DTYPE_F16,
     .n = 4,
     .in = 64,
     .out = 16},
    {.op = CLV_OP_ROPE, .dtype = CLV_DTYPE_F32, .n = 4, .heads = 2, .dim = 32},
    {.op = CLV_OP_ATTENTION,
     .dtype = CLV_DTYPE_F32,
     .n = 4,
     .out = 16,
     .heads = 2,
     .groups = 1,
     .dim = 32,
     .first = 4},
    {.op = CLV_OP_ATTENTION,
     .dtype = CLV_DTYPE_F16,
     .n = 4,
     .out = 16,
     .heads = 2,
     .groups = 1,
     .dim = 32,
     .first = 4},
    {.op = CLV_OP_CONVERT,
     .dtype = CLV_DTYPE_F32,
     .to = CLV_DTYPE_F16,
     .n = 4,
     .in = 64},
    {.op = CLV_OP_TOP_K, .dtype = CLV_DTYPE_F32, .n = 4, .in = 64, .out = 2},
    {.op = CLV_OP_NONZERO, .dtype = CLV_DTYPE_F32, .n = 4, .in = 64, .out = 2},
    {.op = CLV_OP_MATMUL_EXPERTS,
     .dtype = CLV_DTYPE_Q8_0,
     .n = 4,
     .in = 64,
     .out = 16,
     .experts = 4,
     .used = 2},
};

static void list_base(kit_list *list, const kit_spec *base)
{
    static const struct {
        const char *name;
        void (*run)(kit *k, const void *arg);
    } subjects[] = {{"limits", run_limits},
                    {"static", run_static},
                    {"alignment", run_alignment}};
    for (size_t i = 0; i < COUNT(subjects); i++)
        kit_add(list, KIT_PER_DEVICE, 0, subjects[i].run, base, "%s.%s.%s",
                clv_op_name(base->op), subjects[i].name,
                kit_dtype_name(base->dtype));
}

void kit_list_limits(kit_list *list)
{
    for (uint32_t op = 1; clv_op_find(op); op++) {
        const kit_spec base = {
            .op = op, .dtype = CLV_DTYPE_F32, .n = 4, .in = 64};
        if (kit_is_plain_op(op))
            list_base(list, kit_store_spec(&base));
    }
    for (size_t i = 0; i < COUNT(bases); i++)
        list_base(list, &bases[i]);
}
