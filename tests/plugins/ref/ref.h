/*
 * The reference plugin: every slot of the ABI by the plainest means. Two
 * devices, each with a worker thread for each queue, run all ops in loops over
 * doubles. Options of a device choose what it takes, which memory it has, how
 * it waits and how it fails, so that tests meet every branch of the contract.
 *
 *   query.c     the entry           plugin.c    the table
 *   settings.c  the options
 *   device.c    instance, devices   buffer.c    memory
 *   timeline.c  completion          queue.c     the worker, running a job
 *   submit.c    a submit made a job trace.c     device times
 *   caps.c      what is taken       check.c     operands of an op
 *   program.c   compiled graphs     serialize.c programs as bytes
 *   tensor.c    elements            ops.c       the ops
 */
#pragma once

#include <cleave/plugin_format.h>
#include <cleave/plugin_node.h>
#include <cleave/plugin_submit.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* The plugin is compiled under other names too: tests change its slots. */
#ifndef REF_NAME
#define REF_NAME "ref"
#endif
#ifndef REF_KIND
#define REF_KIND CLV_DEVICE_OTHER
#define REF_KINDS "other"
#endif

#define REF_DEVICES 2
#define REF_MAX_STATIC 8
#define REF_MAX_DEPTH 64
#define REF_MAX_QUEUES 3
#define REF_MAX_RECORDS 256
#define REF_MESSAGE_SIZE 128 /* as in clv_timeline_info */
#define REF_PAGE 4096u
/* Rows of a block of CLV_LAYOUT_PRIVATE, which lie in it last first. */
#define REF_PRIVATE_ROWS 4

/* ------------------------------------------------------------------------ */
/* Settings (settings.c)                                                     */

typedef enum ref_memory {
    REF_MEMORY_COHERENT = 0, /* the host's own; imports host pointers */
    REF_MEMORY_SHADOW = 1,   /* the device has a copy: flush and invalidate
                                move bytes between it and the host's */
    REF_MEMORY_LOCAL = 2,    /* the host cannot map it */
    REF_MEMORY_SHARED = 3,   /* behind a descriptor; imports and exports them */
    REF_MEMORY_COUNT
} ref_memory;

/* clv_variant.id. */
enum {
    REF_VARIANT_BACKWARD = 3, /* sums from the last input feature on */
    REF_VARIANT_HALVES = 7,   /* activations are rounded to F16 */
};

/* Whether it prefers another layout; fickle: and then does not take it. */
typedef struct ref_layouts {
    bool prefers, fickle;
} ref_layouts;

/* Of one device; settings.h says what each means. */
typedef struct ref_settings {
    bool takes[CLV_OP_COUNT];
    bool variants; /* of products: REF_VARIANT_* */
    bool flag_wait, is_virtual, import_writable, hide, in_place, progress,
        split, repacks;
    uint32_t pointers, descriptors; /* that it imports, CLV_HANDLE_* */
    ref_layouts states, weights;
    uint32_t trace_nodes; /* records of a node */
    uint32_t trace_fused; /* nodes that have them together */
    uint32_t fail_after, delay_us, queue_depth, copy_queues, max_programs,
        tick_ns;
    uint32_t pointer_align, stride_align;
    uint64_t max_buffer, memory_size;
    clv_axis_limit rows, sequence, channels;
    int64_t statics[REF_MAX_STATIC];
    uint32_t n_static;
    uint32_t memory[REF_MEMORY_COUNT]; /* ref_memory of each type */
    uint32_t n_memory;
    char driver[64], name[64];
} ref_settings;

clv_status ref_settings_read(const clv_host_api *host, uint32_t device,
                             ref_settings *out);

/* ------------------------------------------------------------------------ */
/* Instance and devices (device.c)                                           */

struct clv_plugin_instance {
    const clv_host_api *host;
    uint32_t n_devices;
    ref_settings settings[REF_DEVICES];
};

typedef struct ref_job ref_job;

/* Submits in their order, and the worker that runs them. By the device's
 * mutex. */
typedef struct ref_queue {
    clv_plugin_device *dev;
    bool has_thread;
    pthread_t thread;
    ref_job *first, *last; /* the first one may be running */
    uint32_t n_jobs;
} ref_queue;

struct clv_plugin_device {
    const clv_host_api *host;
    clv_plugin_instance *inst;
    uint32_t index;
    const ref_settings *settings;
    _Atomic uint32_t n_programs; /* resident */
    _Atomic bool lost, hung, stop;
    uint32_t n_submits; /* so far */

