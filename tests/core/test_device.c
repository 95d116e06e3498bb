/*
 * The device front over a plugin made of knobs: what it refuses before a slot
 * is called, what it makes of each answer, and the defaults of slots left out.
 */
#include "../../core/device/device.h"
#include "../../core/device/loss.h"
#include "../../core/device/subgraph.h"
#include "../../core/device/caps.h"
#include "../../core/device/submit.h"
#include "test.h"

#include "message.h"

#include <math.h>
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

static clv_status answer(void)
{
    mock.calls++;
    if (mock.status != CLV_OK && mock.error)
        clv_error(mock.status, "%s", mock.error);
    return mock.status;
}

static clv_status make(void *out)
{
    void *handle = mock.no_handle ? NULL : object;
    clv_status st = answer();
    if (st == CLV_OK)
        memcpy(out, &handle, sizeof handle);
    return st;
}

static clv_status m_open(clv_plugin_instance *inst, uint32_t index,
                         clv_plugin_device **out)
{
    (void)inst;
    (void)index;
    return make(out);
}

static void m_close(clv_plugin_device *dev)
{
    (void)dev;
    mock.destroyed++;
}

static clv_status m_mem_types(clv_plugin_device *dev, uint32_t *count,
                              clv_mem_type *out, uint32_t stride)
{
    (void)dev;
    for (uint32_t i = 0; i < *count && i < 2; i++)
        *(clv_mem_type *)(void *)((char *)out + i * stride) = mock.mem[i];
    *count = mock.n_mem;
    return answer();
}

static clv_status m_caps(clv_plugin_device *dev, const clv_subgraph *g,
                         clv_op_caps *out, uint32_t stride)
{
    (void)dev;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        *(clv_op_caps *)(void *)((char *)out + i * stride) = mock.caps;
    return answer();
}

static clv_status m_progress(clv_plugin_device *dev)
{
    (void)dev;
    mock.progress_calls++;
    return CLV_OK;
}

static clv_status m_alloc(clv_plugin_device *dev, uint32_t type, uint64_t size,
                          clv_plugin_buffer **out)
{
    (void)dev;
    (void)type;
    (void)size;
    return make(out);
}

static clv_status m_import(clv_plugin_device *dev, uint32_t type,
                           const clv_import *import, clv_plugin_buffer **out)
{
    (void)dev;
    (void)type;
    assert_int_equal(import->header.struct_size, sizeof *import);
    return make(out);
}

static void m_free(clv_plugin_buffer *buf)
{
    (void)buf;
    mock.destroyed++;
}

static clv_status m_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    (void)buf;
    (void)access;
    return make(out);
}

static void m_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
    mock.calls++;
}

static clv_status m_range(clv_plugin_buffer *buf, uint64_t offset,
                          uint64_t size)
{
    (void)buf;
    (void)offset;
    (void)size;
    return answer();
}

static clv_status m_tl_create(clv_plugin_device *dev, uint64_t value,
                              clv_plugin_timeline **out)
{
    (void)dev;
    (void)value;
    return make(out);
}

static void m_tl_destroy(clv_plugin_timeline *tl)
{
    (void)tl;
    mock.destroyed++;
}

static clv_status m_tl_query(clv_plugin_timeline *tl, clv_timeline_info *out)
{
    (void)tl;
    *out = mock.timeline;
    return answer();
}

static clv_status m_tl_signal(clv_plugin_timeline *tl, uint64_t value)
{
    (void)tl;
    mock.timeline.value = value;
    return answer();
}

static clv_status m_tl_fail(clv_plugin_timeline *tl, clv_status status,
                            const char *message)
{
    (void)tl;
    mock.timeline.status = status;
    assert_non_null(message);
    return answer();
}

static clv_status m_tl_wait(clv_plugin_timeline *tl, uint64_t value,
                            uint64_t spin_ns, uint64_t timeout_ns)
{
    (void)tl;
    (void)value;
    assert_true(spin_ns <= timeout_ns || timeout_ns == 0);
    if (mock.waits_until_done && --mock.waits_until_done)
        return CLV_ERR_TIMEOUT;
    return mock.wait;
}

static clv_status m_compile(clv_plugin_device *dev, const clv_compile *compile,
                            clv_plugin_program **out)
{
    (void)dev;
    assert_int_equal(compile->header.struct_type, CLV_STRUCT_COMPILE);
    for (uint32_t i = 0; i < compile->n_weights && i < 8; i++)
        mock.bindings[i] = compile->weights[i];
    return make(out);
}

static clv_status m_info(clv_plugin_program *prog, clv_program_info *out)
{
    (void)prog;
    out->memory_size = 123;
    return CLV_OK;
}

static void m_prog_destroy(clv_plugin_program *prog)
{
    (void)prog;
    mock.destroyed++;
}

static clv_status
m_serialize(clv_plugin_program *prog,
            clv_status (*write)(void *, const void *, uint64_t), void *ctx)
{
    (void)prog;
    return write(ctx, "program", 7);
}

static clv_status m_validate(clv_plugin_device *dev, const clv_compile *compile,
                             const clv_blob *blob, uint32_t *verdict)
{
    (void)dev;
    (void)compile;
    (void)blob;
    *verdict = mock.verdict;
    return answer();
}

static clv_status m_load(clv_plugin_device *dev, const clv_compile *compile,
                         const clv_blob *blob, clv_plugin_program **out)
{
    (void)dev;
    (void)compile;
    (void)blob;
    return make(out);
}

static clv_status m_key(clv_plugin_device *dev, const clv_compile *compile,
                        uint8_t key[32])
{
    (void)dev;
    (void)compile;
    memset(key, 7, 32);
    return answer();
}

