/*
 * The inside of a profile: samples of each device by work, and a model for each
 * kind of work that was fitted to them.
 *
 * The lock is held for writing only while samples are taken over and models
 * replaced, not while devices are measured: queries go on meanwhile. One
 * cover() at a time measures.
 */
#pragma once

#include "history.h"
#include "profile.h"

#include <pthread.h>

/* Sizes of works, each from its least to its largest value. */
typedef struct planner_workload_box {
    int64_t least[4], most[4]; /* n, in, out, depth */
} planner_workload_box;

typedef struct planner_profile_kind {
    planner_workload_kind kind;
    uint64_t hash;
    planner_fit fit; /* n_samples 0: no model */
    double nj_ns;    /* energy for a ns of such work; 0: unknown */
    bool has_covered;
    planner_workload_box covered; /* sizes that samples were chosen for */
} planner_profile_kind;

/* What is known of a device, and of others that are the same by their hash:
 * cards of one model. */
typedef struct planner_profile_device {
    clv_device *dev;         /* the first of them */
    uint64_t hash;           /* planner_profile_device_hash() */
    char *key;               /* of its file: what the measurements belong to */
    char *path;              /* of its file; NULL: nothing is kept */
    planner_sample *samples; /* each work once; ns 0: cannot be measured */
    uint32_t n_samples, samples_capacity;
    uint32_t *slots;  /* hash table: 1 + index of a sample, 0: empty */
    uint32_t n_slots; /* a power of two, or 0 */
    planner_profile_kind *kinds;
    uint32_t n_kinds;
    uint64_t *done; /* graphs for which nothing is missing: their
                       fingerprints, turned if fully measured */
    uint32_t n_done;
    /* The highest rates among samples, a ns; 0: there are none. */
    double top_bytes, top_flops;
    /* Of a simulated device whose times are random: samples are as if it took
     * so long for the reference; now it takes `pace` times as long, if that is
     * not 0. */
    planner_reference standard;
    double pace;
    planner_programs programs;    /* what compiling takes */
    bool retaken;                 /* noisy samples, by this process */
    planner_overheads *overheads; /* NULL: not measured */
    planner_overheads **retired;  /* answered before; somebody may hold them */
    uint32_t n_retired;
} planner_profile_device;

/* Devices measured together. */
typedef struct planner_profile_set {
    clv_device **devices; /* [n] in the context's order */
    uint32_t n;
    planner_contention contention;
} planner_profile_set;

/* How devices are measured: by a meter, or by a test's functions. Each as in
 * measure.h. */
typedef struct planner_profile_source {
    clv_status (*open)(clv_context *ctx, const planner_meter_params *params,
                       planner_meter **out);
    void (*close)(planner_meter *meter);
    clv_status (*workload)(planner_meter *meter, clv_device *dev,
                           const planner_workload *workload,
                           planner_sample *out);
    clv_status (*overheads)(planner_meter *meter, clv_device *dev,
                            planner_overheads *out);
    /* Those of copies alone, n times. NULL: not known. */
    clv_status (*copies)(clv_device *dev, uint32_t n, bool noisy,
                         planner_overheads *out);
    clv_status (*contention)(planner_meter *meter, clv_device *const *devs,
                             uint32_t n, planner_contention *out);
    /* NULL: not known. */
    const planner_program_time *(*programs)(planner_meter *meter, uint32_t *n);
    /* Time that other processes have been at work on the machine's processors,
     * ns, since some moment. NULL: not known. */
    double (*others)(void);
} planner_profile_source;

typedef struct planner_profile_entry {
    const clv_device *dev;
    planner_profile_device *known;
} planner_profile_entry;

struct planner_profile {
    clv_context *ctx;
    const planner_profile_source *source;
    pthread_mutex_t measuring; /* taken before lock */
    planner_meter *kept; /* under measuring: a quick one, between surveys */
    uint32_t keepers;
    pthread_rwlock_t lock; /* of all below */
    planner_profile_device **devices;
    planner_profile_entry *entries; /* one for each device */
    uint32_t n_devices, n_entries;
    planner_profile_set *sets;
    uint32_t n_sets;
    planner_history history; /* has a lock of its own */
};

/* ------------------------------------------------------------------------ */
/* store.c: under the lock                                                  */

planner_profile_device *planner_profile_find(const planner_profile *profile,
                                             const clv_device *dev);
/* Finds or makes it; that of a device which is the same serves both. NULL when
 * memory runs out. */
planner_profile_device *planner_profile_add_device(planner_profile *profile,
                                                   clv_device *dev);
/* Forgets all that was measured. */
void planner_profile_forget(planner_profile_device *dev);
/* Something else ran meanwhile: a model of quieter ones is better, and it is
 * measured again by the next process. */
bool planner_profile_is_noisy(const planner_sample *sample);
void planner_profile_mark_noisy(planner_sample *sample);
/* Some that is to be measured again. */
bool planner_profile_has_noisy(const planner_profile_device *dev);
const planner_sample *planner_profile_sample(const planner_profile_device *dev,
                                             const planner_workload *workload);
