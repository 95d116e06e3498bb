/*
 * A device of a plugin made of knobs: every slot answers as told, and what it
 * saw is kept. A test begins with the device open and ends with it closed.
 */
#pragma once

#include "test.h"

#include "message.h"

#include "../../core/device/device.h"

#include <stdlib.h>

/* What the slots answer, and what they saw. */
static struct mock {
    clv_status status; /* of every slot, with error as the message */
    const char *error;
    uint32_t calls, destroyed;
    bool no_handle; /* creations succeed without one */
    clv_device_info info;
    clv_mem_type mem[2];
    uint32_t n_mem; /* types that mem_types reports */
    clv_op_caps caps;
    clv_timeline_info timeline;
    clv_calibration calibration;
    clv_trace_record record;
    uint32_t n_records, verdict;
    clv_status wait; /* of timeline_wait */
    uint32_t waits_until_done, progress_calls;
    clv_submit submit; /* as seen */
    clv_command commands[4];
    clv_binding bindings[8];
    clv_timeline_point waits[4], signals[4];
} mock;

static uint64_t flag_word;
static char object[8]; /* handles point into it */

static inline clv_status answer(void)
{
    mock.calls++;
    if (mock.status != CLV_OK && mock.error)
        clv_error(mock.status, "%s", mock.error);
    return mock.status;
}

static inline clv_status make(void *out)
{
    void *handle = mock.no_handle ? NULL : object;
    clv_status st = answer();
    if (st == CLV_OK)
        memcpy(out, &handle, sizeof handle);
    return st;
}

static inline clv_status m_open(clv_plugin_instance *inst, uint32_t index,
                                clv_plugin_device **out)
{
    (void)inst;
    (void)index;
    return make(out);
}

static inline void m_close(clv_plugin_device *dev)
{
    (void)dev;
    mock.destroyed++;
}

static inline clv_status m_mem_types(clv_plugin_device *dev, uint32_t *count,
                                     clv_mem_type *out, uint32_t stride)
{
    (void)dev;
    for (uint32_t i = 0; i < *count && i < 2; i++)
        *(clv_mem_type *)(void *)((char *)out + i * stride) = mock.mem[i];
    *count = mock.n_mem;
    return answer();
}

static inline clv_status m_caps(clv_plugin_device *dev, const clv_subgraph *g,
                                clv_op_caps *out, uint32_t stride)
{
    (void)dev;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        *(clv_op_caps *)(void *)((char *)out + i * stride) = mock.caps;
    return answer();
}

static inline clv_status m_progress(clv_plugin_device *dev)
{
    (void)dev;
    mock.progress_calls++;
    return CLV_OK;
}

static inline clv_status m_alloc(clv_plugin_device *dev, uint32_t type,
                                 uint64_t size, clv_plugin_buffer **out)
{
    (void)dev;
    (void)type;
    (void)size;
    return make(out);
}

static inline clv_status m_import(clv_plugin_device *dev, uint32_t type,
                                  const clv_import *import,
                                  clv_plugin_buffer **out)
{
    (void)dev;
    (void)type;
    assert_int_equal(import->header.struct_size, sizeof *import);
    return make(out);
}

static inline void m_free(clv_plugin_buffer *buf)
{
    (void)buf;
    mock.destroyed++;
}

static inline clv_status m_map(clv_plugin_buffer *buf, uint32_t access,
                               void **out)
{
    (void)buf;
    (void)access;
    return make(out);
}

static inline void m_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
    mock.calls++;
}

static inline clv_status m_range(clv_plugin_buffer *buf, uint64_t offset,
                                 uint64_t size)
{
    (void)buf;
    (void)offset;
    (void)size;
    return answer();
}

static inline clv_status m_tl_create(clv_plugin_device *dev, uint64_t value,
                                     clv_plugin_timeline **out)
{
    (void)dev;
    (void)value;
    return make(out);
}

static inline void m_tl_destroy(clv_plugin_timeline *tl)
{
    (void)tl;
    mock.destroyed++;
}

static inline clv_status m_tl_query(clv_plugin_timeline *tl,
                                    clv_timeline_info *out)
{
    (void)tl;
    *out = mock.timeline;
    return answer();
}

static inline clv_status m_tl_signal(clv_plugin_timeline *tl, uint64_t value)
{
    (void)tl;
    mock.timeline.value = value;
    return answer();
}

static inline clv_status m_tl_fail(clv_plugin_timeline *tl, clv_status status,
                                   const char *message)
{
    (void)tl;
    mock.timeline.status = status;
    assert_non_null(message);
    return answer();
}

static inline clv_status m_tl_wait(clv_plugin_timeline *tl, uint64_t value,
                                   uint64_t spin_ns, uint64_t timeout_ns)
{
    (void)tl;
    (void)value;
    assert_true(spin_ns <= timeout_ns || timeout_ns == 0);
    if (mock.waits_until_done && --mock.waits_until_done)
        return CLV_ERR_TIMEOUT;
    return mock.wait;
}

static inline clv_status m_compile(clv_plugin_device *dev,
                                   const clv_compile *compile,
                                   clv_plugin_program **out)
{
    (void)dev;
    assert_int_equal(compile->header.struct_type, CLV_STRUCT_COMPILE);
    for (uint32_t i = 0; i < compile->n_weights && i < 8; i++)
        mock.bindings[i] = compile->weights[i];
    return make(out);
}

