/* A run of an exec, and what it is bound to. */
#pragma once

#include "exec.h"
#include "workspace.h"
#include "../plan/choice.h"

/* A copy of a step, and where the bases of its sides lie. */
typedef struct core_run_copy {
    const core_copy *planned;
    clv_value local, shared;
    core_buffer *buffer; /* the device's own memory */
    uint64_t offset;
    core_buffer *host_buffer; /* the host's, as the device sees it; NULL where
                                 it is staged */
    uint64_t host_offset;
    char *host; /* the same for the host */
} core_run_copy;

typedef struct core_run_step {
    core_command command; /* RUN; symbols are set by each submit */
    core_submit submit;
    core_command *commands; /* made for each submit */
    core_run_copy *copies;  /* [n_copies] */
    core_binding *bindings; /* [n_bindings] */
    core_point *waits;      /* those the device does itself */
    core_point signal;
} core_run_step;

typedef struct core_run_queue {
    core_timeline *timeline; /* NULL: the plan does not use the queue */
    uint64_t promised;       /* value after everything submitted so far */
    uint64_t base;           /* value before the present run */
    uint64_t done;           /* of it, as flight.h has seen */
    uint64_t awaited;        /* a wait ended well */
    core_part_memory *own;   /* of the workspace; NULL: of a copying queue */
    bool keeps;              /* weights that the plan keeps there are there */
    uint32_t fetched;        /* steps of this run before this one have had their
                                staged results taken to the host's memory */
    struct core_line *line;  /* of the flight */
} core_run_queue;

/* Memory that the host writes before or reads after a run and that is not
 * coherent: to be flushed before and invalidated after. */
typedef struct core_run_flush {
    clv_value value;
    core_buffer *buffer;
    uint64_t offset, size;
    bool before, after;
} core_run_flush;

/* The step can be submitted once another run's queue has reached the value. */
typedef struct core_need {
    uint32_t step;
    clv_run *on; /* NULL: that run has ended */
    uint32_t device;
    uint64_t value;
} core_need;

/* An older run that has to begin, or to end, before this one begins. */
typedef struct core_hold {
    clv_run *on; /* NULL: it has ended */
    bool until_end;
} core_hold;

/* What keeps the run from going on, on a queue of its own or of another run. */
typedef struct core_block {
    clv_run *run; /* NULL: nothing does */
    uint32_t device;
    uint64_t value;
    uint32_t point; /* of sync.h, if the host waits as the plan says; else
                       CORE_NO_POINT */
} core_block;
#define CORE_NO_POINT 0xffffffffu

typedef enum core_run_state {
    CORE_RUN_IDLE = 0,  /* not in flight */
    CORE_RUN_HELD = 1,  /* submitted; waits for others to end */
    CORE_RUN_GOING = 2, /* its steps are being submitted */
} core_run_state;

struct clv_run {
    clv_exec *exec;
    clv_run *sibling; /* the next one of the exec */
    clv_workspace *workspace;
    uint64_t serial;        /* of the workspace's memory that is bound */
    core_run_queue *queues; /* [plan->n_queues] */
    core_run_step *steps;   /* [plan->n_steps] */
    clv_tensor **tensors;   /* [n_tensors] inputs and outputs: owned */
    int64_t *symbols;
    core_run_flush *flushes;
    uint32_t n_flushes, flushes_capacity;

    /* In flight; under the flight's mutex. */
    clv_run *next; /* younger */
    core_run_state state;
    pthread_t owner; /* the thread that begins and ends it */
    bool waited;     /* a thread is in clv_run_wait() for it */
    uint64_t number; /* of the exec's runs, from 1 */
    uint64_t age;    /* of all submits in the context */
    int32_t priority;
    uint32_t n_submitted; /* steps */
    core_block block;     /* of the next one, */
    bool waits;           /* its device would have to wait, once it has it, */
    core_turn turn;       /* and how it compares with others': choose.h */
    struct core_session *session;
    core_hold *holds;
    uint32_t n_holds, holds_capacity;
    core_need *needs;                       /* by step */
    uint32_t n_needs, needs_capacity, need; /* the first that may matter */
    uint32_t watchers;  /* threads that wait on its timelines */
    bool overlapped;    /* with another run, on whatever devices */
    bool mixed;         /* with another one on the same states */
    bool noted;         /* exec->latest is about it */
    double begin;       /* moment */
    clv_status trouble; /* it will end so, */
    clv_status status;  /* it ended so */
    char message[1024]; /* for both */
};

/* A run that has not ended will end with that status and message. */
void core_run_trouble(clv_run *run, clv_status status, const char *message);
/* Has the run use the memory that its workspace has now. */
clv_status core_run_settle(clv_run *run);
/* Points the bindings of a value on every device to the tensor's memory. */
clv_status core_run_set_tensor(clv_run *run, clv_value value,
                               clv_tensor *tensor);
/* The tensor of an input, an output or a state. */
static inline clv_tensor *core_run_tensor(const clv_run *run, clv_value value)
{
    return run->tensors[value] ? run->tensors[value] : run->exec->states[value];
}
