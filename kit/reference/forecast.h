/*
 * What a graph of several nodes ought to make of its tensors, and how far off
 * it may be: the nodes' results are computed once exactly and a few times with
 * each node's result disturbed by as much as its error class allows; the
 * difference this makes in the end is what a device may make too.
 */
#pragma once

#include "../work/graph.h"
#include "reference.h"

typedef struct kit_forecast {
    kit_values want[KIT_MAX_TENSORS]; /* empty where nothing is expected */
    double bound[KIT_MAX_TENSORS];
} kit_forecast;

/* From the images of the graph as they are now; caps: of its nodes. */
void kit_forecast_make(kit_graph *g, const clv_op_caps *caps,
                       kit_forecast *out);
/* Compares every tensor that is written and seen outside. */
void kit_forecast_check(kit_graph *g, const kit_forecast *forecast);
void kit_forecast_free(kit_forecast *forecast);

/* A graph with images of its own. */
void kit_graph_copy(const kit_graph *from, kit_graph *to);