static clv_status m_submit(clv_plugin_device *dev, const clv_submit *s)
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

static clv_status m_trace(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride)
{
    (void)dev;
    (void)stride;
    if (*count)
        *out = mock.record;
    *count = mock.n_records;
    return answer();
}

static clv_status m_calibrate(clv_plugin_device *dev, clv_calibration *out)
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

static int setup(void **state)
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

static int teardown(void **state)
{
    (void)state;
    core_device_close(dev);
    core_device_close(NULL);
    pthread_mutex_destroy(&plugin.mutex);
    return 0;
}

/* The next calls fail so. */
static void fail_with(clv_status status, const char *error)
{
    mock.status = status;
    mock.error = error;
}

/* ------------------------------------------------------------------------ */
/* Opening                                                                  */

static void refuse_open(const char *parts)
{
    clv_device *d = NULL;
    assert_true(core_device_open(&plugin, 0, &mock.info, &d) != CLV_OK);
    assert_null(d);
    assert_message(parts);
}

static void test_open(void **state)
{
    (void)state;
    assert_string_equal(clv_device_id(dev), "mock:0");
    assert_int_equal(clv_device_mem_type_count(dev), 2);
    const clv_mem_type *type = clv_device_mem_type(dev, 0);
    assert_int_equal(type->alignment, 1);
    assert_int_equal(type->import_align, 1);
    assert_int_equal(clv_device_mem_type(dev, 1)->max_size, 1 << 20);
    assert_false(core_device_lost(dev));

    const clv_device_info good = mock.info;
    mock.info.n_mem_types = 0;
    refuse_open("mock:0|0 memory types");
    mock.info.n_mem_types = 1000000;
    refuse_open("1000000");
    mock.info = good;
    mock.info.copy_queues = 65;
    refuse_open("65 copy queues");
    mock.info = good;
    memset(mock.info.id, 'x', sizeof mock.info.id);
    refuse_open("id of device 0");
    mock.info = good;
    strcpy(mock.info.id, "a b");
    refuse_open("id of device 0");
    mock.info = good;
    mock.info.clock = 9;
    refuse_open("clock 9");
    mock.info = good;
    mock.n_mem = 1;
    refuse_open("mem_types|1 types");
    mock.n_mem = 2;
    mock.mem[1].alignment = 24;
    refuse_open("power of two");
    mock.mem[1].alignment = 64;
    mock.no_handle = true;
    refuse_open("device_open|no device");
    mock.no_handle = false;
    plugin.api.progress = NULL;
    mock.info.flags = CLV_DEVICE_NEEDS_PROGRESS;
    refuse_open("progress()");
}

/* Slots that a plugin may leave out answer what plugin.h says. */
static void test_defaults(void **state)
{
    (void)state;
    core_device_close(dev);
    clv_plugin_api *api = &plugin.api;
    api->progress = NULL;
    api->buffer_import = NULL;
    api->buffer_map = NULL;
    api->buffer_flush = api->buffer_invalidate = NULL;
    api->program_serialize = NULL;
    api->program_key = NULL;
    api->trace_read = NULL;
    api->calibrate = NULL;
    assert_ok(core_device_open(&plugin, 0, &mock.info, &dev));
    const clv_mem_type *type = clv_device_mem_type(dev, 1);
    assert_int_equal(type->import_handles, 0);
    assert_int_equal(type->flags, CLV_MEM_COHERENT);
    uint32_t index;
    assert_false(core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, &index));
    assert_ok(core_device_progress(dev));
    clv_trace_record record;
    uint32_t n = 1;
    assert_ok(core_device_trace_read(dev, &n, &record));
    assert_int_equal(n, 0);
    clv_calibration calibration;
    assert_int_equal(core_device_calibrate(dev, &calibration),
                     CLV_ERR_UNSUPPORTED);
    core_buffer *buf;
    void *p;
    assert_ok(core_buffer_alloc(dev, 1, 64, &buf));
    assert_ok(core_buffer_flush(buf, 0, 64));
    assert_ok(core_buffer_invalidate(buf, 0, 64));
    assert_int_equal(core_buffer_map(buf, CLV_ACCESS_READ, &p),
                     CLV_ERR_UNSUPPORTED);
    core_buffer_unmap(buf);
    core_buffer_free(buf);
}

/* ------------------------------------------------------------------------ */
/* Answers                                                                  */

static void test_statuses(void **state)
{
    (void)state;
    core_buffer *buf = NULL;
    fail_with(CLV_ERR_NO_MEMORY, "256 MiB wanted, 12 free");
    assert_int_equal(core_buffer_alloc(dev, 0, 64, &buf), CLV_ERR_NO_MEMORY);
    assert_string_equal(clv_last_error(),
                        "device 'mock:0': 256 MiB wanted, 12 free");
    assert_null(buf);
    fail_with(CLV_ERR_NO_MEMORY, NULL);
    assert_int_equal(core_buffer_alloc(dev, 0, 64, &buf), CLV_ERR_NO_MEMORY);
    assert_message("mock:0|buffer_alloc|no reason");
    for (int bad = 0; bad < 2; bad++) {
        fail_with(bad ? 17 : -100, NULL);
        assert_int_equal(core_buffer_alloc(dev, 0, 64, &buf), CLV_ERR_INTERNAL);
        assert_message("unknown status|faulty");
    }
    fail_with(CLV_OK, NULL);
    mock.no_handle = true;
    assert_int_equal(core_buffer_alloc(dev, 0, 64, &buf), CLV_ERR_INTERNAL);
    assert_message("buffer_alloc|no buffer");
}

