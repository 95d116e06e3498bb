/*
 * The device front: the only place that calls a plugin's device slots.
 *
 * Arguments are checked before the slot is called and answers after it, so
 * plugins stay lean and a wrong answer is an error that names the device and
 * the slot. Optional slots that a plugin lacks answer their documented default.
 *
 * Loss. A device is lost once a slot has said CLV_ERR_DEVICE_LOST of it (not of
 * a timeline that failed so), or core_device_lose() was called: everything but
 * the destructors answers that status. It has let go of its work by then. One
 * that was given up by core_device_abandon() may still be working: it is lost
 * too, and no slot of it is called again, destructors included. Its buffers,
 * programs, timelines and instance are never destroyed, so memory that it may
 * still write is not returned to the allocator, and its module stays mapped.
 *
 * Waits are bounded by the limit that the caller gives, as far as the plugin
 * lets go of the caller: a timeline_wait() that ignores its timeout and never
 * returns cannot be helped from inside the process.
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

    _Atomic uint64_t local_bytes; /* in its own memory, of this context */

    pthread_mutex_t mutex; /* serialises [dev] slots, and protects: */
    struct core_submit_scratch *scratch;

    pthread_mutex_t stage_mutex; /* of what exchange.c keeps: */
    struct core_stage *stage;
    uint32_t stage_users;
    uint64_t stage_bytes; /* that are to pass */
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

bool core_device_lost(const clv_device *dev);
bool core_device_abandoned(const clv_device *dev);
/* Its work failed, and it is not to be used any more. */
void core_device_lose(clv_device *dev);
/* It may still be working and will not be waited for any longer. Logged. */
void core_device_abandon(clv_device *dev);
/* Waits until everything submitted has ended, whether its timelines failed or
 * not: nothing touches the device's buffers when it returns. Abandons a device
 * that does not get there in time; timeout_ns as in core_timeline_wait(). */
clv_status core_device_settle(clv_device *dev, uint64_t timeout_ns);

/* ------------------------------------------------------------------------ */
/* Questions                                                                */

/* Consistency of a subgraph of ours: indices, ranks, strides, ranges. */
clv_status core_subgraph_check(const clv_subgraph *graph);
/* Bytes the tensor spans, by its strides, when symbols have these values
 * (NULL: their upper bounds). CLV_ERR_INVALID on overflow or part blocks. */
clv_status core_desc_size(const clv_tensor_desc *desc, const int64_t *symbols,
                          uint64_t *out);

/* out: one answer a node, initialised here. */
clv_status core_device_caps(clv_device *dev, const clv_subgraph *graph,
                            clv_op_caps *out);
/* Nothing where the device moves on by itself. */
clv_status core_device_progress(clv_device *dev);

/* Now, by the clock that the device's work takes time of: the host's monotonic
 * one, or the virtual one of a simulation; and the energy used so far. */
typedef struct core_moment {
    double ns, energy_nj; /* energy 0: unknown */
} core_moment;
/* A virtual clock that cannot be read is CLV_ERR_UNSUPPORTED. */
clv_status core_device_now(clv_device *dev, core_moment *out);

/* ------------------------------------------------------------------------ */
/* Buffers                                                                  */

/* mem_type: an index into dev->mem_types. There, alignment and import_align
 * are at least 1, max_size is the memory size or UINT64_MAX where the plugin
 * gave none, and flags and handle masks are limited to slots that exist. */
typedef struct core_buffer {
    clv_device *dev;
    clv_plugin_buffer *handle;
    uint64_t size;
    uint32_t mem_type;
    uint32_t access; /* CLV_ACCESS_* the device may use */
    bool counted;    /* in the device's local_bytes */
} core_buffer;

clv_status core_buffer_alloc(clv_device *dev, uint32_t mem_type, uint64_t size,
                             core_buffer **out);
/* The device's first memory type that imports handles of this kind; false if
 * there is none. */
bool core_device_import_type(const clv_device *dev, uint32_t handle_type,
                             uint32_t *mem_type);
/* import->header is filled in here. */
clv_status core_buffer_import(clv_device *dev, uint32_t mem_type,
                              const clv_import *import, core_buffer **out);
void core_buffer_free(core_buffer *buf); /* NULL is legal */
clv_status core_buffer_map(core_buffer *buf, uint32_t access, void **out);
void core_buffer_unmap(core_buffer *buf);
/* Nothing on coherent memory. */
clv_status core_buffer_flush(core_buffer *buf, uint64_t offset, uint64_t size);
clv_status core_buffer_invalidate(core_buffer *buf, uint64_t offset,
                                  uint64_t size);

/* ------------------------------------------------------------------------ */
/* Timelines                                                                */

