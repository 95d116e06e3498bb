/*
 * An exec follows a plan: everything a run needs is made once, so that a run
 * only fills in timeline values and submits.
 *
 * Timelines: one for each device the plan uses. A step's value in a run is what
 * the timeline had been promised before the run plus the step's signal.
 */
#pragma once

#include "../graph/tensor.h"
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
    uint32_t *points; /* [plan->n_waits + plan->n_devices] pace of each wait by
                         the host, and of the last one on each device */
    core_exec_pace *paces;
    uint32_t n_paces;
} core_exec_sync;

struct clv_exec {
    const clv_plan *plan;
    core_exec_device *devices; /* [plan->n_devices] */
    core_exec_step *steps;     /* [plan->n_steps] */
    clv_tensor **tensors;      /* [n_tensors] inputs and outputs: owned; states:
                                  bound by the caller; else NULL */
    clv_tensor *arena;         /* in the host's memory; NULL: no transients */
    const int64_t *symbols;    /* of the present run */
    core_exec_flush *flushes;
    uint32_t n_flushes, flushes_capacity;
    core_exec_sync sync;
    uint32_t n_unbound; /* states without memory */
    uint64_t run;       /* runs begun */
    uint64_t limit_ns;  /* for a step to end; UINT64_MAX: none */
    clv_status lost;    /* a device failed: no further run */
    char message[1024]; /* why */
};

/* program.c: compiles the program of a step and prepares its bindings. */
clv_status core_exec_prepare_step(clv_exec *exec, uint32_t step,
                                  const uint32_t *loads);
/* Points the bindings of a value on every device to the tensor's memory. */
clv_status core_exec_set_tensor(clv_exec *exec, clv_value value,
                                clv_tensor *tensor);

/* copy.c: the copies of a step. The commands of a run; staged bytes that
 * the step reads are moved, so what it waits for is done. */
clv_status core_exec_prepare_copies(clv_exec *exec, uint32_t step);
clv_status core_exec_set_copies(clv_exec *exec, uint32_t step, clv_value value,
                                clv_tensor *tensor, bool commit);
clv_status core_exec_put_commands(clv_exec *exec, uint32_t step,
                                  const int64_t *symbols);
/* Takes the staged results of steps to the host's memory, up to the device's
 * timeline having value, which it has. */
clv_status core_exec_fetch(clv_exec *exec, uint32_t device, uint64_t value);

/* weights.c: all that devices need copies of. */
clv_status core_exec_load_weights(clv_exec *exec);
/* Where a device holds a weight, or a view of one. */
clv_status core_exec_weight(const clv_plan *plan, const core_load *load,
                            const core_object **out);

/* memory.c */
clv_status core_exec_make_memory(clv_exec *exec);
void core_exec_free_memory(clv_exec *exec);
/* Whether the plan uses the state in any memory. */
bool core_exec_has_state(const clv_plan *plan, clv_value state);
/* Before a run: states come to where it needs them, and are taken as written
 * where it writes them. After it: where else they are now. */
clv_status core_exec_bring_states(clv_exec *exec);
clv_status core_exec_leave_states(clv_exec *exec);

/*
 * wait.c. A run fails because of a device when a timeline of it fails, for
 * any reason but cancellation, when it takes no work, or when nothing happens
 * on it for exec->limit_ns while it waits for nobody else. Then the device is
 * lost to the context; one that ran past the limit is also abandoned. Devices
 * whose work failed only because they waited for it are not blamed.
 */
/* Until the device's timeline has value; polls for spin_ns, then blocks. */
clv_status core_exec_wait(clv_exec *exec, uint32_t device, uint64_t value,
                          uint64_t spin_ns);
/* The device failed in a step, for the reason in the thread's message. */
clv_status core_exec_blame(clv_exec *exec, uint32_t device, uint32_t step,
                           clv_status status);
/* After a failure, whose message stays the thread's: nothing of this run is in
 * flight when it returns, but on devices that are now abandoned. */
clv_status core_exec_drain(clv_exec *exec, clv_status status);
/* Destroys the timelines, but for those that an abandoned device may watch. */
void core_exec_free_timelines(clv_exec *exec);

/* sync.c: the same, sleeping and polling by what is known of the point, an
 * index into sync.points. */
clv_status core_exec_sync_begin(clv_exec *exec);
void core_exec_sync_finish(core_exec_sync *sync);
clv_status core_exec_await(clv_exec *exec, uint32_t device, uint64_t value,
                           uint32_t point);

/* trace.c: moves what the devices recorded to the context's trace. */
void core_exec_collect_trace(clv_exec *exec);
/* Of a step's submit in the present run. */
uint64_t core_exec_correlation(const clv_exec *exec, uint32_t step);