static void test_loss(void **state)
{
    (void)state;
    core_buffer *buf, *none = NULL;
    assert_ok(core_buffer_alloc(dev, 0, 64, &buf));
    fail_with(CLV_ERR_DEVICE_LOST, "reset by the driver");
    assert_int_equal(core_buffer_alloc(dev, 0, 64, &none), CLV_ERR_DEVICE_LOST);
    assert_true(core_device_lost(dev));
    fail_with(CLV_OK, NULL);
    uint32_t calls = mock.calls;
    assert_int_equal(core_buffer_alloc(dev, 0, 64, &none), CLV_ERR_DEVICE_LOST);
    assert_message("mock:0|lost");
    assert_int_equal(core_device_progress(dev), CLV_ERR_DEVICE_LOST);
    assert_int_equal(core_buffer_flush(buf, 0, 1), CLV_ERR_DEVICE_LOST);
    core_submit empty = {0};
    assert_int_equal(core_device_submit(dev, &empty), CLV_ERR_DEVICE_LOST);
    assert_int_equal(mock.calls, calls);
    core_buffer_free(buf);
}

/* ------------------------------------------------------------------------ */
/* Buffers                                                                  */

static void test_buffers(void **state)
{
    (void)state;
    core_buffer *buf = NULL;
    uint32_t calls = mock.calls;
    assert_int_equal(core_buffer_alloc(dev, 2, 64, &buf), CLV_ERR_INVALID);
    assert_int_equal(core_buffer_alloc(dev, 0, 0, &buf), CLV_ERR_INVALID);
    assert_int_equal(core_buffer_alloc(dev, 0, 4097, &buf), CLV_ERR_LIMIT);
    assert_message("4097|4096");
    assert_int_equal(mock.calls, calls);
    assert_ok(core_buffer_alloc(dev, 1, 4096, &buf));
    void *p;
    assert_int_equal(core_buffer_map(buf, 0, &p), CLV_ERR_INVALID);
    assert_int_equal(core_buffer_map(buf, 4, &p), CLV_ERR_INVALID);
    assert_ok(core_buffer_map(buf, CLV_ACCESS_WRITE, &p));
    assert_ptr_equal(p, object);
    core_buffer_unmap(buf);
    assert_ok(core_buffer_flush(buf, 4096, 0));
    assert_ok(core_buffer_invalidate(buf, 0, 4096));
    calls = mock.calls;
    assert_int_equal(core_buffer_flush(buf, 4000, 97), CLV_ERR_INVALID);
    assert_int_equal(core_buffer_flush(buf, UINT64_MAX, 2), CLV_ERR_INVALID);
    assert_int_equal(core_buffer_invalidate(buf, 1, UINT64_MAX),
                     CLV_ERR_INVALID);
    assert_int_equal(mock.calls, calls);
    core_buffer_free(buf);
    core_buffer_free(NULL);
    assert_ok(core_buffer_alloc(dev, 0, 64, &buf));
    assert_int_equal(core_buffer_map(buf, CLV_ACCESS_READ, &p),
                     CLV_ERR_UNSUPPORTED);
    core_buffer_free(buf);
}

static void test_imports(void **state)
{
    (void)state;
    core_buffer *buf = NULL;
    static _Alignas(64) char memory[256];
    uint32_t type;
    assert_true(core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, &type));
    assert_int_equal(type, 1);
    const clv_import good = {.handle_type = CLV_HANDLE_HOST_POINTER,
                             .access = CLV_ACCESS_READ,
                             .pointer = memory,
                             .size = 64};
    clv_import bad[8];
    for (int i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].pointer = NULL;
    bad[1].pointer = memory + 8; /* alignment 16 */
    bad[2].size = 60;
    bad[3].offset = 4;
    bad[4].access = 0;
    bad[5].handle_type = CLV_HANDLE_HOST_POINTER | CLV_HANDLE_DMABUF;
    bad[6].offset = UINT64_MAX - 15;
    bad[7].handle_type = CLV_HANDLE_DMABUF;
    bad[7].fd = -1;
    uint32_t calls = mock.calls;
    for (int i = 0; i < 8; i++)
        assert_true(core_buffer_import(dev, 1, &bad[i], &buf) != CLV_OK);
    assert_int_equal(core_buffer_import(dev, 0, &good, &buf),
                     CLV_ERR_UNSUPPORTED);
    assert_int_equal(mock.calls, calls);
    assert_null(buf);
    assert_ok(core_buffer_import(dev, 1, &good, &buf));
    assert_int_equal(buf->size, 64);
    core_buffer_free(buf);
}

/* ------------------------------------------------------------------------ */
/* Timelines                                                                */

static void test_timelines(void **state)
{
    (void)state;
    core_timeline *tl = NULL;
    assert_int_equal(core_timeline_create(dev, CLV_FLAG_FAILED, &tl),
                     CLV_ERR_INVALID);
    mock.timeline.flag = NULL;
    assert_int_equal(core_timeline_create(dev, 0, &tl), CLV_ERR_INTERNAL);
    assert_message("flag word");
    mock.timeline.flag = (const uint64_t *)(const void *)(object + 1);
    assert_int_equal(core_timeline_create(dev, 0, &tl), CLV_ERR_INTERNAL);
    mock.timeline.flag = &flag_word;
    assert_ok(core_timeline_create(dev, 0, &tl));
    assert_ptr_equal(tl->flag, &flag_word);

    assert_int_equal(core_timeline_fail(tl, CLV_OK, "x"), CLV_ERR_INVALID);
    assert_int_equal(core_timeline_fail(tl, 3, "x"), CLV_ERR_INVALID);
    assert_ok(core_timeline_fail(tl, CLV_ERR_CANCELLED, NULL));

    mock.wait = CLV_ERR_IO;
    mock.timeline.status = -99;
    memset(mock.timeline.message, 'm', sizeof mock.timeline.message);
    assert_int_equal(core_timeline_wait(tl, 1, 0, 0), CLV_ERR_INTERNAL);
    assert_int_equal(strlen(clv_last_error()),
                     strlen("device 'mock:0': ") +
                         sizeof mock.timeline.message - 1);
    mock.wait = mock.timeline.status = CLV_OK;
    mock.timeline.value = CLV_FLAG_FAILED;
    assert_int_equal(core_timeline_wait(tl, 1, 0, 0), CLV_ERR_INTERNAL);
    assert_message("failure bit");
    core_timeline_destroy(tl);
    core_timeline_destroy(NULL);
}

