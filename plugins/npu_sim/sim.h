/*
 * Discrete-event simulation of devices on one memory, in whole nanoseconds.
 *
 * Every device runs the jobs of its queue in order; a job is a row of phases. A
 * phase first takes a fixed time, then computes and moves bytes, both at once.
 * Phases that move bytes at the same time share the one bandwidth by max-min
 * fairness: a phase never gets more than it can use, and one that gets less is
 * slowed down in proportion. Rates are computed again whenever a phase begins
 * or ends.
 *
 * A device may have engines, with queues of their own, that copy beside it.
 * Those that move bytes over its link in one direction get equal parts of the
 * link; the two directions do not disturb each other.
 *
 * The host has a time too. It advances when the host says so, and when it
 * waits. Nothing is simulated past it, because work that the host has yet to
 * submit may change what happens then.
 *
 * All arithmetic is in integers, and amounts are only updated when rates
 * change, so that times do not depend on when somebody asks. Not thread-safe:
 * the caller holds one lock for all of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct npu_sim npu_sim;
typedef struct npu_sim_device npu_sim_device;

#define NPU_NEVER UINT64_MAX

/* Whether a phase moves its bytes over a device's link. */
typedef enum npu_link { NPU_LINK_NONE, NPU_LINK_IN, NPU_LINK_OUT } npu_link;

/* A part of a job. Times are those of a device that has the memory alone. */
typedef struct npu_phase {
    uint64_t fixed_ns; /* first, without memory */
    uint64_t work_ns;  /* computing, and moving the bytes undisturbed:
                          the longer of the two */
    uint64_t bytes;    /* moved during work_ns */
    npu_link link;
    uint32_t command, node, op; /* for the trace, which outlives the program */
    uint64_t begin, end;        /* set as the job runs */
} npu_phase;

/* A counter that jobs wait for and raise. The caller owns the memory. */
typedef struct npu_counter {
    uint64_t value;
    uint64_t reached_at; /* when it got its value */
    bool failed;         /* nobody waits for it any longer */
} npu_counter;

typedef struct npu_sim_point {
    npu_counter *counter;
    uint64_t value;
} npu_sim_point;

/* The caller owns the memory until done() was called for it. */
typedef struct npu_sim_job {
    struct npu_sim_job *next;
    npu_phase *phases;
    npu_sim_point *waits, *signals;
    uint32_t n_phases, n_waits, n_signals;
    uint64_t release; /* not before */
    uint64_t begin, end;
    void *owner;
    uint32_t phase; /* the running one */
    bool ended;     /* rather than dropped */
} npu_sim_job;

/* A device, or an engine of one. */
struct npu_sim_device {
    npu_sim_device *next;
    npu_sim_device *whole; /* the device of which it is an engine; NULL: none */
    npu_sim_job *first, *last;
    bool running; /* the first one */
    /* The running phase: what is left of it at `since`, in 2^-20 ns, and how
     * fast it goes, 2^20 being full speed. */
    uint64_t left, since, speed;
    bool moving;                  /* past the fixed part */
    uint64_t demand;              /* bytes a second that it can move now */
    uint32_t n_active;            /* it and its engines, with jobs that run */
    uint64_t busy_ns, busy_since; /* time with any, up to the latest end */
    void (*done)(void *ctx, npu_sim_job *job);
    void *ctx;
};

struct npu_sim {
    uint64_t bandwidth; /* bytes a second; 0: no bound */
    uint64_t host;      /* the host's time */
    uint64_t now;       /* of the latest event; never past host but in a wait */
    npu_sim_device *devices;
};

void npu_sim_add(npu_sim *sim, npu_sim_device *device);
void npu_sim_remove(npu_sim *sim, npu_sim_device *device);

/* Everything up to the host's time happens. */
void npu_sim_catch_up(npu_sim *sim);
/* The host spends time. */
void npu_sim_spend(npu_sim *sim, uint64_t ns);
/* The device has a job at the host's time. Catch up first. */
bool npu_sim_busy(const npu_sim_device *device);
/* Puts the job at the end of the queue; it starts at its release, if not later.
 * NPU_NEVER: it never does. */
void npu_sim_push(npu_sim_device *device, npu_sim_job *job);

/* The counter is raised by the host, at its time. */
void npu_sim_raise(npu_sim *sim, npu_counter *counter, uint64_t value);
/* Jobs that wait for it go on as if it had been reached. */
void npu_sim_fail(npu_sim *sim, npu_counter *counter);

/* When the counter reaches value, letting things happen until then but not past
 * `limit`; NPU_NEVER if it does not. The host's time stays. */
uint64_t npu_sim_when(npu_sim *sim, const npu_counter *counter, uint64_t value,
                      uint64_t limit);
/* The time of the next event; NPU_NEVER if nothing will happen by itself. */
uint64_t npu_sim_next(const npu_sim *sim);
/* Takes all jobs away from the device; done() is called for each. */
void npu_sim_drop(npu_sim *sim, npu_sim_device *device);
/* Nanoseconds that it or an engine of it had a job, up to the host's time. */
uint64_t npu_sim_busy_ns(const npu_sim *sim, const npu_sim_device *device);