static inline clv_status m_info(clv_plugin_program *prog, clv_program_info *out)
{
    (void)prog;
    out->memory_size = 123;
    return CLV_OK;
}

static inline void m_prog_destroy(clv_plugin_program *prog)
{
    (void)prog;
    mock.destroyed++;
}

static inline clv_status
m_serialize(clv_plugin_program *prog,
            clv_status (*write)(void *, const void *, uint64_t), void *ctx)
{
    (void)prog;
    return write(ctx, "program", 7);
}

static inline clv_status m_validate(clv_plugin_device *dev,
                                    const clv_compile *compile,
                                    const clv_blob *blob, uint32_t *verdict)
{
    (void)dev;
    (void)compile;
    (void)blob;
    *verdict = mock.verdict;
    return answer();
}

static inline clv_status m_load(clv_plugin_device *dev,
                                const clv_compile *compile,
                                const clv_blob *blob, clv_plugin_program **out)
{
    (void)dev;
    (void)compile;
    (void)blob;
    return make(out);
}

static inline clv_status m_key(clv_plugin_device *dev,
                               const clv_compile *compile, uint8_t key[32])
{
    (void)dev;
    (void)compile;
    memset(key, 7, 32);
    return answer();
}

static inline clv_status m_submit(clv_plugin_device *dev, const clv_submit *s)
{
    (void)dev;
    mock.submit = *s;
    clv_binding *to = mock.bindings;
    for (uint32_t i = 0; i < s->n_commands && i < 4; i++) {
        mock.commands[i] = s->commands[i];
        for (uint32_t b = 0; b < s->commands[i].n_bindings; b++)
            *to++ = s->commands[i].bindings[b];
    }
    for (uint32_t i = 0; i < s->n_waits && i < 4; i++)
        mock.waits[i] = s->waits[i];
    for (uint32_t i = 0; i < s->n_signals && i < 4; i++)
        mock.signals[i] = s->signals[i];
    return answer();
}

static inline clv_status m_trace(clv_plugin_device *dev, uint32_t *count,
                                 clv_trace_record *out, uint32_t stride)
{
    (void)dev;
    (void)stride;
    if (*count)
        *out = mock.record;
    *count = mock.n_records;
    return answer();
}

static inline clv_status m_calibrate(clv_plugin_device *dev,
                                     clv_calibration *out)
{
    (void)dev;
    *out = mock.calibration;
    return answer();
}

static const clv_plugin_api full_api = {
    .name = "mock",
    .device_open = m_open,
    .device_close = m_close,
    .mem_types = m_mem_types,
    .op_caps = m_caps,
    .progress = m_progress,
    .buffer_alloc = m_alloc,
    .buffer_import = m_import,
    .buffer_free = m_free,
    .buffer_map = m_map,
    .buffer_unmap = m_unmap,
    .buffer_flush = m_range,
    .buffer_invalidate = m_range,
    .timeline_create = m_tl_create,
    .timeline_destroy = m_tl_destroy,
    .timeline_query = m_tl_query,
    .timeline_signal = m_tl_signal,
    .timeline_fail = m_tl_fail,
    .timeline_wait = m_tl_wait,
    .program_compile = m_compile,
    .program_info = m_info,
    .program_destroy = m_prog_destroy,
    .program_serialize = m_serialize,
    .program_validate = m_validate,
    .program_load = m_load,
    .program_key = m_key,
    .submit = m_submit,
    .trace_read = m_trace,
    .calibrate = m_calibrate,
};

static clv_context context;
static core_plugin plugin;
static clv_device *dev;

static inline int setup(void **state)
{
    (void)state;
    memset(&mock, 0, sizeof mock);
    flag_word = 0;
    mock.info =
        (clv_device_info)CLV_INIT(clv_device_info, CLV_STRUCT_DEVICE_INFO);
    strcpy(mock.info.id, "0");
    mock.info.kind = CLV_DEVICE_GPU;
    mock.info.n_mem_types = 2;
    mock.info.memory_size = 1 << 20;
    mock.n_mem = 2;
    mock.mem[0] =
        (clv_mem_type){.flags = CLV_MEM_DEVICE_LOCAL, .max_size = 4096};
    mock.mem[1] = (clv_mem_type){.flags = CLV_MEM_HOST_VISIBLE,
                                 .alignment = 64,
                                 .import_align = 16,
                                 .import_handles = CLV_HANDLE_HOST_POINTER |
                                                   CLV_HANDLE_DMABUF};
    mock.timeline.flag = &flag_word;
    mock.caps.answer = CLV_ANSWER_YES;
    mock.calibration.tick_ns = 1;
    pthread_rwlock_init(&context.log_lock, NULL);
    pthread_mutex_init(&context.calls.mutex, NULL);
    plugin =
        (core_plugin){.ctx = &context, .api = full_api, .name = (char *)"mock"};
    pthread_mutex_init(&plugin.mutex, NULL);
    dev = NULL;
    return core_device_open(&plugin, 0, &mock.info, &dev) == CLV_OK ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    core_device_close(dev);
    core_device_close(NULL);
    pthread_mutex_destroy(&plugin.mutex);
    return 0;
}

/* The next calls fail so. */
static inline void fail_with(clv_status status, const char *error)
{
    mock.status = status;
    mock.error = error;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