static void test_waits(void **state)
{
    (void)state;
    core_timeline *tl;
    assert_ok(core_timeline_create(dev, 0, &tl));
    flag_word = 1;
    assert_ok(core_timeline_wait(tl, 1, 0, UINT64_MAX));
    mock.wait = CLV_ERR_TIMEOUT;
    assert_int_equal(core_timeline_wait(tl, 2, 0, 1000), CLV_ERR_TIMEOUT);
    assert_message("mock:0|step 2");
    /* The failure kept in the timeline is the one told. */
    mock.wait = mock.timeline.status = CLV_ERR_NO_MEMORY;
    strcpy(mock.timeline.message, "kernel 'gemm' needs 9 GiB");
    assert_int_equal(core_timeline_wait(tl, 1, 0, 1000), CLV_ERR_NO_MEMORY);
    assert_string_equal(clv_last_error(),
                        "device 'mock:0': kernel 'gemm' needs 9 GiB");
    mock.timeline.status = mock.wait = CLV_OK;

    /* A device that moves only when told to. */
    dev->info.flags = CLV_DEVICE_NEEDS_PROGRESS;
    mock.waits_until_done = 5;
    assert_ok(core_timeline_wait(tl, 1, 50, UINT64_MAX));
    assert_true(mock.progress_calls >= 5);
    mock.wait = CLV_ERR_TIMEOUT;
    mock.waits_until_done = 0;
    assert_int_equal(core_timeline_wait(tl, 1, 0, 200000), CLV_ERR_TIMEOUT);
    mock.wait = CLV_ERR_DEVICE_LOST;
    assert_int_equal(core_timeline_wait(tl, 1, 0, 200000), CLV_ERR_DEVICE_LOST);
    assert_true(core_device_lost(dev));
    core_timeline_destroy(tl);
}

/* What a plugin says about a wait is not believed without proof. */
static void test_waits_are_checked(void **state)
{
    (void)state;
    core_timeline *tl;
    assert_ok(core_timeline_create(dev, 0, &tl));
    flag_word = 2;
    mock.timeline.value = 3;
    assert_ok(core_timeline_wait(tl, 3, 0, UINT64_MAX));
    assert_int_equal(core_timeline_wait(tl, 4, 0, UINT64_MAX),
                     CLV_ERR_INTERNAL);
    assert_message("mock:0|timeline_wait|step 4|at 3|faulty");

    /* It comes back too early, four times. */
    mock.waits_until_done = 5;
    flag_word = 4;
    assert_ok(core_timeline_wait(tl, 4, 0, UINT64_MAX));
    assert_int_equal(mock.waits_until_done, 0);
    mock.wait = CLV_ERR_TIMEOUT;
    uint64_t begin = clv_now_ns();
    assert_int_equal(core_timeline_wait(tl, 5, 0, 20000000), CLV_ERR_TIMEOUT);
    assert_true(clv_now_ns() - begin >= 20000000);

    /* It failed with that status, or says that it is done all the same. */
    flag_word |= CLV_FLAG_FAILED;
    mock.timeline.status = CLV_ERR_IO;
    strcpy(mock.timeline.message, "the link is down");
    assert_true(core_timeline_failed(tl));
    assert_int_equal(core_timeline_reached(tl), 4);
    assert_int_equal(core_timeline_wait(tl, 5, 0, UINT64_MAX), CLV_ERR_IO);
    assert_message("mock:0|the link is down");
    mock.wait = CLV_OK;
    assert_int_equal(core_timeline_wait(tl, 5, 0, UINT64_MAX), CLV_ERR_IO);
    assert_message("mock:0|the link is down");
    core_timeline_destroy(tl);
}

/* No slot of a device that was given up is called again. */
static void test_abandoned(void **state)
{
    (void)state;
    core_timeline *tl;
    core_buffer *buf;
    void *pointer;
    assert_ok(core_timeline_create(dev, 0, &tl));
    assert_ok(core_buffer_alloc(dev, 1, 64, &buf));
    assert_ok(core_buffer_map(buf, CLV_ACCESS_READ, &pointer));
    assert_false(clv_device_lost(dev));
    core_device_abandon(dev);
    assert_true(clv_device_lost(dev));
    const uint32_t calls = mock.calls, destroyed = mock.destroyed;
    assert_int_equal(core_timeline_wait(tl, 1, 0, UINT64_MAX),
                     CLV_ERR_DEVICE_LOST);
    assert_message("mock:0|given up earlier");
    assert_int_equal(core_timeline_fail(tl, CLV_ERR_IO, ""),
                     CLV_ERR_DEVICE_LOST);
    assert_int_equal(core_device_settle(dev, UINT64_MAX), CLV_ERR_DEVICE_LOST);
    core_buffer_unmap(buf);
    core_buffer_free(buf);
    core_timeline_destroy(tl);
    core_device_close(dev);
    assert_int_equal(mock.calls, calls);
    assert_int_equal(mock.destroyed, destroyed);
    assert_false(clv_exit_safe());
    dev = NULL;
}

