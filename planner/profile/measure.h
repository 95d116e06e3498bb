/*
 * Measuring devices: how long they take for work, alone and while others work,
 * and what the host spends on submitting and waiting. Everything goes through
 * the device front, by the device's own clock: real time, or the virtual time
 * of a simulated one.
 *
 * Operands lie in a pool of memory that is larger than caches and holds no
 * zeros, so that a weight comes from memory as it does in a model.
 */
#pragma once

#include "../../core/device/device.h"
#include "programs.h"
#include "workload.h"

#define PLANNER_METER_PROGRAMS 32

typedef struct planner_meter planner_meter; /* pool and settings */

typedef struct planner_meter_params {
    double max_seconds;   /* of one measurement, repetitions included, but for
                             a first one; 0: 0.25 */
    uint32_t repetitions; /* of which the lower quartile is taken, as what
                             disturbs only adds time; 0: 7 */
    uint64_t max_pool;    /* bytes of operands; work that needs more is not
                             measured (CLV_ERR_LIMIT); 0: half of what the
                             machine has */
} planner_meter_params;

clv_status planner_meter_create(clv_context *ctx,
                                const planner_meter_params *params,
                                planner_meter **out);
void planner_meter_destroy(planner_meter *meter); /* NULL is legal */

/* What compiling the first programs took that were measured with since the last
 * call; valid until more is measured. */
const planner_program_time *planner_measured_programs(planner_meter *meter,
                                                      uint32_t *n);

/* Work that is always the same, on a simulated device whose times are random.
 */
typedef struct planner_reference {
    double ns;    /* the mean; 0: times are not random */
    double noise; /* standard deviation of one submit, as a part of it */
} planner_reference;
clv_status planner_measure_reference(planner_meter *meter, clv_device *dev,
                                     planner_reference *out);

typedef struct planner_sample {
    planner_workload workload;
    double ns;        /* of the node, without submit, dispatch and wait */
    double energy_nj; /* 0: unknown */
    double spread;    /* how far ns is above the least repetition, of that: what
                         is more than a quarter has been disturbed */
    double drifts;    /* how much of ns becomes longer and shorter as the
                         reference does, 0..1; 0: times are not random */
    planner_reference reference; /* what it took meanwhile */
} planner_sample;

/* The time of a node that takes none of its own. Models are not fitted to it.
 */
#define PLANNER_FREE_NS 1e-3

/* CLV_ERR_UNSUPPORTED: the device does not take the work. */
clv_status planner_measure_workload(planner_meter *meter, clv_device *dev,
                                    const planner_workload *workload,
                                    planner_sample *out);

/* What a device and the host cost beside the work, ns. */
typedef struct planner_overheads {
    double submit;      /* host time of a submit while the queue has work */
    double submit_idle; /* the same when it is empty, or until the device is at
                           work if that takes longer; without dispatch */
    double dispatch;    /* device time of a program before its first node */
    double wait_poll;   /* from the end of work to the host going on, when it
                           polls, */
    double wait_block;  /* and when it blocks */
    double copy;        /* a copy of few bytes, */
    double copy_byte;   /* and for each byte more; 0: the device cannot */
    double copy_out;    /* the same out of memory of the device's own, */
    double copy_byte_out; /* 0: as into it */
    double copy_row;      /* and, both ways, for each row more */
    uint32_t learned;     /* which of them runs have corrected, as bits */
} planner_overheads;
enum {
    PLANNER_LEARNED_SUBMIT = 1u << 0, /* in the order of the fields */
    PLANNER_LEARNED_SUBMIT_IDLE = 1u << 1,
    PLANNER_LEARNED_DISPATCH = 1u << 2,
    PLANNER_LEARNED_WAIT_POLL = 1u << 3,
    PLANNER_LEARNED_WAIT_BLOCK = 1u << 4,
    PLANNER_LEARNED_COPY = 1u << 5, /* all of copies */
    PLANNER_LEARNED_ALL = (1u << 6) - 1,
    PLANNER_ASSUMED = 1u << 6, /* nothing was measured: the others are what is
                                  usual of such devices */
};
clv_status planner_measure_overheads(planner_meter *meter, clv_device *dev,
                                     planner_overheads *out);

/* How devices disturb each other. */
typedef struct planner_contention {
    planner_workload_kind weights; /* in: the products to measure with, where
                                      devices take them; weight_dtype 0: any */
    double bandwidth; /* bytes/ns of the host's memory of all together, each
                         with memory-bound work, or copying from there to memory
                         of its own; 0: not measured, or there are not two */
    double *alone;    /* [n] bytes/ns of the same alone; 0: it can do neither */
    double *slowdown; /* [n] of work while all others compute: >= 1. */
} planner_contention;
/* n >= 2 devices that share a clock; arrays of out are the caller's. */
clv_status planner_measure_contention(planner_meter *meter,
                                      clv_device *const *devs, uint32_t n,
                                      planner_contention *out);

/* Time that other processes have been at work on the machine's processors, ns,
 * since it was started; 0 where the system does not tell. */
double planner_others_ns(void);
