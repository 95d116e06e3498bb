/* Graphs that several tests use. */
#pragma once

#include "harness.h"

/* Fails the test with the plugin's message. */
void must_run(plugin *on, graph *g);

/* x [4, 64] times a Q8_0 weight [8, 64]: tensors 0, 1 and 2. */
void matmul_graph(graph *g);

/* A piece of a transformer: norm, two products of the same x, rotation, cache,
 * attention, product, sum. Tensor 11 is the result. */
void layer(graph *g, uint32_t weights, int64_t n);
