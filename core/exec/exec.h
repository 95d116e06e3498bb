/*
 * An exec has the compiled programs of a plan, and runs. A run has all that is
 * written while it is under way, so several may be at once: its inputs and
 * outputs, the timelines that its steps signal, and their bindings to memory.
 * Intermediate values lie in a workspace (workspace.h), which runs may share
 * that need not be under way at the same time.
 *
 * Each device queue that the plan uses has a timeline in each run. A step's
 * value is the one after everything submitted before this time that the run was
 * submitted, plus the step's signal. flight.h has the order in which steps of
 * several runs are submitted.
 */
#pragma once

#include "../context/use.h"
#include "../graph/tensor.h"
#include "../device/submit.h"
#include "../plan/plan.h"

#include <pthread.h>

/* What a step needs of it, whichever run it is in. */
typedef struct core_exec_step {
    core_program *program; /* NULL: the step only copies */
    clv_value *values;     /* [n_bindings] the graph value of each binding, */
    uint32_t *tensors;     /* and its tensor in the program; without weights */
    uint32_t n_bindings;
    uint32_t n_copies, n_before; /* so many of them before the program */
    char label[48];              /* of its first node, for messages and traces
                                  */
} core_exec_step;

/* How long the host has to wait. */
typedef struct core_exec_pace {
    uint64_t kind;
    double rest_ns; /* by the device's clock */
    bool known;
} core_exec_pace;

typedef struct core_exec_sync {
    bool fast;        /* core.sync */
    bool spare_core;  /* the host may spin */
    uint32_t *points; /* [plan->n_waits + plan->n_queues] pace of each wait by
                         the host, and of the last one on each device */
    core_exec_pace *paces;
    uint32_t n_paces;
} core_exec_sync;

/* When a step was where, ns by the clock of those who work; 0: not known. */
typedef struct core_exec_moments {
    double submit, submitted; /* the host's call */
    double node, end;         /* on the device: its first node, and all of it */
} core_exec_moments;

typedef struct core_exec_copied {
    uint32_t device;
    bool out;               /* of memory of the device's own */
    uint64_t bytes, n_rows; /* in all; in so many rows */
    double ns;
} core_exec_copied;

/* What the latest run took that was alone, for those who compare it with the
 * forecast. */
typedef struct core_exec_run {
    double ns;       /* until the host went on; 0: no run, or it failed, or
                        another one was in flight meanwhile */
    uint64_t number; /* 1: it was the first */
    double *part_ns; /* [plan->n_parts] by the devices' records; parts that one
                        kernel computes have its time by their work. NULL: not
                        observed */
    /* Where it was observed: */
    core_exec_moments *steps; /* [plan->n_steps] */
    core_span *waits; /* [plan->n_waits + plan->n_queues] of the host, as
                         core_exec_sync.points */
    core_exec_copied *copies; /* but for first commands of submits */
    uint32_t n_copies, copies_capacity;
    int64_t *symbols; /* [graph->n_symbols] */
} core_exec_run;

struct clv_exec {
    const clv_plan *plan;
    uint64_t serial;       /* of no other exec of the process */
    core_exec_step *steps; /* [plan->n_steps] */
    clv_tensor **states;   /* [n_tensors] bound by the caller; else NULL */
    const core_object **weights; /* [plan->n_loads] copies that it uses; NULL:
                                    none */
    uint32_t n_reached; /* of plan->loads: of those before, it uses the ones
                           that take of a limited address space */
    struct core_access *accesses; /* to states, by state: order.h */
    uint32_t n_accesses;
    clv_workspace *workspace; /* of its own run */
    bool owns_workspace;
    clv_run *own;  /* for clv_exec_run() */
    clv_run *runs; /* all of them */
    core_exec_sync sync;
    struct core_file_reader *reader; /* NULL: nothing is read from files */
    uint32_t n_unbound;              /* states without memory */
    /* 1 + clv_context.state_moves as of which states are where its runs need
     * them and leave them; 0: not known. */
    uint64_t settled_moves;
    uint64_t start_moves; /* the same when its latest run started, if that moved
                             none; else 0 */
    uint64_t run;         /* how many of its runs have started */
    bool observe;         /* by the planner: devices record the next run */
    core_exec_run latest;
    uint64_t limit_ns;        /* for a step to end; UINT64_MAX: none */
    clv_device *short_device; /* that could not be compiled for */
    core_use *use;            /* during creation and the first run */
    bool proven;              /* a run has ended well */
    bool told_slow;           /* that a step does not end */
    bool *blamed;       /* [plan->n_queues] a failure is the device's own */
    clv_status lost;    /* a device failed: no further run */
    char message[1024]; /* why */
};

static inline clv_device *core_exec_device_of(const clv_exec *exec,
                                              uint32_t step)
{
    return exec->plan->devices[exec->plan->steps[step].device].dev;
}