/* ------------------------------------------------------------------------ */
/* A graph: y [n, 8] = x [n, 4] * transpose(w [8, 4])                       */

typedef struct graph {
    clv_tensor_desc tensors[3]; /* x, w, y */
    clv_node node;
    clv_symbol_range symbol;
    clv_subgraph sub;
} graph;

static clv_tensor_desc desc(uint32_t usage, int64_t rows, int64_t cols,
                            uint32_t symbol)
{
    clv_tensor_desc d = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    d.dtype = CLV_DTYPE_F32;
    d.usage = usage;
    d.rank = 2;
    d.dims[0] = rows;
    d.dims[1] = cols;
    d.symbols[0] = symbol;
    return d;
}

static void make_graph(graph *g)
{
    g->tensors[0] = desc(CLV_USAGE_INPUT, 16, 4, 1);
    g->tensors[1] = desc(CLV_USAGE_WEIGHT, 8, 4, 0);
    g->tensors[2] = desc(CLV_USAGE_OUTPUT, 16, 8, 1);
    g->node = (clv_node)CLV_INIT(clv_node, CLV_STRUCT_NODE);
    g->node.op = CLV_OP_MATMUL;
    g->node.revision = 1;
    g->node.n_inputs = 3;
    g->node.n_outputs = 1;
    g->node.inputs[1] = 1;
    g->node.inputs[2] = CLV_NO_TENSOR;
    g->node.outputs[0] = 2;
    g->symbol = (clv_symbol_range){1, 16};
    g->sub = (clv_subgraph)CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    g->sub.tensors = g->tensors;
    g->sub.nodes = &g->node;
    g->sub.symbols = &g->symbol;
    g->sub.n_tensors = 3;
    g->sub.tensor_stride = sizeof g->tensors[0];
    g->sub.n_nodes = 1;
    g->sub.node_stride = sizeof g->node;
    g->sub.n_symbols = 1;
}

static void test_subgraph_check(void **state)
{
    (void)state;
    graph g;
    make_graph(&g);
    assert_ok(core_subgraph_check(&g.sub));
#define REFUSE(change)                                                         \
    do {                                                                       \
        make_graph(&g);                                                        \
        change;                                                                \
        assert_true(core_subgraph_check(&g.sub) != CLV_OK);                    \
    } while (0)
    REFUSE(g.node.inputs[0] = 3);
    REFUSE(g.node.outputs[0] = CLV_NO_TENSOR);
    REFUSE(g.node.n_inputs = CLV_MAX_INPUTS + 1);
    REFUSE(g.node.op = CLV_OP_COUNT);
    REFUSE(g.node.revision = 0);
    REFUSE(g.tensors[0].rank = 0);
    REFUSE(g.tensors[0].rank = CLV_MAX_RANK + 1);
    REFUSE(g.tensors[0].dtype = CLV_DTYPE_COUNT);
    REFUSE(g.tensors[0].usage = 9);
    REFUSE(g.tensors[0].symbols[0] = 2);
    REFUSE(g.tensors[0].dims[0] = 15); /* below the symbol's bound */
    REFUSE(g.tensors[1].dims[1] = -1);
    REFUSE(g.tensors[1].dims[0] = INT64_MAX);
    REFUSE(g.tensors[1].quant_scales = 4);
    REFUSE((g.tensors[1].strides[0] = -16, g.tensors[1].strides[1] = 4));
    REFUSE(g.symbol.max = 0);
    REFUSE(g.symbol.min = -1);
    REFUSE(g.sub.n_symbols = CLV_MAX_SYMBOLS + 1);
    REFUSE(g.sub.tensor_stride = 8);
    REFUSE(g.sub.nodes = NULL);
    REFUSE(g.tensors[2].header.struct_size = 0);
#undef REFUSE
}

static void test_desc_size(void **state)
{
    (void)state;
    uint64_t size;
    clv_tensor_desc d = desc(CLV_USAGE_INPUT, 16, 64, 1);
    assert_ok(core_desc_size(&d, NULL, &size));
    assert_int_equal(size, 16 * 64 * 4);
    const int64_t three = 3, none = 0;
    assert_ok(core_desc_size(&d, &three, &size));
    assert_int_equal(size, 3 * 64 * 4);
    assert_ok(core_desc_size(&d, &none, &size));
    assert_int_equal(size, 0);
    d.dtype = CLV_DTYPE_Q8_0;
    assert_ok(core_desc_size(&d, NULL, &size));
    assert_int_equal(size, 16 * 2 * 34);
    d.strides[0] = 100;
    d.strides[1] = 34;
    assert_ok(core_desc_size(&d, NULL, &size));
    assert_int_equal(size, 15 * 100 + 34 + 34);
    d.dims[1] = 48;
    assert_int_equal(core_desc_size(&d, NULL, &size), CLV_ERR_INVALID);
    d.dims[1] = 64;
    d.strides[0] = INT64_MAX;
    assert_int_equal(core_desc_size(&d, NULL, &size), CLV_ERR_INVALID);
}

static void refuse_caps(graph *g, const char *parts)
{
    clv_op_caps caps;
    assert_int_equal(core_device_caps(dev, &g->sub, &caps), CLV_ERR_INTERNAL);
    assert_message("mock:0|op_caps|node 0");
    assert_message(parts);
    memset(&mock.caps, 0, sizeof mock.caps);
    mock.caps.answer = CLV_ANSWER_YES;
}