typedef struct core_timeline {
    clv_device *dev;
    clv_plugin_timeline *handle;
    const uint64_t *flag; /* its flag word */
} core_timeline;

clv_status core_timeline_create(clv_device *dev, uint64_t value,
                                core_timeline **out);
void core_timeline_destroy(core_timeline *tl); /* NULL is legal */
clv_status core_timeline_query(core_timeline *tl, clv_timeline_info *out);
clv_status core_timeline_signal(core_timeline *tl, uint64_t value);
clv_status core_timeline_fail(core_timeline *tl, clv_status status,
                              const char *message);
/* The value reached, by the flag word: no slot is called. */
uint64_t core_timeline_reached(const core_timeline *tl);
/* Whether it failed, likewise. */
bool core_timeline_failed(const core_timeline *tl);
/* Polls for spin_ns, then blocks; calls progress() where the device needs it.
 * CLV_ERR_TIMEOUT after timeout_ns (UINT64_MAX: never). A failed timeline
 * answers its status, with its message. What the plugin says is checked: an OK
 * that neither flag word nor query bears out is CLV_ERR_INTERNAL, and a timeout
 * that comes too early is waited on. */
clv_status core_timeline_wait(core_timeline *tl, uint64_t value,
                              uint64_t spin_ns, uint64_t timeout_ns);

/* ------------------------------------------------------------------------ */
/* Programs                                                                 */

typedef struct core_binding {
    uint32_t tensor; /* index in the subgraph */
    core_buffer *buffer;
    uint64_t offset, size; /* bytes */
} core_binding;

typedef struct core_compile {
    const clv_subgraph *graph;
    const core_binding *weights; /* every CLV_USAGE_WEIGHT tensor */
    uint32_t n_weights;
    const char *options;                        /* plugin-specific, or NULL */
    int (*progress)(void *ctx, float fraction); /* non-zero cancels */
    void *progress_ctx;
} core_compile;

typedef struct core_program {
    clv_device *dev;
    clv_plugin_program *handle;
    clv_program_info info;
    /* Copies of the subgraph's, to check submits against. */
    clv_tensor_desc *tensors;
    clv_symbol_range *symbols;
    uint32_t n_tensors, n_symbols;
    uint32_t n_bound; /* tensors that a run must bind */
} core_program;

/* Whether its programs can be serialised and loaded. */
bool core_device_serialises(const clv_device *dev);
clv_status core_program_compile(clv_device *dev, const core_compile *compile,
                                core_program **out);
void core_program_destroy(core_program *prog); /* NULL is legal */
/* CLV_ERR_UNSUPPORTED where programs cannot be serialised. write answers CLV_OK
 * or the status to give up with. */
clv_status core_program_serialize(
    core_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx);
/* verdict: clv_verdict; CLV_VERDICT_FOREIGN where programs cannot be
 * serialised. */
clv_status core_program_validate(clv_device *dev, const core_compile *compile,
                                 const clv_blob *blob, uint32_t *verdict);
clv_status core_program_load(clv_device *dev, const core_compile *compile,
                             const clv_blob *blob, core_program **out);
/* The plugin's part of a cache key; CLV_ERR_UNSUPPORTED where it has none. */
clv_status core_program_key(clv_device *dev, const core_compile *compile,
                            uint8_t key[32]);

/* ------------------------------------------------------------------------ */
/* Work                                                                     */

typedef struct core_command {
    uint32_t kind; /* clv_command_kind */
    /* RUN: bindings of every tensor but the weights, each once */
    core_program *program;
    const core_binding *bindings;
    uint32_t n_bindings;
    const int64_t *symbols; /* [program->n_symbols] */
    /* COPY, FILL */
    core_buffer *src, *dst;
    uint64_t src_offset, dst_offset, size;
    uint32_t pattern;
} core_command;

/* To wait for another device's timeline, the waiting one must have
 * CLV_DEVICE_FLAG_WAIT; signals are of the device itself. */
typedef struct core_point {
    core_timeline *timeline;
    uint64_t value;
} core_point;

typedef struct core_submit {
    const core_command *commands;
    uint32_t n_commands;
    const core_point *waits, *signals;
    uint32_t n_waits, n_signals;
    uint64_t correlation; /* copied to trace records; 0: do not record */
} core_submit;

/* Does not block. CLV_ERR_LIMIT: queue_depth submits are in flight; wait for
 * one and submit again. */
clv_status core_device_submit(clv_device *dev, const core_submit *submit);

/* Moves at most *count finished records to out; *count becomes how many. None
 * where the device has no times. */
clv_status core_device_trace_read(clv_device *dev, uint32_t *count,
                                  clv_trace_record *out);
/* CLV_ERR_UNSUPPORTED where the device has no times. */
clv_status core_device_calibrate(clv_device *dev, clv_calibration *out);
