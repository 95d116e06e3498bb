/*
 * The inside of a profile: samples of each device by work, and a model for each
 * kind of work that was fitted to them.
 *
 * The lock is held for writing only while samples are taken over and models
 * replaced, not while devices are measured: queries go on meanwhile. One
 * cover() at a time measures.
 */
#pragma once

#include "profile.h"

#include <pthread.h>

/* Sizes of works, each from its least to its largest value. */
typedef struct core_work_box {
    int64_t least[4], most[4]; /* n, in, out, depth */
} core_work_box;

typedef struct core_profile_kind {
    core_work_kind kind;
    uint64_t hash;
    core_fit fit; /* n_samples 0: no model */
    double nj_ns; /* energy for a ns of such work; 0: unknown */
    bool has_covered;
    core_work_box covered; /* sizes that samples were chosen for */
} core_profile_kind;

typedef struct core_profile_device {
    clv_device *dev;
    char *key;            /* of its file: what the measurements belong to */
    char *path;           /* of its file; NULL: nothing is kept */
    core_sample *samples; /* each work once; ns 0: cannot be measured */
    uint32_t n_samples, samples_capacity;
    uint32_t *slots;  /* hash table: 1 + index of a sample, 0: empty */
    uint32_t n_slots; /* a power of two, or 0 */
    core_profile_kind *kinds;
    uint32_t n_kinds;
    uint64_t *done; /* graphs for which nothing is missing: their
                       fingerprints, turned if fully measured */
    uint32_t n_done;
    core_overheads *overheads; /* NULL: not measured */
    core_overheads **retired;  /* answered before; somebody may hold them */
    uint32_t n_retired;
} core_profile_device;

/* Devices measured together. */
typedef struct core_profile_set {
    clv_device **devices; /* [n] in the context's order */
    uint32_t n;
    core_contention contention;
} core_profile_set;

/* How devices are measured: by a meter, or by a test's functions. Each as in
 * measure.h. */
typedef struct core_profile_source {
    clv_status (*open)(clv_context *ctx, const core_meter_params *params,
                       core_meter **out);
    void (*close)(core_meter *meter);
    clv_status (*work)(core_meter *meter, clv_device *dev,
                       const core_work *work, core_sample *out);
    clv_status (*overheads)(core_meter *meter, clv_device *dev,
                            core_overheads *out);
    clv_status (*contention)(core_meter *meter, clv_device *const *devs,
                             uint32_t n, core_contention *out);
} core_profile_source;

struct core_profile {
    clv_context *ctx;
    const core_profile_source *source;
    pthread_mutex_t measuring; /* taken before lock */
    core_meter *kept; /* under measuring: a quick one, between surveys */
    uint32_t keepers;
    pthread_rwlock_t lock; /* of all below */
    core_profile_device **devices;
    uint32_t n_devices;
    core_profile_set *sets;
    uint32_t n_sets;
};

/* ------------------------------------------------------------------------ */
/* store.c: under the lock                                                  */

core_profile_device *core_profile_find(const core_profile *profile,
                                       const clv_device *dev);
/* Finds or makes it. NULL when memory runs out. */
core_profile_device *core_profile_add_device(core_profile *profile,
                                             clv_device *dev);
/* Forgets all that was measured. */
void core_profile_forget(core_profile_device *dev);
/* Something else ran meanwhile: a model of quieter ones is better. */
bool core_profile_is_noisy(const core_sample *sample);
const core_sample *core_profile_sample(const core_profile_device *dev,
                                       const core_work *work);
core_profile_kind *core_profile_kind_of(const core_profile_device *dev,
                                        const core_work_kind *kind);
/* Adds a sample or replaces that of the same work. */
clv_status core_profile_add_sample(core_profile_device *dev,
                                   const core_sample *sample);
/* Notes that samples were chosen for these sizes of a kind. */
clv_status core_profile_note_covered(core_profile_device *dev,
                                     const core_work_kind *kind,
                                     const core_work_box *box);
/* Fits the model of a kind to its samples. */
clv_status core_profile_fit_kind(core_profile_device *dev,
                                 core_profile_kind *kind);
/* Notes and tells that nothing is missing for a graph. */
bool core_profile_is_done(const core_profile_device *dev,
                          const clv_graph *graph, bool full);
clv_status core_profile_note_done(core_profile_device *dev,
                                  const clv_graph *graph, bool full);
clv_status core_profile_set_overheads(core_profile_device *dev,
                                      const core_overheads *overheads);
/* Adds or replaces what is known of these devices together; takes over the
 * arrays of contention. */
clv_status core_profile_add_set(core_profile *profile, clv_device *const *devs,
                                uint32_t n, const core_contention *contention);

/* ------------------------------------------------------------------------ */
/* features.c: what decides the time of a work of some kind                 */

/* At most CORE_FIT_FEATURES. */
uint32_t core_work_features(const core_work *work, double *x);

/* ------------------------------------------------------------------------ */
/* wants.c: which works are worth measuring for a graph on a device         */

typedef struct core_want {
    core_work work;
    uint32_t rank; /* 1: first */
} core_want;

typedef struct core_wants {
    core_want *items; /* by rank; each work once */
    uint32_t n, capacity;
} core_wants;

/* caps: the device's answers for the graph's nodes. */
clv_status core_profile_wants(const clv_graph *graph, const clv_op_caps *caps,
                              bool full, core_wants *out);
void core_wants_finish(core_wants *wants);

void core_work_box_add(core_work_box *box, bool *any, const core_work *work);
/* Or is so near to it that models may be trusted. */
bool core_work_box_holds(const core_work_box *box, const core_work *work);

/* ------------------------------------------------------------------------ */
/* keep.c: files in the cache                                               */

/* Finds out key and path of the device's file. */
clv_status core_profile_name(core_profile *profile, core_profile_device *dev);
/* Takes over what the file has. Only CLV_ERR_NO_MEMORY is an error; a file that
 * is of no use is named in the log. */
clv_status core_profile_load(core_profile *profile, core_profile_device *dev);
/* A failure is logged. */
void core_profile_save(core_profile *profile, const core_profile_device *dev);
clv_status core_profile_load_set(core_profile *profile, clv_device *const *devs,
                                 uint32_t n);
void core_profile_save_set(core_profile *profile, clv_device *const *devs,
                           uint32_t n);

/* ------------------------------------------------------------------------ */
/* format.c: what the files hold                                            */

clv_status core_profile_format(const core_profile_device *dev, char **out);
/* Takes over what text has, if it belongs to dev->key. CLV_ERR_FORMAT says what
 * is wrong with it, CLV_ERR_VERSION that it belongs to something else. Nothing
 * is taken over on failure. */
clv_status core_profile_parse(core_profile_device *dev, const char *text,
                              uint64_t size);
clv_status core_profile_format_set(const core_profile_set *set, const char *key,
                                   char **out);
/* contention: arrays of n. */
clv_status core_profile_parse_set(const char *text, uint64_t size,
                                  const char *key, uint32_t n,
                                  core_contention *contention);
