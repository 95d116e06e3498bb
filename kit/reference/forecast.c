#include "forecast.h"
#include "../work/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DISTURBANCES 3
/* A device may be this much further off, in square, than the worst of them. */
#define MARGIN 16

void kit_graph_copy(const kit_graph *from, kit_graph *to)
{
    *to = *from;
    for (uint32_t i = 0; i < from->n_tensors; i++) {
        const kit_tensor *t = &from->tensors[i];
        if (t->base != i)
            continue;
        to->tensors[i].data = malloc(t->size ? t->size : 1);
        if (!to->tensors[i].data)
            kit_fail(from->k, "no memory for a copy of %llu bytes",
                     (unsigned long long)t->size);
        memcpy(to->tensors[i].data, t->data, t->size);
    }
    for (uint32_t i = 0; i < from->n_tensors; i++) {
        const kit_tensor *t = &from->tensors[i];
        if (t->base != i)
            to->tensors[i].data = to->tensors[t->base].data +
                                  (t->data - from->tensors[t->base].data);
    }
}

static uint32_t written_tensor(const clv_node *node)
{
    return node->n_outputs ? node->outputs[0] : node->inputs[0];
}

static double root_mean_square(const kit_values *values)
{
    double sum = 0;
    int64_t n = values->rows * values->columns;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values->v[i]))
            sum += values->square ? values->square[i]
                                  : values->v[i] * values->v[i];
    return n ? sqrt(sum / (double)n) : 0;
}

/* Runs the reference over all nodes, each result off by noise of that class
 * where caps are given. */
static void evaluate(kit_graph *g, const clv_op_caps *caps)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        kit_values result = kit_reference(g, i);
        uint32_t t = written_tensor(&g->nodes[i]);
        double noise = 0;
        if (caps) /* uniform noise of that variance */
            noise = sqrt(3 * kit_error_bound(caps[i].error_class)) *
                    root_mean_square(&result);
        for (int64_t j = 0; j < result.rows * result.columns; j++) {
            bool exact = result.slack && result.slack[j] < 0;
            double x = exact ? 0 : noise * kit_random_real(g->k);
            kit_set(g, t, j / result.columns, j % result.columns,
                    result.v[j] + x);
        }
        kit_values_free(&result);
    }
}

/* Whether somebody outside sees what a node writes to tensor t: its memory
 * belongs to an output or a state. */
static bool is_seen(const kit_graph *g, uint32_t t)
{
    uint32_t usage = g->descs[t].usage;
    if (g->tensors[t].base != t ||
        (usage != CLV_USAGE_OUTPUT && usage != CLV_USAGE_STATE))
        return false;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->tensors[written_tensor(&g->nodes[i])].base == t)
            return true;
    return false;
}

static double difference(const kit_values *want, const kit_values *got)
{
    double error = 0, square = 0;
    for (int64_t i = 0; i < want->rows * want->columns; i++) {
        if (!isfinite(want->v[i]))
            continue;
        error += (want->v[i] - got->v[i]) * (want->v[i] - got->v[i]);
        square += want->v[i] * want->v[i];
    }
    return square > 0 ? error / square : error;
}

void kit_forecast_make(kit_graph *g, const clv_op_caps *caps, kit_forecast *out)
{
    kit_graph exact;
    *out = (kit_forecast){0};
    kit_graph_copy(g, &exact);
    evaluate(&exact, NULL);
    for (uint32_t t = 0; t < g->n_tensors; t++)
        if (is_seen(g, t))
            out->want[t] = kit_read(&exact, t);
    kit_graph_free(&exact);
    for (int i = 0; i < DISTURBANCES; i++) {
        kit_graph disturbed;
        kit_graph_copy(g, &disturbed);
        evaluate(&disturbed, caps);
        for (uint32_t t = 0; t < g->n_tensors; t++) {
            if (!out->want[t].v)
                continue;
            kit_values got = kit_read(&disturbed, t);
            double off = MARGIN * difference(&out->want[t], &got);
            out->bound[t] = off > out->bound[t] ? off : out->bound[t];
            kit_values_free(&got);
        }
        kit_graph_free(&disturbed);
    }
}

void kit_forecast_check(kit_graph *g, const kit_forecast *forecast)
{
    for (uint32_t t = 0; t < g->n_tensors; t++)
        if (forecast->want[t].v)
            kit_compare_within(
                g, t, &forecast->want[t], forecast->bound[t] + 1e-13,
                "tensor %u of a graph of %u nodes", t, g->n_nodes);
}

void kit_forecast_free(kit_forecast *forecast)
{
    for (uint32_t t = 0; t < KIT_MAX_TENSORS; t++)
        kit_values_free(&forecast->want[t]);
}