static void test_caps(void **state)
{
    (void)state;
    graph g;
    make_graph(&g);
    clv_op_caps caps;
    memset(mock.caps.reason, 'r', sizeof mock.caps.reason);
    assert_ok(core_device_caps(dev, &g.sub, &caps));
    assert_int_equal(strlen(caps.reason), sizeof caps.reason - 1);
    assert_int_equal(caps.header.struct_size, sizeof caps);

    mock.caps.answer = 4;
    refuse_caps(&g, "unknown answer");
    mock.caps.error_class = 99;
    refuse_caps(&g, "error class");
    mock.caps.rows.multiple = -1;
    refuse_caps(&g, "range");
    mock.caps.sequence = (clv_axis_limit){8, 4, 0};
    refuse_caps(&g, "range");
    mock.caps.split_granularity[3] = -1;
    refuse_caps(&g, "granularity");
    mock.caps.pointer_align = 48;
    refuse_caps(&g, "power of two");
    mock.caps.answer = CLV_ANSWER_STATIC;
    refuse_caps(&g, "static shapes");
    static const int64_t shapes[] = {16, 0};
    mock.caps.static_shapes = shapes;
    mock.caps.n_static = 2;
    refuse_caps(&g, "not positive");
    mock.caps.private_rows = 3;
    refuse_caps(&g, "CLV_MAX_PRIVATE_ROWS");
    mock.caps.private_rows = 2 * CLV_MAX_PRIVATE_ROWS;
    refuse_caps(&g, "CLV_MAX_PRIVATE_ROWS");
    mock.caps.layouts[1] = CLV_LAYOUT_PRIVATE;
    mock.caps.private_rows = CLV_MAX_PRIVATE_ROWS;
    refuse_caps(&g, "not all of a weight's");
    static const clv_header required = {sizeof required,
                                        CLV_STRUCT_REQUIRED | 99, NULL};
    mock.caps.header.next = &required;
    assert_int_equal(core_device_caps(dev, &g.sub, &caps), CLV_ERR_UNSUPPORTED);
    assert_message("mock:0|op_caps|extension");
    mock.caps.header.next = NULL;

    uint32_t calls = mock.calls;
    g.node.inputs[0] = 7;
    assert_int_equal(core_device_caps(dev, &g.sub, &caps), CLV_ERR_INVALID);
    assert_int_equal(mock.calls, calls);
}

/* ------------------------------------------------------------------------ */
/* Programs and work                                                        */

typedef struct work {
    graph g;
    core_buffer *x, *w, *y;
    core_binding weight, bound[2];
    core_compile compile;
    core_program *prog;
    int64_t rows;
    core_command run;
} work;

static void work_init(work *k)
{
    memset(k, 0, sizeof *k);
    make_graph(&k->g);
    assert_ok(core_buffer_alloc(dev, 1, 16 * 4 * 4, &k->x));
    assert_ok(core_buffer_alloc(dev, 1, 8 * 4 * 4, &k->w));
    assert_ok(core_buffer_alloc(dev, 1, 16 * 8 * 4, &k->y));
    k->weight = (core_binding){1, k->w, 0, 8 * 4 * 4};
    k->compile = (core_compile){
        .graph = &k->g.sub, .weights = &k->weight, .n_weights = 1};
    assert_ok(core_program_compile(dev, &k->compile, &k->prog));
    k->bound[0] = (core_binding){0, k->x, 0, 16 * 4 * 4};
    k->bound[1] = (core_binding){2, k->y, 0, 16 * 8 * 4};
    k->rows = 16;
    k->run = (core_command){.kind = CLV_COMMAND_RUN,
                            .program = k->prog,
                            .bindings = k->bound,
                            .n_bindings = 2,
                            .symbols = &k->rows};
}

static void work_finish(work *k)
{
    core_program_destroy(k->prog);
    core_buffer_free(k->x);
    core_buffer_free(k->w);
    core_buffer_free(k->y);
}

static void test_compile(void **state)
{
    (void)state;
    work k;
    work_init(&k);
    assert_int_equal(k.prog->info.memory_size, 123);
    assert_int_equal(k.prog->n_bound, 2);
    assert_ptr_equal(mock.bindings[0].buffer, k.w->handle);
    assert_int_equal(mock.bindings[0].tensor, 1);

    core_program *none = NULL;
    const core_binding good = k.weight;
    uint32_t calls = mock.calls;
    k.compile.n_weights = 0;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    k.compile.n_weights = 1;
    k.weight.tensor = 0;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    k.weight = good;
    k.weight.size = 100;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    assert_message("128 bytes|100");
    k.weight = good;
    k.weight.offset = 4;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    k.weight = good;
    dev->info.flags = CLV_DEVICE_STATIC_SHAPES;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_UNSUPPORTED);
    assert_message("1..16|bucket");
    dev->info.flags = 0;
    assert_int_equal(mock.calls, calls);
    mock.no_handle = true;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INTERNAL);
    assert_null(none);
    core_program_destroy(NULL);
    work_finish(&k);
}

static clv_status collect(void *ctx, const void *data, uint64_t size)
{
    strncat(ctx, data, size);
    return CLV_OK;
}

