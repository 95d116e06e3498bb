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

#include "../device/device.h"
#include "work.h"

typedef struct core_meter core_meter; /* pool and settings */

typedef struct core_meter_params {
    double max_seconds;   /* of one measurement, repetitions included, but for
                             a first one; 0: 0.25 */
    uint32_t repetitions; /* of which the lower quartile is taken, as what
                             disturbs only adds time; 0: 7 */
    uint64_t max_pool;    /* bytes of operands; work that needs more is not
                             measured (CLV_ERR_LIMIT); 0: half of what the
                             machine has */
} core_meter_params;

clv_status core_meter_create(clv_context *ctx, const core_meter_params *params,
                             core_meter **out);
void core_meter_destroy(core_meter *meter); /* NULL is legal */

typedef struct core_sample {
    core_work work;
    double ns;        /* of the node, without submit, dispatch and wait */
    double energy_nj; /* 0: unknown */
    double spread;    /* how far ns is above the least repetition, of that: what
                         is more than a quarter has been disturbed */
} core_sample;

/* CLV_ERR_UNSUPPORTED: the device does not take the work. */
clv_status core_measure_work(core_meter *meter, clv_device *dev,
                             const core_work *work, core_sample *out);

/* What a device and the host cost beside the work, ns. */
typedef struct core_overheads {
    double submit;      /* host time of a submit while the queue has work */
    double submit_idle; /* the same when it is empty, or until the device is at
                           work if that takes longer; without dispatch */
    double dispatch;    /* device time of a program before its first node */
    double wait_poll;   /* from the end of work to the host going on, when it
                           polls, */
    double wait_block;  /* and when it blocks */
    double copy;        /* a copy of few bytes, */
    double copy_byte;   /* and for each byte more; 0: the device cannot */
} core_overheads;
clv_status core_measure_overheads(core_meter *meter, clv_device *dev,
                                  core_overheads *out);

/* How devices disturb each other. */
typedef struct core_contention {
    double bandwidth; /* bytes/ns of all together, each with memory-bound work;
                         0: not measured */
    double *alone;    /* [n] bytes/ns of memory-bound work alone */
    double *slowdown; /* [n] of work while all others compute: >= 1. */
} core_contention;
/* n >= 2 devices that share a clock; arrays of out are the caller's. */
clv_status core_measure_contention(core_meter *meter, clv_device *const *devs,
                                   uint32_t n, core_contention *out);