planner_profile_kind *
planner_profile_kind_of(const planner_profile_device *dev,
                        const planner_workload_kind *kind);
/* By how much something takes longer now than at the standard's pace, that
 * becomes longer and shorter with it to a part. */
double planner_profile_drift(const planner_profile_device *dev, double drifts);
/* A sample that was just measured, at the standard's pace; the first one sets
 * it. */
void planner_profile_to_standard(planner_profile_device *dev,
                                 planner_sample *sample);
/* Adds a sample or replaces that of the same work. */
clv_status planner_profile_add_sample(planner_profile_device *dev,
                                      const planner_sample *sample);
/* Notes that samples were chosen for these sizes of a kind. */
clv_status planner_profile_note_covered(planner_profile_device *dev,
                                        const planner_workload_kind *kind,
                                        const planner_workload_box *box);
/* Fits the model of a kind to its samples. */
clv_status planner_profile_fit_kind(planner_profile_device *dev,
                                    planner_profile_kind *kind);
/* Notes and tells that nothing is missing for a graph. */
bool planner_profile_is_done(const planner_profile_device *dev,
                             const clv_graph *graph, bool full);
clv_status planner_profile_note_done(planner_profile_device *dev,
                                     const clv_graph *graph, bool full);
clv_status planner_profile_set_overheads(planner_profile_device *dev,
                                         const planner_overheads *overheads);
/* Adds or replaces what is known of these devices together; takes over the
 * arrays of contention. */
clv_status planner_profile_add_set(planner_profile *profile,
                                   clv_device *const *devs, uint32_t n,
                                   const planner_contention *contention);

/* ------------------------------------------------------------------------ */
/* others.c: measurements that others disturb                               */

/* As the source has it; 0 for devices that do not follow the host's clock. */
double planner_others_of(const planner_profile *profile, const clv_device *dev);
/* Marks the samples if others were at work so much of the time since start,
 * when they had been so for `others` ns, that they count as noisy. */
void planner_mark_disturbed(const planner_profile *profile,
                            const clv_device *dev, planner_sample *samples,
                            uint32_t n, double others, uint64_t start);

/* ------------------------------------------------------------------------ */
/* features.c: what decides the time of a work of some kind                 */

/* At most PLANNER_FIT_FEATURES. */
uint32_t planner_workload_features(const planner_workload *workload, double *x);

/* ------------------------------------------------------------------------ */
/* workload_list.c: which works are worth measuring for a graph on a device */

typedef struct planner_wanted {
    planner_workload workload;
    uint32_t rank; /* 1: first */
} planner_wanted;

typedef struct planner_workloads {
    planner_wanted *items; /* by rank; each work once */
    uint32_t n, capacity;
} planner_workloads;

/* caps: the device's answers for the graph's nodes. */
clv_status planner_profile_workloads(const clv_graph *graph,
                                     const clv_op_caps *caps, bool full,
                                     planner_workloads *out);
/* A single row of the largest matrix product of the graph that moves no more
 * than most_bytes, and all its rows: from these two the device's roofline is
 * known. Then all rows of a few of its columns, for what small parts take.
 * Nothing where it takes none. */
clv_status planner_profile_main_workloads(const clv_graph *graph,
                                          const clv_op_caps *caps,
                                          uint64_t most_bytes,
                                          planner_workloads *out);
void planner_workloads_finish(planner_workloads *list);

void planner_workload_box_add(planner_workload_box *box, bool *any,
                              const planner_workload *workload);
/* Or is so near to it that models may be trusted. */
bool planner_workload_box_holds(const planner_workload_box *box,
                                const planner_workload *workload);

/* ------------------------------------------------------------------------ */
/* keep.c: files in the cache                                               */

/* Finds out key and path of the device's file. */
clv_status planner_profile_name(planner_profile *profile,
                                planner_profile_device *dev);
/* Takes over what the file has. Only CLV_ERR_NO_MEMORY is an error; a file that
 * is of no use is named in the log. */
clv_status planner_profile_load(planner_profile *profile,
                                planner_profile_device *dev);
/* A failure is logged. */
void planner_profile_save(planner_profile *profile,
                          const planner_profile_device *dev);
clv_status planner_profile_load_set(planner_profile *profile,
                                    clv_device *const *devs, uint32_t n,
                                    const planner_workload_kind *weights);
void planner_profile_save_set(planner_profile *profile, clv_device *const *devs,
                              uint32_t n);

/* ------------------------------------------------------------------------ */
/* format.c: what the files hold                                            */

clv_status planner_profile_format(const planner_profile_device *dev,
                                  char **out);
/* Takes over what text has, if it belongs to dev->key. CLV_ERR_FORMAT says what
 * is wrong with it, CLV_ERR_VERSION that it belongs to something else. Nothing
 * is taken over on failure. */
clv_status planner_profile_parse(planner_profile_device *dev, const char *text,
                                 uint64_t size);
clv_status planner_profile_format_set(const planner_profile_set *set,
                                      const char *key, char **out);
/* contention: arrays of n. */
clv_status planner_profile_parse_set(const char *text, uint64_t size,
                                     const char *key, uint32_t n,
                                     planner_contention *contention);
