/*
 * The search for a plan: for every node one of its options, each a way to
 * divide it over devices, so that all is done soonest.
 *
 * It knows neither ops nor devices, only times. Its rules are those by which
 * core/plan makes steps and core/exec runs them:
 *
 *   - Pieces of a device run in order. A piece joins the step that its device
 *     is filling if all it needs of other devices is done before that step
 *     begins, and if what it needs of this very step is exactly what a piece of
 *     it made. Else it begins a step.
 *   - A step is filled until a node needs something of it on another device,
 *     where its results are there when all of it is done.
 *   - The host submits each device's steps in order, and a step of one device
 *     before another's if that can be submitted earlier.
 *   - Before a submit the host waits for what the step needs of other devices
 *     (host_waits), or the device does by itself. A wait that finds its work
 *     done costs nothing.
 *   - At the end the host waits for all devices.
 *   - What a piece needs of a result that is in another memory is copied: by
 * the device that made it, at the end of its step, if that has memory of its
 *     own; by the piece's device before it, in a step that begins with it, if
 *     that has. A result is copied to a memory once.
 *
 * Search: nodes in order, a beam of partial schedules. A schedule is dropped if
 * another is no later in everything that can still matter: when devices and the
 * host are free, when live values are there and on which devices. A block of
 * nodes that repeats (layers) is searched in a few copies, and the choices of
 * one are given to the rest. What the beam finds is then improved node by node.
 * Problems with few combinations are searched in full.
 */
#pragma once

#include <cleave/cleave.h>

#define PLANNER_SOLVE_DEVICES 16
#define PLANNER_SOLVE_MEMORIES (PLANNER_SOLVE_DEVICES + 1)
#define PLANNER_SOLVE_DEPS 8
#define PLANNER_SOLVE_PIECES 32 /* of an option */

typedef struct planner_solve_device {
    double submit_ns, submit_idle_ns; /* host time; queue with work, empty */
    double dispatch_ns; /* device time before a step's first piece */
    double wait_ns;     /* host time after the end of work it waited for */
    bool host_waits;    /* the host waits for what its steps need of others */
    uint64_t memory;    /* bytes of weights it may hold; UINT64_MAX: any */
    double max_share;   /* of the makespan that its pieces may take, 0..1 */
    uint32_t memory_index; /* that it works in: 0 the host's, which devices
                              share; else its own, below
                              PLANNER_SOLVE_MEMORIES */
    double copy_ns, copy_byte_ns; /* between its own and the host's */
} planner_solve_device;

/* Part of a node's result, in any unit: [0] rows, [1] columns. Boxes of one
 * node are equal if they are one value of the cut graph. */
typedef struct planner_box {
    int64_t begin[2], end[2];
} planner_box;

typedef struct planner_solve_piece {
    uint32_t device;
    double ns;
    double energy_nj;
    uint64_t weight_bytes; /* of weights it holds */
    bool partial;          /* a partial sum, for `joins` of its option only */
    bool joins;            /* needs all partial pieces of its option, which are
                              before it */
    planner_box out;       /* what it makes of the node's result */
    planner_box
        needs[PLANNER_SOLVE_DEPS]; /* of each dep's result; empty: nothing */
} planner_solve_piece;

/* Pieces in the order in which they are submitted. */
typedef struct planner_solve_option {
    uint32_t first_piece, n_pieces;
} planner_solve_option;

typedef struct planner_solve_node {
    uint32_t deps[PLANNER_SOLVE_DEPS]; /* earlier nodes */
    uint32_t n_deps;
    uint32_t first_option, n_options; /* at least one */
    uint32_t kind; /* nodes of one kind have equal options, or the same */
    /* Where devices have memory of their own: */
    double read_bytes[PLANNER_SOLVE_DEPS]; /* an element of what it reads of the
                                           dep's result; 0: is not copied */
    double element_bytes;                  /* of the node's own result, */
    int64_t columns;                       /* which is so wide */
    bool wanted;                           /* and which the host asked for */
} planner_solve_node;

typedef struct planner_solve_problem {
    const planner_solve_device *devices;
    const planner_solve_node *nodes;
    const planner_solve_option *options;
    const planner_solve_piece *pieces;
    uint32_t n_devices, n_nodes, n_options, n_pieces;
} planner_solve_problem;

typedef struct planner_solve_choice {
    uint32_t option;       /* index into options */
    uint32_t alternative;  /* the best other one; UINT32_MAX: there is none */
    double alternative_ns; /* makespan with it, all else the same; it may break
                              a constraint */
} planner_solve_choice;

typedef struct planner_solution {
    planner_solve_choice *choices; /* [n_nodes] owned */
    double makespan_ns;
    double energy_nj; /* of the pieces */
} planner_solution;

/* CLV_ERR_LIMIT: no choice keeps to the devices' memory, or none was found. A
 * max_share that cannot be kept (a device that alone takes some node) is
 * exceeded by as little as possible. CLV_ERR_INVALID: what is no problem. */
clv_status planner_search(const planner_solve_problem *problem,
                          planner_solution *out);
void planner_solution_finish(planner_solution *solution);

/* What the search consists of, as bits. */
typedef enum planner_stage {
    PLANNER_STAGE_LOOK_AHEAD = 1, /* the beam that looks ahead */
    PLANNER_STAGE_FIRST_DONE = 2, /* the beam of what is done first */
    PLANNER_STAGE_IMPROVE = 4,    /* improvement node by node */
    PLANNER_STAGE_BLOCKS = 8,     /* few copies of repeated blocks */
    PLANNER_STAGE_PRICES = 16,    /* prices for constraints */
} planner_stage;

/* The search without some stages, to measure what each is worth. */
clv_status planner_search_without(const planner_solve_problem *problem,
                                  uint32_t stages, planner_solution *out);

/* When each piece of a full choice begins and ends, by the rules above, and the
 * makespan. options: [n_nodes] indices into options; begin, end: [n_pieces of
 * these options, in node order], or NULL. A begin is without dispatch. */
clv_status planner_solve_evaluate(const planner_solve_problem *problem,
                                  const uint32_t *options, double *begin,
                                  double *end, double *makespan_ns);
