/*
 * Cases about the CPU plugin alone, on the library of the conformance kit: what
 * every plugin owes is the kit's to test. Each case runs as the kit's do, in a
 * process that a failure ends.
 */
#pragma once

#include "../../kit/plugin/child.h"
#include "../../kit/work/element.h"
#include "../../kit/work/graph.h"

/* Runs them on the device and prints a line for each, as TAP. The exit
 * status. */
int cpu_cases_run(const kit_case *cases, uint32_t n);

/* The subject from here on, opened with these settings ("cpu.threads=2"). */
kit_plugin *cpu_reopen(kit *k, const char *const *settings, uint32_t n);

/* x [4, 64] times a Q8_0 weight [8, 64]: tensors 0, 1 and 2. */
void cpu_matmul_graph(kit *k, kit_graph *g);
/* A piece of a transformer of n rows: norm, two products of the same x,
 * rotation, cache, attention, sum. Tensor 11 is the result. */
void cpu_layer_graph(kit *k, kit_graph *g, uint32_t weights, int64_t n);
