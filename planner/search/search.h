/*
 * The search for a plan: for every node one of its options, each a way to
 * divide it over devices, so that the run ends soonest. It knows neither ops
 * nor devices, only times, and predicts by the rules of steps (planner.h).
 *
 * A beam goes through the nodes in order and keeps the best partial schedules.
 * A schedule is dropped if another one is no later in everything that can still
 * matter: when devices and the host are free, and when and where results are
 * there. The best full choice is improved node by node. Of a block of nodes
 * that repeats (a layer) a few copies are searched, and the choice of one is
 * given to the rest. Memory and max_share become prices.
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
    uint64_t ring;      /* bytes that its copies of weights fill at once, each
                           until the piece is done that needs it; 0: any */
    double max_share;   /* of the makespan that its pieces may take, 0..1 */
    uint32_t memory_index; /* that it works in: 0 the host's, which devices
                              share; else its own, below
                              PLANNER_SOLVE_MEMORIES */
    double copy_ns, copy_byte_ns; /* between its own and the host's, */
    double copy_row_ns;           /* and for each row more than one */
} planner_solve_device;

/* Part of a node's result, in any unit: [0] rows, [1] columns. Boxes of one
 * node are equal if they are one value of the cut graph, or replicas of it on
 * several devices. A slice of it has all of these elements, of which only those
 * of some experts are valid. */
typedef struct planner_box {
    int64_t begin[2], end[2];
    int64_t first, last; /* experts first .. last - 1; last 0: of all */
} planner_box;

typedef struct planner_solve_piece {
    uint32_t device;
    double ns;
    double energy_nj;
    double extra_ns;       /* that it counts beside the makespan */
    uint64_t weight_bytes; /* of weights it holds */
    uint64_t ring_bytes;   /* of the device's ring, of a weight's copy */
    bool partial;          /* a partial sum, for `joins` of its option only */
    bool joins;            /* needs all partial pieces of its option, which are
                              before it */
    uint32_t after;        /* so many pieces before it is one of its option that
                              it needs: a weight's copy; 0: none */
    double add_ns;         /* what adding its slice to another takes */
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
    uint32_t class; /* nodes of one class have equal options, or the same */
    /* Where devices have memory of their own: */
    double read_bytes[PLANNER_SOLVE_DEPS]; /* an element of what it reads of the
                                           dep's result; 0: is not copied */
    double read_rows[PLANNER_SOLVE_DEPS];  /* that it reads for a row of the
                                              dep's result, as of a state that
                                              the dep sets rows of; 0: one */
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
    double energy_ns;      /* that a nJ counts beside the makespan */
    const uint32_t *known; /* [n_nodes] options of a choice that is known: what
                              is found is no worse. NULL: there is none */
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

/* What the search consists of, as bits. */
typedef enum planner_stage {
    PLANNER_STAGE_LOOK_AHEAD = 1,    /* the beam that looks ahead */
    PLANNER_STAGE_FIRST_DONE = 2,    /* the beam of what is done first */
    PLANNER_STAGE_IMPROVE = 4,       /* improvement node by node */
    PLANNER_STAGE_BLOCKS = 8,        /* few copies of repeated blocks */
    PLANNER_STAGE_PRICES = 16,       /* prices for constraints */
    PLANNER_STAGE_ALTERNATIVES = 32, /* they are found, and improve the choice;
                                        they take most of the time */
    PLANNER_STAGE_TOGETHER = 64,     /* the beam in which every node that may
                                        have several devices has, where some
                                        may be replicated */
    PLANNER_STAGE_REPLICAS = 128,    /* replicated options in the other beams */
} planner_stage;

#define PLANNER_BEAMS                                                          \
    (PLANNER_STAGE_LOOK_AHEAD | PLANNER_STAGE_FIRST_DONE |                     \
     PLANNER_STAGE_TOGETHER)

/* without: stages left out. With one beam it takes less time; the others are
 * left out to measure what they are worth.
 * Memory and max_share that cannot be kept (a device that alone takes some
 * node) are exceeded by as little as possible. CLV_ERR_INVALID: what is no
 * problem. */
clv_status planner_search(const planner_solve_problem *problem,
                          uint32_t without, planner_solution *out);
void planner_solution_finish(planner_solution *solution);

/* When each piece of a full choice begins and ends, by the rules above, and the
 * makespan. options: [n_nodes] indices into options; begin, end: [n_pieces of
 * these options, in node order], or NULL. A begin is without dispatch. */
clv_status planner_solve_evaluate(const planner_solve_problem *problem,
                                  const uint32_t *options, double *begin,
                                  double *end, double *makespan_ns);
