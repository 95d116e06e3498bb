#include "judge.h"
#include "../work/fit.h"
#include "../work/element.h"
#include "forecast.h"
#include "reference.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Answers                                                                   */

/* The node whose rows have to be of a listed shape: the one symbol's range, or
 * the fixed rows of the widest operand. */
static int64_t sequence_length(const kit_graph *g, uint32_t node)
{
    const clv_node *n = &g->nodes[node];
    uint32_t t = n->n_outputs ? n->outputs[0] : n->inputs[1];
    const clv_tensor_desc *d = &g->descs[t];
    if (d->symbols[0] &&
        g->ranges[d->symbols[0] - 1].min != g->ranges[d->symbols[0] - 1].max)
        return -1;
    return kit_rows(g, t);
}

static bool is_listed(const clv_op_caps *caps, int64_t rows)
{
    for (uint32_t i = 0; i < caps->n_static; i++)
        if (caps->static_shapes[i] == rows)
            return true;
    return false;
}

/* Whether the output lies on input i, as a tensor or in memory. */
static bool is_over(const kit_graph *g, const clv_node *node, uint32_t i)
{
    const kit_tensor *in, *out;
    if (!node->n_outputs || node->inputs[i] == CLV_NO_TENSOR)
        return false;
    in = &g->tensors[node->inputs[i]];
    out = &g->tensors[node->outputs[0]];
    return in->base == out->base && in->offset == out->offset;
}

static kit_judged read_answer(kit_graph *g, uint32_t i, kit_judgement *out)
{
    const clv_op_caps *caps = &out->caps[i];
    const char *op = clv_op_name(g->nodes[i].op);
    switch (caps->answer) {
    case CLV_ANSWER_NO:
        snprintf(out->reason, sizeof out->reason, "%s", caps->reason);
        return KIT_REFUSED;
    case CLV_ANSWER_STATIC:
        if (is_listed(caps, sequence_length(g, i)))
            break;
        snprintf(out->reason, sizeof out->reason,
                 "%s: %lld rows are not a listed shape", op,
                 (long long)sequence_length(g, i));
        return KIT_REFUSED;
    }
    for (uint32_t j = 0; j < g->nodes[i].n_inputs; j++)
        if (is_over(g, &g->nodes[i], j) && !(caps->alias_inputs >> j & 1)) {
            snprintf(out->reason, sizeof out->reason,
                     "%s: the output may not lie on input %u", op, j);
            return KIT_BEYOND;
        }
    return KIT_RIGHT;
}

static kit_judged ask(kit_graph *g, kit_judgement *out)
{
    kit_judged worst = KIT_RIGHT;
    kit_caps(g, out->caps);
    for (uint32_t i = 0; i < g->n_nodes && worst != KIT_REFUSED; i++) {
        char reason[KIT_TEXT_SIZE];
        snprintf(reason, sizeof reason, "%s", out->reason);
        kit_judged judged = read_answer(g, i, out);
        if (judged == KIT_RIGHT || (judged == KIT_BEYOND && worst))
            snprintf(out->reason, sizeof out->reason, "%s", reason);
        else
            worst = judged;
    }
    return worst;
}

/* What is not taken must not compile, and say why. */
static void check_refusal(kit_graph *g, const kit_judgement *judgement)
{
    kit_program p;
    clv_subgraph view;
    clv_plugin_program *handle = NULL;
    kit_program_make(g, 0, true, &p);
    view = kit_subgraph(g);
    clv_compile compile = kit_program_compile_info(&p, &view);
    const kit_plugin *plugin = kit_under_test(g->k);
    kit_expect(
        g->k, plugin->api.program_compile(plugin->dev, &compile, &handle),
        CLV_ERR_UNSUPPORTED, "program_compile of what op_caps refuses (%s)",
        judgement->reason);
    KIT_CHECK(g->k, !handle, "program_compile failed and gave a program");
    kit_program_free(&p);
}

