/*
 * The device front: the only place that calls a plugin's device slots.
 *
 * Arguments are checked before the slot is called and answers after it, so
 * plugins stay lean and a wrong answer is an error that names the device and
 * the slot. Optional slots that a plugin lacks answer their documented default.
 *
 * Loss. A device is lost once a slot has answered CLV_ERR_DEVICE_LOST (a
 * timeline that failed with it does not count), or once core_device_lose() was
 * called. Everything but the destructors answers that status then, and the
 * device works no more. After core_device_abandon() a device is lost too, but
 * may still be working. No slot of it is called again, destructors included:
 * memory that it may still write stays allocated and its module mapped.
 *
 * Waits end at the limit that the caller gives, unless the plugin's
 * timeline_wait() ignores its timeout. A slot that never returns is named in a
 * message (calls.h); execs give up some of them (exec/guard.h).
 *
 * Objects (buffer, timeline, program) belong to their device and must be gone
 * before the context is destroyed. Those of two devices never mix, except in
 * the waits of a submit. Threads: as plugin.h tags the slots, [dev] slots being
 * serialised here.
 */
#pragma once

#include "../context/context.h"

#include <stdatomic.h>

#define CORE_DEVICE_ID_SIZE 128

struct clv_device {
    clv_context *ctx;
    core_plugin *plugin;
    const clv_plugin_api *api; /* the plugin's, for short */
    clv_plugin_device *handle;
    char id[CORE_DEVICE_ID_SIZE]; /* "cpu", "vulkan:llvmpipe" */
    /* Another name for it, by its position among the plugin's devices:
     * "vulkan:0"; "" if one of them has that for its id. */
    char number[CORE_DEVICE_ID_SIZE];
    clv_device_info info;    /* checked */
    clv_mem_type *mem_types; /* checked; zero limits replaced, see below */
    uint32_t n_mem_types;
    uint32_t plugin_index; /* as enumerated */
    _Atomic bool lost, abandoned;

    _Atomic uint64_t local_bytes;   /* in its own memory, of this context, */
    _Atomic uint64_t state_bytes;   /* and of these those of graphs' states */
    _Atomic uint64_t reached_bytes; /* of weights that execs use in place, where
                                       its address space is limited */

    pthread_mutex_t mutex; /* serialises [dev] slots, and protects: */
    struct core_submit_scratch *scratch;

    pthread_mutex_t stage_mutex; /* of what exchange.c keeps: */
    struct core_stage *stage;
    uint32_t stage_users;
    uint64_t stage_bytes; /* that are to pass */

    pthread_mutex_t relayout_mutex; /* held while weights are brought into the
                                       device's layout, and protects: */
    struct core_relayout *relayout;
};

/* Makes a device of the plugin's index-th one and appends nothing: the caller
 * owns it. info: as enumerated; checked here. */
clv_status core_device_open(core_plugin *plugin, uint32_t index,
                            const clv_device_info *info, clv_device **out);
/* The id that the device has or would have. */
void core_device_id(const core_plugin *plugin, const clv_device_info *info,
                    char out[CORE_DEVICE_ID_SIZE]);
/* The number of the index-th of the plugin's n devices; see clv_device. */
void core_device_number(const core_plugin *plugin, const clv_device_info *infos,
                        uint32_t n, uint32_t index,
                        char out[CORE_DEVICE_ID_SIZE]);
/* NULL is legal. Everything made from it is gone. */
void core_device_close(clv_device *dev);

/* The part of a run's time that it may work, 0.05..1: max_share of its own
 * section, else of its plugin's. */
double core_device_max_share(const clv_device *dev);

/* Memory of its own counts up to max_memory of these sections. */
void core_device_limit_memory(clv_device *dev);

/* Nothing where the device moves on by itself. */
clv_status core_device_progress(clv_device *dev);

/* Moves at most *count finished records to out; *count becomes how many. None
 * where the device has no times. */
clv_status core_device_trace_read(clv_device *dev, uint32_t *count,
                                  clv_trace_record *out);
/* CLV_ERR_UNSUPPORTED where the device has no times. */
clv_status core_device_calibrate(clv_device *dev, clv_calibration *out);
