/*
 * Work that is submitted, and waits for it, of the device front over a plugin
 * made of knobs: what a plugin sees of a submit, which submits it never sees,
 * and that what it says of its timelines is not believed without proof.
 */
#include "mock_work.h"

#include "../../core/device/loss.h"

/* ------------------------------------------------------------------------ */
/* Submits                                                                  */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_submit),      TEST(test_bad_submits),
        TEST(test_two_devices), TEST(test_timelines),
        TEST(test_waits),       TEST(test_waits_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