/* ------------------------------------------------------------------------ */
/* Results                                                                   */

static uint32_t written_tensor(const clv_node *node)
{
    return node->n_outputs ? node->outputs[0] : node->inputs[0];
}

/* "matmul: f32 [3, 64], q8_0 [17, 64]" */
static void describe(const kit_graph *g, char *text, size_t size)
{
    const clv_node *n = &g->nodes[0];
    int at = snprintf(text, size, "%s:", clv_op_name(n->op));
    for (uint32_t i = 0; i < n->n_inputs && at < (int)size; i++) {
        uint32_t t = n->inputs[i];
        if (t != CLV_NO_TENSOR)
            at += snprintf(text + at, size - (size_t)at, "%s %s [%lld, %lld]",
                           i ? "," : "", kit_dtype_name(g->descs[t].dtype),
                           (long long)kit_rows(g, t),
                           (long long)kit_columns(g, t));
    }
}

/* Whether byte i of the base's memory is one of the tensor's. */
static bool is_inside(const kit_tensor *t, uint64_t i)
{
    if (i < t->offset || i >= t->offset + t->size)
        return false;
    return (int64_t)(i - t->offset) % t->stride < t->row;
}

/* What lies around a view that was written is as it was. */
static void check_around(kit_graph *g, const kit_graph *before, uint32_t t)
{
    const kit_tensor *view = &g->tensors[t], *base = &g->tensors[view->base];
    for (uint64_t i = 0; i < base->size && view->base != t; i++)
        if (base->data[i] != before->tensors[view->base].data[i] &&
            !is_inside(view, i))
            kit_fail(g->k,
                     "byte %llu was written, which is not of the view at %llu "
                     "with rows of %lld bytes, %lld apart",
                     (unsigned long long)i, (unsigned long long)view->offset,
                     (long long)view->row, (long long)view->stride);
}

static void run_one(kit_graph *g, uint32_t flags, const kit_judgement *out)
{
    char what[200];
    kit_graph before;
    const uint32_t t = written_tensor(&g->nodes[0]);
    kit_values want = kit_reference(g, 0);
    kit_graph_copy(g, &before);
    describe(g, what, sizeof what);
    kit_run(g, flags);
    kit_compare(g, t, &want, out->caps[0].error_class, "%s", what);
    check_around(g, &before, t);
    kit_graph_free(&before);
    kit_values_free(&want);
}

static void run_several(kit_graph *g, uint32_t flags, const kit_judgement *out)
{
    kit_forecast expected;
    kit_forecast_make(g, out->caps, &expected);
    kit_run(g, flags);
    kit_forecast_check(g, &expected);
    kit_forecast_free(&expected);
}

static kit_judged judge_answer(kit_graph *g, kit_judgement *out)
{
    *out = (kit_judgement){.verdict = KIT_RIGHT};
    out->verdict = ask(g, out);
    if (out->verdict == KIT_REFUSED)
        check_refusal(g, out);
    return out->verdict;
}

kit_judged kit_judge(kit_graph *g, uint32_t flags, kit_judgement *out)
{
    if (judge_answer(g, out) != KIT_RIGHT)
        return out->verdict;
    if (g->n_nodes == 1)
        run_one(g, flags, out);
    else
        run_several(g, flags, out);
    return KIT_RIGHT;
}

/* ------------------------------------------------------------------------ */
/* Specs                                                                     */

static uint32_t run_flags(const kit_spec *spec)
{
    return (spec->form & KIT_FORM_IMPORT ? KIT_RUN_IMPORT : 0) |
           (spec->form & KIT_FORM_OFFSET ? KIT_RUN_OFFSET : 0) | KIT_RUN_TWICE;
}

static void build_way(kit *k, const kit_spec *spec, uint32_t variant,
                      bool empty, kit_graph *g)
{
    kit_graph_init(k, g);
    g->empty = empty;
    kit_spec_build(spec, g);
    g->nodes[0].variant = variant;
}