static void test_keeping(void **state)
{
    (void)state;
    work k;
    work_init(&k);
    char bytes[32] = "";
    assert_ok(core_program_serialize(k.prog, collect, bytes));
    assert_string_equal(bytes, "program");
    clv_blob blob = CLV_INIT(clv_blob, CLV_STRUCT_BLOB);
    blob.fd = -1;
    blob.data = bytes;
    blob.size = 7;
    core_program *loaded = k.prog;
    mock.verdict = CLV_VERDICT_STALE;
    assert_ok(core_program_load(dev, &k.compile, &blob, &loaded));
    assert_null(loaded);
    mock.verdict = 4;
    assert_int_equal(core_program_load(dev, &k.compile, &blob, &loaded),
                     CLV_ERR_INTERNAL);
    assert_message("verdict 4");
    mock.verdict = CLV_VERDICT_GOOD;
    assert_ok(core_program_load(dev, &k.compile, &blob, &loaded));
    assert_non_null(loaded);
    core_program_destroy(loaded);
    uint8_t key[32] = {0};
    assert_ok(core_program_key(dev, &k.compile, key));
    assert_int_equal(key[31], 7);

    /* All four slots or none. */
    assert_true(core_device_serialises(dev));
    plugin.api.program_load = NULL;
    assert_false(core_device_serialises(dev));
    work_finish(&k);
}

static void test_submit(void **state)
{
    (void)state;
    work k;
    work_init(&k);
    core_timeline *tl;
    assert_ok(core_timeline_create(dev, 0, &tl));
    const core_command commands[] = {
        k.run,
        {.kind = CLV_COMMAND_COPY,
         .src = k.y,
         .dst = k.x,
         .src_offset = 256,
         .dst_offset = 128,
         .size = 128},
        {.kind = CLV_COMMAND_FILL,
         .dst = k.y,
         .dst_offset = 4,
         .size = 508,
         .pattern = 0xabcd},
    };
    const core_point wait = {tl, 3}, signal = {tl, 4};
    core_submit submit = {commands, 3, &wait, &signal, 1, 1, 55, 0};
    assert_ok(core_device_submit(dev, &submit));
    assert_int_equal(mock.submit.n_commands, 3);
    assert_int_equal(mock.submit.correlation, 55);
    assert_ptr_equal(mock.commands[0].program, k.prog->handle);
    assert_int_equal(mock.commands[0].n_symbols, 1);
    assert_int_equal(mock.commands[0].symbols[0], 16);
    assert_int_equal(mock.bindings[1].tensor, 2);
    assert_int_equal(mock.bindings[1].size, 512);
    assert_int_equal(mock.commands[1].kind, CLV_COMMAND_COPY);
    assert_int_equal(mock.commands[1].src_offset, 256);
    assert_int_equal(mock.commands[1].dst_offset, 128);
    assert_int_equal(mock.commands[2].pattern, 0xabcd);
    assert_null(mock.commands[2].src);
    assert_int_equal(mock.waits[0].value, 3);
    assert_int_equal(mock.signals[0].value, 4);
    assert_ptr_equal(mock.signals[0].timeline, tl->handle);

    /* Fewer rows need less memory. */
    k.rows = 2;
    k.bound[0].size = 2 * 4 * 4;
    k.bound[1].size = 2 * 8 * 4;
    assert_ok(core_device_submit(dev, &submit));
    fail_with(CLV_ERR_LIMIT, "2 submits are in flight");
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_LIMIT);
    fail_with(CLV_OK, NULL);

    /* Beside queue 0 are those of copies. */
    uint32_t calls = mock.calls;
    submit.queue = 1;
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_INVALID);
    assert_message("queue 1|0 for copies");
    dev->info.copy_queues = 2;
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_INVALID);
    assert_message("queue 1|runs to queue 0");
    submit.commands++;
    submit.n_commands--;
    submit.queue = 3;
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_INVALID);
    assert_message("queue 3|2 for copies");
    assert_int_equal(mock.calls, calls);
    submit.queue = 2;
    assert_ok(core_device_submit(dev, &submit));
    assert_int_equal(mock.submit.queue, 2);
    core_timeline_destroy(tl);
    work_finish(&k);
}

/* The command is refused before the plugin sees it. */
static void refuse_command(const core_command *command, const char *parts)
{
    uint32_t calls = mock.calls;
    const core_submit submit = {.commands = command, .n_commands = 1};
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_INVALID);
    assert_message(parts);
    assert_int_equal(mock.calls, calls);
}

static void test_bad_submits(void **state)
{
    (void)state;
    work k;
    work_init(&k);
    const core_binding good[2] = {k.bound[0], k.bound[1]};
    core_command c = k.run;
    k.rows = 17;
    refuse_command(&c, "17|1..16");
    k.rows = 0;
    refuse_command(&c, "1..16");
    k.rows = 16;
    c.n_bindings = 1;
    refuse_command(&c, "1 tensors|2");
    c.n_bindings = 2;
    k.bound[1] = good[0];
    refuse_command(&c, "twice");
    k.bound[1] = good[1];
    k.bound[1].tensor = 1;
    refuse_command(&c, "weight");
    k.bound[1] = good[1];
    k.bound[1].size = 511;
    refuse_command(&c, "512|511");
    k.bound[1] = good[1];
    k.bound[1].offset = 4;
    refuse_command(&c, "buffer of 512");
    k.bound[1] = good[1];
    k.bound[1].buffer = NULL;
    refuse_command(&c, "no buffer");
    k.bound[1] = good[1];
    k.y->access = CLV_ACCESS_READ;
    refuse_command(&c, "read-only");
    k.y->access |= CLV_ACCESS_WRITE;
    c.program = NULL;
    refuse_command(&c, "without a program");

    core_command copy = {
        .kind = CLV_COMMAND_COPY, .src = k.y, .dst = k.x, .size = 256};
    copy.size = 257;
    refuse_command(&copy, "destination");
    copy.size = 256;
    copy.src_offset = 300;
    refuse_command(&copy, "source");
    core_command rows = {.kind = CLV_COMMAND_COPY,
                         .src = k.y,
                         .dst = k.x,
                         .size = 60,
                         .n_rows = 4,
                         .src_pitch = 64,
                         .dst_pitch = 64};
    const core_submit of_rows = {.commands = &rows, .n_commands = 1};
    assert_int_equal(core_device_submit(dev, &of_rows), CLV_ERR_UNSUPPORTED);
    assert_message("4 rows");
    dev->info.flags |= CLV_DEVICE_COPIES_ROWS;
    assert_ok(core_device_submit(dev, &of_rows));
    assert_int_equal(mock.commands[0].n_rows, 4);
    assert_int_equal(mock.commands[0].src_pitch, 64);
    rows.dst_pitch = 66;
    refuse_command(&rows, "destination");
    rows.dst_pitch = 59;
    refuse_command(&rows, "destination");
    rows.dst_pitch = 64;
    rows.n_rows = UINT64_MAX;
    refuse_command(&rows, "destination");
    rows.n_rows = 4;
    rows.src_offset = 512 - 4 * 64;
    rows.src_pitch = 66;
    refuse_command(&rows, "source");
    core_command fill = {.kind = CLV_COMMAND_FILL, .dst = k.x, .size = 6};
    refuse_command(&fill, "whole words");
    core_command unknown = {.kind = 9};
    refuse_command(&unknown, "kind 9");
    work_finish(&k);
}