    pthread_mutex_t running; /* held while a command runs */
    pthread_mutex_t mutex;   /* protects: */
    pthread_cond_t pushed;
    ref_queue queues[REF_MAX_QUEUES]; /* clv_submit.queue */
    clv_trace_record records[REF_MAX_RECORDS];
    uint32_t n_records;
};

clv_status ref_create(const clv_host_api *host, clv_plugin_instance **out);
clv_status ref_quiesce(clv_plugin_instance *inst);
void ref_destroy(clv_plugin_instance *inst);
clv_status ref_enumerate(clv_plugin_instance *inst, uint32_t *count,
                         clv_device_info *out, uint32_t stride);
clv_status ref_device_open(clv_plugin_instance *inst, uint32_t index,
                           clv_plugin_device **out);
void ref_device_close(clv_plugin_device *dev);
clv_status ref_fault_inject(clv_plugin_device *dev, uint32_t fault);
/* DEVICE_LOST with a message once it is lost. */
clv_status ref_check_device(const clv_plugin_device *dev);

/* ------------------------------------------------------------------------ */
/* Memory (buffer.c)                                                         */

struct clv_plugin_buffer {
    clv_plugin_device *dev;
    const clv_host_api *host;
    uint32_t kind;   /* ref_memory */
    uint32_t access; /* CLV_ACCESS_* of the device */
    uint64_t size;
    uint8_t *data;      /* the device's bytes */
    uint8_t *host_data; /* the host's; data again where they are the same */
    bool owns_data, owns_host_data; /* blocks of the host's */
    void *mapping;                  /* of fd, or NULL */
    int fd;                         /* ours, -1: none */
    void (*release)(void *ctx);
    void *release_ctx;
};

clv_status ref_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride);
clv_status ref_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out);
clv_status ref_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out);
void ref_buffer_free(clv_plugin_buffer *buf);
clv_status ref_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out);
void ref_buffer_unmap(clv_plugin_buffer *buf);
clv_status ref_buffer_flush(clv_plugin_buffer *buf, uint64_t offset,
                            uint64_t size);
clv_status ref_buffer_invalidate(clv_plugin_buffer *buf, uint64_t offset,
                                 uint64_t size);
bool ref_buffer_has(const clv_plugin_buffer *buf, uint64_t offset,
                    uint64_t size);

/* ------------------------------------------------------------------------ */
/* Timelines (timeline.c)                                                    */

clv_status ref_timeline_create(clv_plugin_device *dev, uint64_t value,
                               clv_plugin_timeline **out);
void ref_timeline_destroy(clv_plugin_timeline *tl);
clv_status ref_timeline_query(clv_plugin_timeline *tl, clv_timeline_info *out);
clv_status ref_timeline_signal(clv_plugin_timeline *tl, uint64_t value);
clv_status ref_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                             const char *message);
clv_status ref_timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns);
/* Jobs hold the timelines they touch: destroy gives one reference back. */
void ref_timeline_hold(clv_plugin_timeline *tl);
/* Raises the value; nothing once it is failed or further. */
void ref_timeline_reach(clv_plugin_timeline *tl, uint64_t value);
/* Why it failed; OK: it has not. */
clv_status ref_timeline_failure(clv_plugin_timeline *tl,
                                char message[REF_MESSAGE_SIZE]);
const uint64_t *ref_timeline_flag(const clv_plugin_timeline *tl);

/* ------------------------------------------------------------------------ */
/* Elements (tensor.c)                                                       */

/* A tensor in memory: rows of elements, where rows counts all dimensions but
 * the last. */
typedef struct ref_view {
    uint8_t *data; /* NULL: an optional operand that is absent */
    uint32_t dtype, rank;
    int64_t dims[CLV_MAX_RANK];
    int64_t strides[CLV_MAX_RANK]; /* bytes; of the last dimension, an
                                      element's or block's */
    int64_t rows, columns;
    bool is_private;               /* in CLV_LAYOUT_PRIVATE */
    uint32_t quant, quant_group;   /* clv_quant */
    const struct ref_view *scales; /* where it is quantised */
} ref_view;

/* With the symbols' values; NULL: their upper bounds. Without scales. False if
 * the shape is impossible: a rank, dtype or size that nothing can have, or a
 * part of a block of CLV_LAYOUT_PRIVATE. */
bool ref_view_make(const clv_tensor_desc *desc, const int64_t *symbols,
                   ref_view *out);
