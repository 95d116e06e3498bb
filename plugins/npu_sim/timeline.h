#pragma once

#include "device.h"

#include <stdatomic.h>

#define NPU_MESSAGE_SIZE 128

struct clv_plugin_timeline {
    _Atomic uint64_t flag; /* alone on its cache line */
    char padding[64 - sizeof(uint64_t)];
    clv_plugin_instance *inst;
    clv_plugin_device *dev;
    clv_plugin_timeline *next, **link; /* of the instance's list */
    uint32_t refs;       /* the host's, and one a point of a job */
    uint64_t computed;   /* value that results have reached */
    npu_counter counter; /* and that simulated time has */
    clv_status status;
    char message[NPU_MESSAGE_SIZE];
};

clv_status npu_timeline_create(clv_plugin_device *dev, uint64_t value,
                               clv_plugin_timeline **out);
void npu_timeline_destroy(clv_plugin_timeline *tl);
clv_status npu_timeline_query(clv_plugin_timeline *tl, clv_timeline_info *out);
clv_status npu_timeline_signal(clv_plugin_timeline *tl, uint64_t value);
clv_status npu_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                             const char *message);
clv_status npu_timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns);

/* All with the lock held. */
void npu_timeline_drop(clv_plugin_timeline *tl); /* one reference */
void npu_timeline_computed(clv_plugin_timeline *tl, uint64_t value);
void npu_timeline_failed(clv_plugin_timeline *tl, clv_status status,
                         const char *message);
/* Flag words are brought up to date, after simulated time moved. */
void npu_timelines_publish(clv_plugin_instance *inst);
/* The instance's timeline of a flag word; NULL: somebody else's. */
clv_plugin_timeline *npu_timeline_of(const clv_plugin_instance *inst,
                                     const uint64_t *flag);
