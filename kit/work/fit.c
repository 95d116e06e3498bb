#include "fit.h"

#include <stdlib.h>
#include <string.h>

void kit_spec_caps(kit *k, const kit_spec *spec, clv_op_caps *out)
{
    clv_op_caps caps[KIT_MAX_NODES];
    kit_graph g;
    kit_graph_init(k, &g);
    g.empty = true;
    kit_spec_build(spec, &g);
    kit_caps(&g, caps);
    kit_graph_free(&g);
    *out = caps[0];
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a;
    while (x % b)
        x += a;
    return x;
}

int64_t kit_inside(const clv_axis_limit *limit, int64_t unit, int64_t value)
{
    int64_t step =
        common_multiple(unit, limit->multiple > 0 ? limit->multiple : 1);
    if (value < limit->min)
        value = limit->min;
    value = (value + step - 1) / step * step;
    if (limit->max > 0 && value > limit->max)
        value = limit->max / step * step;
    return value > 0 ? value : step;
}

/* The listed length nearest to n; 0: none. */
static int64_t nearest(const clv_op_caps *caps, int64_t n)
{
    int64_t best = 0;
    for (uint32_t i = 0; i < caps->n_static; i++) {
        int64_t listed = caps->static_shapes[i];
        if (listed > 0 && (!best || llabs(listed - n) < llabs(best - n)))
            best = listed;
    }
    return best;
}

static void fit_limits(kit_spec *spec, const clv_op_caps *caps)
{
    const int64_t unit = kit_spec_unit(spec);
    const uint32_t op_class = clv_op_class_of(spec->op);
    if (op_class == CLV_CLASS_MATMUL || op_class == CLV_CLASS_EXPERTS)
        spec->out = kit_inside(&caps->rows, 1, spec->out);
    if (op_class == CLV_CLASS_ROPE)
        spec->dim = kit_inside(&caps->channels, 2, spec->dim);
    else if (kit_op_has_heads(spec->op))
        spec->dim = kit_inside(&caps->channels, unit, spec->dim);
    else
        spec->in = kit_inside(&caps->channels, unit, spec->in);
    if (2 * spec->pairs > spec->dim)
        spec->pairs = 0;
}

bool kit_fit_spec(kit *k, kit_spec *spec, bool *is_static)
{
    const kit_spec old = *spec;
    kit_spec ranged = *spec;
    clv_op_caps caps, range;
    kit_spec_caps(k, spec, &caps);
    if (caps.answer == CLV_ANSWER_NO) {
        fit_limits(spec, &caps);
        spec->n = kit_inside(&caps.sequence, 1, spec->n);
        ranged = *spec;
    }
    ranged.form |= KIT_FORM_SYMBOL;
    ranged.form &= ~(uint32_t)KIT_FORM_VIEW;
    ranged.value = ranged.n;
    kit_spec_caps(k, &ranged, &range);
    const bool listed = range.answer == CLV_ANSWER_STATIC;
    if (is_static)
        *is_static = listed;
    if (listed && caps.answer != CLV_ANSWER_YES && nearest(&range, spec->n)) {
        spec->n = nearest(&range, spec->n);
        spec->form &= ~(uint32_t)KIT_FORM_SYMBOL;
    }
    if (spec->form & KIT_FORM_SYMBOL && spec->value > spec->n)
        spec->value = spec->n;
    return memcmp(&old, spec, sizeof old) != 0;
}
