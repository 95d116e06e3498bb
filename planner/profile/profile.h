/*
 * What is known of the speed of devices: measurements and the models fitted to
 * them. A context has one; it is read from the cache (one file a device, named
 * by a hash of device, driver, plugin build and core version), measured where
 * something is missing, and written back.
 *
 * Costs are answered in one of two modes (HeteroLLM, section 4.3): what was
 * measured is answered as measured ("real execution"), all else by a model
 * ("prediction").
 */
#pragma once

#include "fit.h"
#include "measure.h"

typedef struct planner_profile planner_profile;

typedef struct planner_profile_params {
    clv_device *const *devices;
    uint32_t n_devices;
    bool full;   /* every shape of the graph on every device; else only
                    what models need, in a few seconds */
    bool again;  /* forget what was measured before */
    bool asked;  /* by the user: measure also with core.profile = off,
                    which else takes what the cache has */
    bool cached; /* takes what the cache has and measures nothing */
    clv_progress_fn progress; /* may be NULL; non-zero cancels */
    void *progress_ctx;
} planner_profile_params;

/* Nothing is known yet. A context makes and destroys its own. */
clv_status planner_profile_create(clv_context *ctx, planner_profile **out);
void planner_profile_destroy(planner_profile *profile); /* NULL is legal */
/* The context's. */
clv_status planner_profile_of(clv_context *ctx, planner_profile **out);

/* Makes sure that costs of the graph's nodes, whole or in pieces, are known on
 * these devices: reads the cache, measures the rest, writes the cache. Work
 * that a device does not take is no error, nor is a cache that cannot be read
 * or written: the log has a warning. */
clv_status planner_profile_cover(planner_profile *profile,
                                 const clv_graph *graph,
                                 const planner_profile_params *params);

/* Some work on one of the devices. */
typedef struct planner_profile_ask {
    clv_device *dev;
    planner_workload workload;
} planner_profile_ask;

typedef enum planner_refined {
    PLANNER_REFINED_NOTHING = 0, /* all was measured before, or may not be */
    PLANNER_REFINED_LITTLE = 1,  /* models were good */
    PLANNER_REFINED_MUCH = 2,    /* one was off by more than a few percent: what
                                 went by its answers is worth another thought */
} planner_refined;

/* Measures these works where only models have answered so far, as far as there
 * is time. */
clv_status planner_profile_refine(planner_profile *profile,
                                  const planner_profile_ask *asks, uint32_t n,
                                  const planner_profile_params *params,
                                  planner_refined *out);

/* Takes over what n workloads took in runs of plans, and fits the models of
 * their kinds again. The cache is written. */
clv_status planner_profile_learn(planner_profile *profile, clv_device *dev,
                                 const planner_sample *samples, uint32_t n);
/* Takes over overheads that runs have corrected. */
clv_status planner_profile_learn_overheads(planner_profile *profile,
                                           clv_device *dev,
                                           const planner_overheads *overheads);
/* What making programs took, in this order. */
clv_status planner_profile_learn_programs(planner_profile *profile,
                                          clv_device *dev,
                                          const planner_program_time *times,
                                          uint32_t n);
/* What making a program will take, ns; again: the plan has one like it already.
 * 0 where nothing is known. */
double planner_profile_program_ns(const planner_profile *profile,
                                  const clv_device *dev,
                                  const planner_program *program, bool again);
/* Hash of all that the device's measurements belong to: device, driver, plugin
 * build, settings, core version. 0 when memory runs out. */
uint64_t planner_profile_device_hash(const clv_device *dev);
/* What runs of plans took. */
struct planner_history *planner_profile_history(planner_profile *profile);

/* Between the two, what measuring needs is kept from one call to the next: a
 * large piece of memory. */
void planner_profile_hold(planner_profile *profile);
void planner_profile_release(planner_profile *profile);

typedef struct planner_cost {
    double ns;        /* alone, without submit, dispatch and wait */
    double energy_nj; /* 0: unknown */
    bool measured;    /* this very work was */
} planner_cost;

/* False: nothing is known of such work there. Any thread, any time. Takes well
 * under a microsecond. */
bool planner_profile_cost(const planner_profile *profile, const clv_device *dev,
                          const planner_workload *workload, planner_cost *out);
/* By how much popular experts make the workload longer than it would be with
 * equal chances. */
double planner_profile_popularity(const planner_profile *profile,
                                  const clv_device *dev,
                                  const planner_workload *workload);
/* Of devices with a real clock that were not measured. */
const planner_overheads *planner_usual_overheads(const clv_device *dev);
/* NULL if not measured. Lives as long as the profile. */
const planner_overheads *
planner_profile_overheads(const planner_profile *profile,
                          const clv_device *dev);
/* Of a simulated device whose times are random: the standard deviation of what
 * a submit takes, as a part of it. Else 0. */
double planner_profile_noise(const planner_profile *profile,
                             const clv_device *dev);
/* The highest rates among the works that were measured, in bytes and operations
 * a ns; 0 where there are none. */
void core_profile_top(const planner_profile *profile, const clv_device *dev,
                      double *bytes, double *flops);
/* Bytes/ns that the devices get from the host's memory together, where those
 * with memory of their own copy from there; and the factor by which
 * compute-bound work slows down while all the others work. 0 and 1 where not
 * measured. */
double planner_profile_bandwidth(const planner_profile *profile,
                                 clv_device *const *devs, uint32_t n);
double planner_profile_slowdown(const planner_profile *profile,
                                clv_device *const *devs, uint32_t n,
                                uint32_t index);

/* "md" or "json": samples, models and their errors, overheads, a device. */
clv_status planner_profile_print(const planner_profile *profile,
                                 clv_device *const *devs, uint32_t n,
                                 const char *format, char **out);

/* Where candidates and forecasts have their times from: a profile, or a table
 * made by hand. Functions as planner_profile_cost() and the others; none is
 * NULL. */
typedef struct planner_costs {
    const void *ctx;
    bool (*cost)(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out);
    const planner_overheads *(*overheads)(const void *ctx,
                                          const clv_device *dev);
    double (*bandwidth)(const void *ctx, clv_device *const *devs, uint32_t n);
    double (*slowdown)(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index);
} planner_costs;

/* The profile outlives it. */
planner_costs planner_costs_of(const planner_profile *profile);
/* As if all experts had equal chances. */
planner_costs planner_costs_of_equal(const planner_profile *profile);
