/*
 * The device front over a plugin made of knobs: which devices it opens, what it
 * makes of each answer, the defaults of slots left out, and a device's memory
 * and clock.
 */
#include "../../core/device/memory.h"
#include "mock_device.h"

#include "../../core/device/loss.h"
#include "../../core/device/submit.h"

#include <math.h>

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
/* Memory                                                                   */

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

/* Memory that devices of other plugins map is none of theirs. */
static void test_mapped(void **state)
{
    core_plugin strange = {.ctx = &context};
    const clv_device owner = {.plugin = &plugin}, other = {.plugin = &strange};
    clv_mem_type *of_host = &dev->mem_types[1];
    uint32_t type;
    (void)state;
    of_host->flags |= CLV_MEM_COHERENT;
    assert_false(core_device_imports_mapped(dev, &owner, &type));
    of_host->import_handles |= CLV_HANDLE_MAPPED_POINTER;
    assert_true(core_device_imports_mapped(dev, &owner, &type));
    assert_int_equal(type, 1);
    assert_false(core_device_imports_mapped(dev, &other, &type));
    of_host->flags &= ~(uint32_t)CLV_MEM_COHERENT;
    assert_false(core_device_imports_mapped(dev, &owner, &type));
}

/* ------------------------------------------------------------------------ */
/* The clock                                                                */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open),
        TEST(test_defaults),
        TEST(test_statuses),
        TEST(test_loss),
        TEST(test_abandoned),
        TEST(test_buffers),
        TEST(test_imports),
        TEST(test_mapped),
        TEST(test_times),
        TEST(test_now),
        TEST(test_now_without_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