static void test_two_devices(void **state)
{
    (void)state;
    clv_device *second;
    strcpy(mock.info.id, "1");
    assert_ok(core_device_open(&plugin, 1, &mock.info, &second));
    core_timeline *foreign;
    assert_ok(core_timeline_create(second, 0, &foreign));
    const core_point point = {foreign, 3};
    core_submit submit = {.waits = &point, .n_waits = 1};
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_UNSUPPORTED);
    assert_message("mock:0|mock:1|host");
    dev->info.flags = CLV_DEVICE_FLAG_WAIT;
    assert_ok(core_device_submit(dev, &submit));
    assert_null(mock.waits[0].timeline);
    assert_ptr_equal(mock.waits[0].flag, &flag_word);
    submit = (core_submit){.signals = &point, .n_signals = 1};
    assert_int_equal(core_device_submit(dev, &submit), CLV_ERR_INVALID);

    core_buffer *a, *b;
    assert_ok(core_buffer_alloc(dev, 1, 64, &a));
    assert_ok(core_buffer_alloc(second, 1, 64, &b));
    core_command copy = {
        .kind = CLV_COMMAND_COPY, .src = b, .dst = a, .size = 64};
    refuse_command(&copy, "no buffer of this device");
    core_buffer_free(a);
    core_buffer_free(b);
    core_timeline_destroy(foreign);
    core_device_close(second);
}

static void test_times(void **state)
{
    (void)state;
    clv_trace_record record;
    clv_calibration calibration;
    uint32_t n = 1;
    mock.n_records = 1;
    mock.record.begin = 5;
    mock.record.end = 9;
    memset(mock.record.name, 'k', sizeof mock.record.name);
    assert_ok(core_device_trace_read(dev, &n, &record));
    assert_int_equal(n, 1);
    assert_int_equal(strlen(record.name), sizeof record.name - 1);
    mock.record.end = 4;
    assert_int_equal(core_device_trace_read(dev, &n, &record),
                     CLV_ERR_INTERNAL);
    mock.n_records = 2;
    assert_int_equal(core_device_trace_read(dev, &n, &record),
                     CLV_ERR_INTERNAL);
    assert_message("2 records for 1");
    assert_ok(core_device_calibrate(dev, &calibration));
    mock.calibration.tick_ns = 0;
    assert_int_equal(core_device_calibrate(dev, &calibration),
                     CLV_ERR_INTERNAL);
}

static void test_now(void **state)
{
    (void)state;
    clv_moment now;
    mock.calibration.device_tick = 40;
    mock.calibration.tick_ns = 2.5;
    mock.calibration.energy_nj = 7;
    uint64_t before = clv_now_ns();
    assert_ok(clv_device_now(dev, &now));
    assert_true(now.ns >= (double)before && now.ns <= (double)clv_now_ns());
    assert_true(now.energy_nj == 7 && !now.is_virtual);
    dev->info.clock = CLV_CLOCK_VIRTUAL;
    assert_ok(clv_device_now(dev, &now));
    assert_true(now.ns == 100 && now.energy_nj == 7 && now.is_virtual);
    assert_int_equal(clv_device_now(NULL, &now), CLV_ERR_INVALID);
    const double odd[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        mock.calibration.energy_nj = odd[i];
        assert_int_equal(clv_device_now(dev, &now), CLV_ERR_INTERNAL);
        assert_message("energy");
    }
}

/* Who cannot read a clock has the host's, but not one of a simulation. */
static void test_now_without_clock(void **state)
{
    (void)state;
    clv_moment now;
    plugin.api.calibrate = NULL;
    assert_ok(clv_device_now(dev, &now));
    assert_true(now.ns > 0 && now.energy_nj == 0);
    dev->info.clock = CLV_CLOCK_VIRTUAL;
    assert_int_equal(clv_device_now(dev, &now), CLV_ERR_UNSUPPORTED);
    assert_message("mock:0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open),
        TEST(test_defaults),
        TEST(test_statuses),
        TEST(test_loss),
        TEST(test_buffers),
        TEST(test_imports),
        TEST(test_timelines),
        TEST(test_waits),
        TEST(test_waits_are_checked),
        TEST(test_abandoned),
        TEST(test_subgraph_check),
        TEST(test_desc_size),
        TEST(test_caps),
        TEST(test_compile),
        TEST(test_keeping),
        TEST(test_submit),
        TEST(test_bad_submits),
        TEST(test_two_devices),
        TEST(test_times),
        TEST(test_now),
        TEST(test_now_without_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