/* Bytes from the first to behind the last element; 0 if it has none. */
uint64_t ref_view_extent(const ref_view *v);
uint8_t *ref_view_row(const ref_view *v, int64_t row);
double ref_decode(const ref_view *v, int64_t row, int64_t column);
/* In line for what there is most of. */
static inline double ref_get(const ref_view *v, int64_t row, int64_t column)
{
    float x;
    if (v->dtype != CLV_DTYPE_F32 || v->rank != 2 || v->is_private)
        return ref_decode(v, row, column);
    memcpy(&x, v->data + row * v->strides[0] + column * v->strides[1],
           sizeof x);
    return x;
}
/* Only f32, f16, bf16. */
void ref_set(const ref_view *v, int64_t row, int64_t column, double value);
int32_t ref_get_index(const ref_view *v, int64_t i);
/* Of a matrix of indices. */
int32_t ref_get_index_at(const ref_view *v, int64_t row, int64_t column);
void ref_set_index(const ref_view *v, int64_t row, int64_t column,
                   int32_t value);

/* ------------------------------------------------------------------------ */
/* Ops (check.c, caps.c, ops.c)                                              */

/* Whether the op is defined on these operands; else says why not. */
bool ref_check_node(const clv_subgraph *graph, uint32_t node,
                    clv_checked_node *n);
/* The node's answer by op, operands and the device's settings. */
void ref_answer(const clv_plugin_device *dev, const clv_subgraph *graph,
                uint32_t node, clv_op_caps *out);
clv_status ref_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride);
/* Index in node->inputs of the operand whose rows are the sequence. */
uint32_t ref_activation(uint32_t op);
/* in: [CLV_MAX_INPUTS], data NULL where absent. */
void ref_run_node(const clv_node *node, const ref_view *in,
                  const ref_view *out);

/* ------------------------------------------------------------------------ */
/* Programs (program.c, serialize.c)                                         */

struct clv_plugin_program {
    clv_plugin_device *dev;
    clv_subgraph *graph;
    uint8_t **weights; /* [n_tensors], NULL: bound at submit */
    uint8_t **hidden;  /* [n_tensors] own memory of transients, or NULL */
    bool *written;     /* [n_tensors] */
    uint64_t maker;    /* ref_hash_maker() when it was compiled */
    uint64_t memory_size, compile_ns;
};

clv_status ref_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out);
clv_status ref_program_info(clv_plugin_program *prog, clv_program_info *out);
void ref_program_destroy(clv_plugin_program *prog);
clv_status ref_program_serialize(
    clv_plugin_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx);
clv_status ref_program_validate(clv_plugin_device *dev,
                                const clv_compile *compile,
                                const clv_blob *blob, uint32_t *verdict);
clv_status ref_program_load(clv_plugin_device *dev, const clv_compile *compile,
                            const clv_blob *blob, clv_plugin_program **out);
clv_status ref_program_key(clv_plugin_device *dev, const clv_compile *compile,
                           uint8_t key[32]);
/* Of build, driver, device and options. */
uint64_t ref_hash_maker(const clv_plugin_device *dev, const char *options);

/* ------------------------------------------------------------------------ */
/* Work (submit.c, queue.c, trace.c)                                         */

typedef struct ref_command {
    uint32_t kind; /* clv_command_kind */
    clv_plugin_program *program;
    uint8_t **data; /* [n_tensors] of the program */
    bool *bound;    /* [n_tensors] by the run */
    int64_t symbols[CLV_MAX_SYMBOLS];
    uint8_t *dst;
    const uint8_t *src;
    uint64_t size;
    uint32_t pattern;
} ref_command;

struct ref_job {
    const clv_host_api *host;
    ref_job *next;
    ref_command *commands;
    clv_timeline_point *waits, *signals;
    uint32_t n_commands, n_waits, n_signals;
    uint32_t queue;
    uint64_t correlation;
    bool fails; /* by the option fail_after */
};

clv_status ref_submit(clv_plugin_device *dev, const clv_submit *submit);
void ref_job_free(ref_job *job); /* NULL is legal */

/* Starts and ends the workers; a device that needs progress has none. */
clv_status ref_queues_start(clv_plugin_device *dev);
void ref_queues_stop(clv_plugin_device *dev);
/* LIMIT when its queue is full; the job stays the caller's. */
clv_status ref_queue_push(clv_plugin_device *dev, ref_job *job);
clv_status ref_progress(clv_plugin_device *dev);

uint64_t ref_ticks(const clv_plugin_device *dev);
void ref_record(clv_plugin_device *dev, const ref_job *job, uint32_t command,
                uint32_t node, const char *name, uint64_t begin, uint64_t end);
clv_status ref_trace_read(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride);
clv_status ref_calibrate(clv_plugin_device *dev, clv_calibration *out);

/* The table under the plugin's own name (plugin.c). */
extern const clv_plugin_api ref_api;
