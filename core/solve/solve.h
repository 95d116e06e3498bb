/*
 * The search for a plan: for every node one of its options, each a way to divide
 * it over devices, so that all is done soonest.
 *
 * It knows neither ops nor devices, only times. The host submits pieces in
 * order; a piece runs once its device is free and what it needs is there. Pieces
 * that follow each other on a device without needing anything of another one
 * are of one step. A step that needs a result of another device costs: the host
 * waits for it (host_waits) or the device does, then a submit, then the
 * dispatch.
 *
 * Search: nodes in order, a beam of partial schedules. A schedule is dropped if
 * another is no later in everything that can still matter: when devices and the
 * host are free, when live values are there and on which devices. While nothing
 * has been dropped for want of room the result is the optimum over the options.
 * A stretch of nodes that repeats (layers) is searched until its schedule
 * repeats too, and then copied.
 */
#pragma once

#include <cleave/cleave.h>

#define CORE_SOLVE_DEVICES 16
#define CORE_SOLVE_DEPS 8

typedef struct core_solve_device {
    double submit_ns, submit_idle_ns; /* host time; queue with work, empty */
    double dispatch_ns;  /* device time before a step's first piece */
    double wait_ns;      /* host time after the end of work it waited for */
    bool host_waits;     /* the host waits for what its steps need of others */
    uint64_t memory;     /* bytes of weights it may hold; UINT64_MAX: any */
    double max_share;    /* of the makespan that it may work, 0..1; 1: all */
} core_solve_device;

/* Part of a node's result, in any unit: [0] rows, [1] columns. */
typedef struct core_box {
    int64_t begin[2], end[2];
} core_box;

typedef struct core_solve_piece {
    uint32_t device;
    double ns;             /* with the other pieces of the option running */
    double energy_nj;
    uint64_t weight_bytes; /* of weights it holds */
    bool partial;          /* a partial sum: only `joins` of its option reads it */
    bool joins;            /* needs all partial pieces of its option */
    core_box out;          /* what it makes of the node's result */
    core_box needs[CORE_SOLVE_DEPS]; /* of each dep's result; empty: nothing */
} core_solve_piece;

/* Pieces in the order in which they are submitted. */
typedef struct core_solve_option {
    uint32_t first_piece, n_pieces;
} core_solve_option;

typedef struct core_solve_node {
    uint32_t deps[CORE_SOLVE_DEPS]; /* earlier nodes */
    uint32_t n_deps;
    uint32_t first_option, n_options; /* at least one */
    uint32_t kind; /* nodes of one kind have equal options, or the same */
} core_solve_node;

typedef struct core_solve_problem {
    const core_solve_device *devices;
    const core_solve_node *nodes;
    const core_solve_option *options;
    const core_solve_piece *pieces;
    uint32_t n_devices, n_nodes, n_options, n_pieces;
} core_solve_problem;

typedef struct core_solve_choice {
    uint32_t option;      /* index into options */
    uint32_t alternative; /* the best other one; UINT32_MAX: there is none */
    double alternative_ns;/* makespan with it, all else the same */
} core_solve_choice;

typedef struct core_solution {
    core_solve_choice *choices; /* [n_nodes] owned */
    double makespan_ns;
    double energy_nj;
    bool optimal; /* over the options; else the beam was full */
} core_solution;

/* CLV_ERR_LIMIT: no choice keeps to the devices' memory. A max_share that
 * cannot be kept (a device that alone takes some node) is exceeded by as little
 * as possible. */
clv_status core_solve(const core_solve_problem *problem, core_solution *out);
void core_solution_finish(core_solution *solution);

/* When each piece of a full choice begins and ends, by the same rules: the
 * makespan. begin, end: [n_pieces of the chosen options, in node order], or
 * NULL. */
double core_solve_evaluate(const core_solve_problem *problem,
                           const uint32_t *options, double *begin, double *end);
