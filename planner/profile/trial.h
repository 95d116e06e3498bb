/*
 * Work made ready to run on a device again and again, with operands in the
 * meter's pool. Trials that are alive at the same time in one part of the pool
 * are of the same work.
 */
#pragma once

#include "measure.h"
#include "../../core/device/timeline.h"
#include "../../core/device/program.h"

#include "../../core/graph/tensor.h"

typedef struct planner_pool {
    clv_tensor *tensor;
    uint64_t size, filled;      /* bytes; the first ones hold data */
    struct planner_pool *older; /* in use by trials yet */
} planner_pool;

struct planner_meter {
    clv_context *ctx;
    planner_meter_params params; /* defaults filled in */
    planner_pool *pool;          /* NULL: none yet */
    uint32_t n_trials;
    uint64_t cursor;   /* where operands were put last */
    uint64_t limit_ns; /* of a wait */
    planner_program_time programs[PLANNER_METER_PROGRAMS];
    uint32_t n_programs; /* of those that were compiled */
};

typedef struct planner_trial_params {
    const planner_workload *workload;
    uint32_t nodes;       /* equal ones in the program */
    bool shared;          /* they have the same operands */
    uint32_t part, parts; /* of the pool; parts 0: all of it */
} planner_trial_params;

typedef struct core_trial {
    planner_meter *meter;
    clv_device *dev;
    clv_graph *graph;
    core_program *program;
    core_binding *bindings;
    core_timeline *timeline;
    uint64_t value; /* signalled by the latest submit */
} core_trial;

/* CLV_ERR_UNSUPPORTED, with the reason, if the device does not take the work;
 * static_n: of a device with fixed lengths the one to use instead, or NULL. */
clv_status planner_trial_accepted(clv_device *dev,
                                  const planner_workload *workload,
                                  int64_t *static_n);
clv_status planner_trial_create(planner_meter *meter, clv_device *dev,
                                const planner_trial_params *params,
                                core_trial **out);
/* Lets the device finish first. NULL is legal. */
void planner_trial_destroy(core_trial *trial);

/* correlation: of trace records; 0: none. */
clv_status planner_trial_submit(core_trial *trial, uint64_t correlation);
clv_status planner_trial_wait(core_trial *trial, uint64_t spin_ns);
/* Submit to end of wait. energy_nj may be NULL. */
clv_status planner_trial_time(core_trial *trial, uint64_t spin_ns, double *ns,
                              double *energy_nj);

/* The device's clock, of clv_device_now(), read fast. */
clv_status planner_trial_now(clv_device *dev, double *ns);

/* When submits with a correlation ran, by the device's own records. */
typedef struct planner_trial_span {
    uint64_t correlation;
    double begin, node, end; /* of program, first node; 0: no record */
} planner_trial_span;

/* Collects the records of spans[i].correlation and forgets all others.
 * CLV_ERR_UNSUPPORTED where the device has no times. */
clv_status planner_trial_spans(clv_device *dev, planner_trial_span *spans,
                               uint32_t n);
/* How long the nodes of a submit took, at most `most` of them, in any order;
 * forgets all other records. 0 of them where the device does not tell. */
uint32_t planner_trial_nodes(clv_device *dev, uint64_t correlation, double *ns,
                             uint32_t most);
/* Forgets all records. Nothing where the device has none. */
void planner_trial_forget(clv_device *dev);
/* As planner_measure_workload(), of a simulated device whose times are random.
 */
clv_status planner_measure_noisy(planner_meter *meter, clv_device *dev,
                                 const planner_workload *workload,
                                 planner_sample *out);
/* Whether the trial takes another time when it runs again, in virtual time:
 * else one run tells all. */
clv_status planner_trial_is_noisy(core_trial *trial, bool *out);
/* Of n >= 1 values of a simulated device: what is random there is as often
 * less as more. */
double planner_mean(const double *values, uint32_t n);
/* Of n >= 1 values, which are sorted. Times have their lower quartile for what
 * they would be undisturbed: whatever else the machine does only adds. */
double planner_median(double *values, uint32_t n);
double planner_undisturbed(double *values, uint32_t n);
/* What the values say: of a device whose times are random their mean. */
double planner_typical(bool noisy, double *values, uint32_t n);
/* What `more` say above what `less` say, each by themselves: a difference of
 * two times is too small as often as the shorter one was disturbed. */
double planner_above(bool noisy, double *more, double *less, uint32_t n);

/* meter->pool has `need` bytes. filled: it is larger than caches, as far as it
 * may be, and holds no zeros. CLV_ERR_LIMIT: need is more than max_pool, or
 * than the device has left for a copy at multiples of align. */
clv_status planner_pool_reserve(planner_meter *meter, clv_device *dev,
                                uint64_t align, uint64_t need, bool filled);
/* A trial is gone: pools that it may have held back go too. */
void planner_pool_release(planner_meter *meter);
