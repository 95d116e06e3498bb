/*
 * Timelines that other devices of the instance may watch without the host. They
 * lie in pages of the host's memory, which each device imports when it first
 * watches a timeline there. Pages stay until the instance is destroyed, so that
 * an import never shows memory that has become something else.
 */
#pragma once

#include <cleave/plugin_queue.h>

#include "instance.h"

typedef struct vk_timeline {
    clv_plugin_timeline base; /* begins with the flag word */
    /* By the work that the device has done so far, which writes it itself,
     * before the host knows; UINT64_MAX once the timeline has failed. */
    uint64_t reached __attribute__((aligned(128)));
    /* Atomic. The value that `reached` will have by what the driver was given.
     */
    uint64_t handed __attribute__((aligned(128)));
    uint32_t watched; /* another device would wait for `reached`; atomic */
} vk_timeline;

void vk_timelines_init(clv_plugin_instance *inst);
/* Once there are no timelines. */
void vk_timelines_finish(clv_plugin_instance *inst);

/* Slots. Where there is no page with space, it cannot be watched. */
clv_status vk_timeline_create(clv_plugin_device *dev, uint64_t value,
                              clv_plugin_timeline **out);
clv_status vk_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                            const char *message);

/* The timeline of a flag word, and its page in inst->timelines; NULL: it lies
 * in none, and so it may be another plugin's. */
vk_timeline *vk_timeline_find(const clv_plugin_instance *inst,
                              const uint64_t *flag, uint32_t *page);
/* Those that a submit would have signalled have failed. */
void vk_timelines_failed(const clv_plugin_instance *inst,
                         const clv_submit *submit);
