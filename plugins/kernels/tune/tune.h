/*
 * Tuning: finds the fastest variant of a node on a device.
 *
 * Choices are in the host's cache, an entry for each key of gpu_variants,
 * so that what was tried once holds for every later start.
 */
#pragma once

#include "kernels.h"
#include "lower/variant.h"

#include <pthread.h>

/* What trials and tuning ask of a plugin. Slots of api are called while others
 * may be, those that submit too; a compilation that is asked for has the choice
 * it is to use as its options, and starts no tuning. */
typedef struct gpu_tuner {
    const clv_host_api *host;
    const clv_plugin_api *api;
    clv_plugin_device *dev;
    const gpu_target *target; /* without choices */
    const char *device;       /* its name, for people */
    bool software;            /* it is no GPU */
    bool timed;               /* it can measure */
    pthread_mutex_t *lock;    /* measuring one graph at a time keeps times
                                 right */
    const char *identity;     /* plugin, driver and device, in the cache */
    /* Fills sweep, if any, then runs the program; *ns: how long that took on
     * the device. */
    clv_status (*time)(clv_plugin_device *dev, clv_plugin_program *program,
                       const clv_binding *bindings, uint32_t n,
                       clv_plugin_buffer *sweep, uint64_t *ns);
} gpu_tuner;

/* gpu_lower(), with the variants that the compilation's options name, or else
 * those that the plugin's option "tune" wants: what was found before, or is
 * measured now. What cannot be measured (memory is short, say) is left to the
 * kernels. most: bytes that second copies of weights may take. */
clv_status gpu_lower_tuned(const gpu_tuner *tuner, const clv_compile *compile,
                           uint64_t most, gpu_code **out);

/* The choices for the graph's nodes: text for gpu_target.choices, NULL if there
 * are none, to be freed by the host's free(). An error: the device is lost, or
 * the host's memory ran out. */
clv_status gpu_choose(const gpu_tuner *tuner, const clv_compile *compile,
                      char **choices);

/* The variants of node i; n is 0 if it is not taken or has only one. */
void gpu_list_variants(const gpu_target *target, const clv_subgraph *graph,
                       uint32_t i, gpu_variants *out);
