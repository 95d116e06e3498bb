/*
 * What a context holds, and what a loaded plugin is.
 *
 * The context owns its plugins and devices; a device points to its plugin, a
 * plugin to its context. Plugins are appended while the context is created and
 * removed while it is destroyed, in reverse; in between the lists are constant,
 * so they are read without a lock.
 */
#pragma once

#include <cleave/cleave.h>

#include <pthread.h>
#include <stdatomic.h>

struct core_loader;
struct core_manifest;
struct core_module;
struct core_trace;
struct core_workers;

/* A plugin whose instance runs. */
typedef struct core_plugin {
    clv_context *ctx;
    clv_plugin_api api; /* full-size copy: slots the plugin lacks are
                           NULL. Its strings lie in the plugin */
    clv_plugin_instance *instance;
    clv_host_api host; /* given to the plugin; host.host is this */
    char *path, *dir;  /* of its file, absolute */
    char *name;        /* by its manifest */
    char *cache_dir;   /* its part of the context's, "" if none */
    struct core_module *module;
    struct core_manifest *manifest;
    uint32_t abi_version;  /* negotiated */
    bool declared;         /* its options are in the configuration */
    _Atomic bool kept;     /* never torn down; see unreleased.h */
    pthread_mutex_t mutex; /* serialises [inst] slots */
} core_plugin;

/* Of slots that have not returned; calls.h of the devices. */
typedef struct core_calls {
    pthread_mutex_t mutex; /* protects all of it */
    pthread_cond_t stopped;
    struct core_call *first;
    pthread_t thread;
    bool watched, stop;
} core_calls;

typedef struct core_kernel_sums {
    pthread_mutex_t mutex; /* protects the rest */
    clv_kernel_sum *sums;
    uint32_t n, capacity;
} core_kernel_sums;

typedef struct core_ns_span {
    uint64_t begin, end;
} core_ns_span;

typedef struct core_spans {
    core_ns_span *list;
    uint32_t n, capacity;
} core_spans;

typedef struct core_used_device {
    const struct clv_device *dev;
    core_spans work;
} core_used_device;

/* Of runs that were traced; device_use.h. */
typedef struct core_device_use {
    pthread_mutex_t mutex; /* protects the rest */
    core_used_device *devices;
    uint32_t n, capacity;
    core_spans runs[2]; /* in real time, in virtual time */
    bool incomplete;    /* there was no room for some span */
} core_device_use;

struct clv_context {
    clv_config *config;
    bool owns_config;
    pthread_rwlock_t log_lock; /* read while log is called */
    clv_log_fn log;
    void *log_ctx;
    clv_objective objective;  /* core.objective */
    uint32_t log_level;       /* most detailed level wanted */
    clv_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    struct core_trace *trace;
    core_kernel_sums kernel_sums;
    core_device_use device_use;
    struct core_loader *loader; /* outcome of every candidate */
    /* What the layer that makes plans keeps with the context. It sets all
     * under planner_mutex when it is first used. */
    pthread_mutex_t planner_mutex;
    void *planner;
    void (*planner_destroy)(void *planner);
    uint64_t file_room;    /* bytes of memory for weights in files; 0: not asked
                              for yet */
    double file_speed;     /* bytes a ns of reading them; 0: not known */
    atomic_bool file_told; /* that not all of them find room */

    /* The runs in flight of what executes plans, likewise. */
    _Atomic(void *) flight;
    void (*flight_destroy)(void *flight);
    /* How often contents of some state have moved, or been written, in memory
     * of devices, so that they are elsewhere than before; states.h. */
    _Atomic uint64_t state_moves;

    /* Of programs made for execs; program_cache.c. */
    _Atomic uint64_t programs_compiled, programs_loaded;
    _Atomic uint64_t programs_ns[2]; /* by clv_clock */
    _Atomic bool program_cache_failed;

    core_plugin **plugins;
    clv_device **devices; /* in preference order */
    uint32_t n_plugins, n_devices;

    core_calls calls;

    /* Host threads for clv_host_api.parallel_for, made by the first use. */
    pthread_mutex_t workers_mutex;
    struct core_workers *workers;
    uint32_t n_workers; /* how many there are or would be */
};

/* From now on the plugin is never torn down, nor its context freed. */
void core_plugin_keep(core_plugin *plugin);

/* Tells the application of long work; CLV_ERR_CANCELLED when it wants no more
 * of it. */
clv_status core_context_progress(clv_context *ctx, const char *what,
                                 double fraction);

/* core.wait_timeout; UINT64_MAX: none. */
uint64_t core_context_wait_ns(const clv_context *ctx);

/* A directory in core.cache_dir, for free(); NULL: there is none, or no memory.
 */
char *core_context_cache(const clv_context *ctx, const char *name);

/* Ids of devices for a message, as many as fit; starts empty. */
typedef struct core_id_list {
    char text[512];
} core_id_list;
void core_id_list_add(core_id_list *list, const char *id);
