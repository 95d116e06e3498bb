/*
 * An exec runs a plan. It makes everything that runs need once, so that a run
 * only sets timeline values and submits.
 *
 * Each device that the plan uses has a timeline. A step's value in a run is the
 * value after everything submitted before the run, plus the step's signal.
 */
#pragma once

#include "../context/use.h"
#include "../graph/tensor.h"
#include "../device/submit.h"
#include "../plan/plan.h"

/* A copy of a step, and where the bases of its sides lie. */
typedef struct core_exec_copy {
    const core_copy *planned;
    clv_value local, shared;
    core_buffer *buffer; /* the device's own memory */
    uint64_t offset;
    core_buffer *host_buffer; /* the host's, as the device sees it; NULL where
                                 it is staged */
    uint64_t host_offset;
    char *host; /* the same for the host */
} core_exec_copy;

typedef struct core_exec_step {
    core_program *program; /* NULL: the step only copies */
    core_command command;  /* RUN; symbols are set by each run */
    core_submit submit;
    core_command *commands; /* made for each run */
    core_exec_copy *copies;
    uint32_t n_copies, n_before; /* so many of them before the program */
    core_binding *bindings;      /* of the program's tensors but the weights */
    core_point *waits;           /* those the device does itself */
    core_point signal;
    clv_value *values; /* [n_bindings] the graph value of each binding */
    char label[48];    /* of its first node, for messages and traces */
} core_exec_step;

typedef struct core_exec_device {
    clv_device *dev;
    core_timeline *timeline; /* NULL: the plan does not use the device */
    uint64_t promised;       /* value after everything submitted so far */
    uint64_t base;           /* value before this run */
    bool blamed;             /* a failure is its own */
    core_buffer *arena;      /* in its own memory, or NULL */
    core_buffer *staging;    /* NULL: nothing passes through it */
    char *staged;            /* its bytes for the host */
    uint32_t fetched;        /* steps of this run before this one have had their
                                staged results taken to the host's memory */
} core_exec_device;

/* Memory that the host writes before or reads after a run and that is not
 * coherent: to be flushed before and invalidated after. */
typedef struct core_exec_flush {
    clv_value value;
    core_buffer *buffer;
    uint64_t offset, size;
    bool before, after;
} core_exec_flush;

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
    bool out; /* of memory of the device's own */
    uint64_t bytes;
    double ns;
} core_exec_copied;

/* What the latest run took, for those who compare it with the forecast. */
typedef struct core_exec_run {
    double ns;       /* until the host went on; 0: no run, or it failed */
    double *part_ns; /* [plan->n_parts] by the devices' records: of a part whose
                        work another part's kernel did, 0. NULL: not observed */
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
    core_exec_device *devices; /* [plan->n_queues] */
    core_exec_step *steps;     /* [plan->n_steps] */
    clv_tensor **tensors;      /* [n_tensors] inputs and outputs: owned; states:
                                  bound by the caller; else NULL */
    clv_tensor *arena;         /* in the host's memory; NULL: no transients */
    core_buffer *arena_buffer; /* that it lies in, of plan->arena_device, */
    uint64_t arena_at;         /* from here on; NULL: the host's own */
    int64_t *symbols;          /* of the present run */
    core_exec_flush *flushes;
    uint32_t n_flushes, flushes_capacity;
    core_exec_sync sync;
    uint32_t n_unbound; /* states without memory */
    uint64_t run;       /* runs begun */
    bool observe;       /* by the planner: devices record the next run */
    core_exec_run latest;
    uint64_t limit_ns;        /* for a step to end; UINT64_MAX: none */
    clv_device *short_device; /* that could not be compiled for */
    core_use *use;            /* during creation and the first run */
    bool proven;              /* a run has ended well */
    bool told_slow;           /* that a step does not end */
    clv_status lost;          /* a device failed: no further run */
    char message[1024];       /* why */
};
