/*
 * The private memory of programs: scratch, and repacked weights, which the
 * programs of a device share.
 */
#pragma once

#include "cached.h"

#include <pthread.h>

/* The repacked weights of a device, and its scratch. */
typedef struct gpu_cache {
    pthread_mutex_t lock; /* held while new ones are filled, too */
    gpu_cached *list;
    bool is_full; /* there was no memory for all weights; atomic */
} gpu_cache;

/* What a plugin does. */
typedef struct gpu_privates_plugin {
    size_t size; /* of what it knows of a private buffer or image */
    /* Fills in memory, which is zeros, and the bytes taken. After a failure,
     * too, it is to be destroyed. */
    clv_status (*create)(clv_plugin_program *prog, const gpu_private *code,
                         void *memory, uint64_t *size);
    void (*destroy)(clv_plugin_program *prog, void *memory);
    gpu_place_of place_of; /* ctx: the program */
    /* Runs dispatches of the setup to their end. */
    clv_status (*set_up)(clv_plugin_program *prog,
                         const gpu_dispatch *dispatches, uint32_t n);
} gpu_privates_plugin;

/* Of a program; arrays of code->n_privates. */
typedef struct gpu_privates {
    void *memory;        /* of the plugin's size each */
    gpu_cached **cached; /* shared with other programs, or NULL */
    bool *made;          /* what this program is the first to use, to fill */
    uint64_t scratch_size;
    uint64_t weights_size; /* of weights that no other program made before */
    uint64_t fitting; /* bytes of weights, those of other programs counted, of
                         the first buffers up to the one that found no memory */
} gpu_privates;

/* Makes them, and runs the setup. After a failure only fitting is set. apart:
 * the program may run beside others of the device, so its scratch is its own.
 */
clv_status gpu_privates_make(const gpu_privates_plugin *plugin,
                             const clv_host_api *host, clv_plugin_program *prog,
                             const gpu_code *code, bool apart, gpu_cache *cache,
                             gpu_privates *p);
/* Of a program without any, too; code may be NULL then. */
void gpu_privates_free(const gpu_privates_plugin *plugin,
                       const clv_host_api *host, clv_plugin_program *prog,
                       const gpu_code *code, gpu_cache *cache, gpu_privates *p);

/* A compilation in which repacked weights take `most` bytes at most. *fitting,
 * after a failure: as in gpu_privates. */
typedef clv_status (*gpu_try_compile)(clv_plugin_device *dev,
                                      const clv_compile *compile, uint64_t most,
                                      uint64_t *fitting,
                                      clv_plugin_program **out);
/* Repacked weights are a second copy, for which there may be no memory though
 * the host allows it. Then tries again with a part of what there was memory
 * for, and at last without; a warning says so once. device: its name for
 * people. */
clv_status gpu_compile_repacked(clv_plugin_device *dev, const char *device,
                                const gpu_target *target, gpu_cache *cache,
                                const clv_compile *compile,
                                gpu_try_compile try_compile,
                                clv_plugin_program **out);