/* Random contents take long to make: what is refused has none. */
static kit_judged judge_way(kit *k, const kit_spec *spec, uint32_t variant,
                            kit_judgement *out)
{
    kit_graph g;
    build_way(k, spec, variant, true, &g);
    kit_judged judged = judge_answer(&g, out);
    kit_graph_free(&g);
    if (judged != KIT_RIGHT)
        return judged;
    build_way(k, spec, variant, false, &g);
    judged = kit_judge(&g, run_flags(spec), out);
    kit_graph_free(&g);
    return judged;
}

/* An id that none of them has. */
static uint32_t unlisted(const clv_op_caps *caps)
{
    uint32_t id = 1;
    for (uint32_t i = 0; i < caps->n_variants; i++)
        id = caps->variants[i].id >= id ? caps->variants[i].id + 1 : id;
    return id;
}

/* Each variant that is listed is taken, says so of itself, and is right within
 * its own error class; another one is refused. */
static void judge_variants(kit *k, const kit_spec *spec,
                           const clv_op_caps *plain)
{
    for (uint32_t i = 0; i < plain->n_variants; i++) {
        const clv_variant *v = &plain->variants[i];
        kit_judgement own;
        KIT_CHECK(k, judge_way(k, spec, v->id, &own) == KIT_RIGHT,
                  "variant '%s' is listed and not taken: %s", v->name,
                  own.reason);
        KIT_CHECK(k, own.caps[0].error_class == v->error_class,
                  "variant '%s' is listed with error class %u and answered "
                  "for with %u",
                  v->name, v->error_class, own.caps[0].error_class);
        KIT_CHECK(k,
                  own.caps[0].n_variants == plain->n_variants &&
                      !memcmp(own.caps[0].variants, plain->variants,
                              sizeof plain->variants),
                  "asked about variant '%s' it lists others", v->name);
    }
    kit_judgement other;
    if (plain->n_variants)
        KIT_CHECK(k, judge_way(k, spec, unlisted(plain), &other) == KIT_REFUSED,
                  "variant %u is taken, which is not listed", unlisted(plain));
}

static kit_judged judge_once(kit *k, const kit_spec *spec, kit_judgement *out)
{
    const kit_judged judged = judge_way(k, spec, 0, out);
    if (judged == KIT_RIGHT)
        judge_variants(k, spec, &out->caps[0]);
    return judged;
}

/* Rows and views go where the device says they may. */
static void align(kit *k, kit_spec *spec)
{
    clv_op_caps caps;
    kit_spec dense = *spec;
    if (!spec->pad && !(spec->form & KIT_FORM_VIEW))
        return;
    dense.pad = 0;
    dense.form &= ~(uint32_t)KIT_FORM_VIEW;
    kit_spec_caps(k, &dense, &caps);
    spec->align = caps.pointer_align > caps.stride_align ? caps.pointer_align
                                                         : caps.stride_align;
}

kit_judged kit_judge_spec(kit *k, const kit_spec *spec, kit_judgement *out)
{
    kit_spec other = *spec;
    align(k, &other);
    kit_judged judged = judge_once(k, &other, out);
    if (judged == KIT_REFUSED && kit_fit_spec(k, &other, NULL)) {
        align(k, &other); /* a refusal need not state any */
        judged = judge_once(k, &other, out);
    } else if (judged == KIT_BEYOND &&
               (spec->pad || spec->form & KIT_FORM_VIEW)) {
        other.pad = 0;
        other.form &= ~(uint32_t)KIT_FORM_VIEW;
        judged = judge_once(k, &other, out);
    }
    return judged;
}

void kit_judge_case(kit *k, const kit_spec *spec)
{
    kit_judgement judgement;
    if (kit_judge_spec(k, spec, &judgement) != KIT_RIGHT)
        kit_skip(k, "%s", judgement.reason);
}
