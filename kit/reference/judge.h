/*
 * Whether a device keeps its word about a graph: what it takes runs and is
 * right, what it does not take it refuses with a reason.
 */
#pragma once

#include "../work/graph.h"
#include "../work/spec.h"

typedef enum kit_judged {
    KIT_RIGHT = 0,   /* taken, run, and right */
    KIT_REFUSED = 1, /* a no, or a shape that is not listed; properly so */
    KIT_BEYOND = 2,  /* taken in a layout the kit does not make */
} kit_judged;

typedef struct kit_judgement {
    kit_judged verdict;
    clv_op_caps caps[KIT_MAX_NODES];
    char reason[KIT_TEXT_SIZE]; /* unless right */
} kit_judgement;

/* Asks, compiles, runs, compares with the reference, with KIT_RUN_* flags; the
 * case fails where the device breaks its word. Graphs of one node are compared
 * by the node's class; of several, by the difference that the classes of all
 * may make in the end. */
kit_judged kit_judge(kit_graph *g, uint32_t flags, kit_judgement *out);

/* The same for a spec, whose KIT_FORM_* give the flags. What is refused is
 * tried again bent to what the device offers (fit.h). */
kit_judged kit_judge_spec(kit *k, const kit_spec *spec, kit_judgement *out);
/* A case: skipped where refused. */
void kit_judge_case(kit *k, const kit_spec *spec);
