/*
 * Which submits wait by the device, and what their kernels are told, by a
 * driver that notes launches: two devices of an instance, and timelines in
 * pages.
 */
#include "host.h"
#include "../../plugins/vulkan/device_wait.h"
#include "../../plugins/vulkan/memory.h"
#include "../../plugins/vulkan/module.h"
#include "../../plugins/vulkan/timelines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_LAUNCHES 4
#define LINE 128
#define PAGE_ADDRESS(dev) (0x100000000ull * (uint64_t)((dev)-devices + 1))
#define BLOCK_ADDRESS 0x7000000000ull

static struct {
    bool refuses;        /* imports of pages */
    clv_status compiler; /* what it answers */
    uint32_t n_warnings, n_modules, n_blocks, n_barriers, n_launches;
    struct {
        const vk_module *module;
        vk_launch what;
    } launches[MAX_LAUNCHES];
} world;

static clv_plugin_instance instance;
static clv_plugin_device devices[2];
static clv_plugin_device *const a = &devices[0], *const b = &devices[1];

/* ------------------------------------------------------------------------ */
/* The rest of the plugin                                                    */

clv_status vk_module_make(clv_plugin_device *dev, const char *name,
                          const char *source, const uint32_t local[3],
                          vk_module *out)
{
    (void)dev;
    assert_non_null(strstr(source, name));
    out->local[0] = world.compiler ? 0 : local[0];
    world.n_modules += !world.compiler;
    return world.compiler;
}

void vk_module_destroy(clv_plugin_device *dev, vk_module *module)
{
    (void)dev;
    world.n_modules -= module->local[0] != 0;
}

void vk_module_launch(const clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_module *module, const vk_launch *launch)
{
    (void)dev, (void)cb;
    assert_true(world.n_launches < MAX_LAUNCHES);
    world.launches[world.n_launches].module = module;
    world.launches[world.n_launches++].what = *launch;
}

void vk_record_kernel_barrier(clv_plugin_device *dev, VkCommandBuffer cb)
{
    (void)dev, (void)cb;
    world.n_barriers++;
}

clv_status vk_block_create(clv_plugin_device *dev, uint32_t type, uint64_t size,
                           void *pointer, vk_block **out)
{
    assert_int_equal(type, 1);
    assert_int_equal(size, VK_PAGE_SIZE);
    assert_non_null(pointer);
    if (world.refuses)
        return CLV_ERR_NO_MEMORY;
    *out = clv_new(dev->base.host, sizeof **out);
    (*out)->address = PAGE_ADDRESS(dev);
    world.n_blocks++;
    return CLV_OK;
}

void vk_block_destroy(clv_plugin_device *dev, vk_block *block)
{
    clv_free(dev->base.host, block);
    world.n_blocks--;
}

/* ------------------------------------------------------------------------ */
/* The host                                                                  */

static clv_status host_error(clv_host *host, clv_status status, int64_t code,
                             const char *text)
{
    (void)host, (void)code, (void)text;
    return status;
}

static void host_log(clv_host *host, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    (void)host, (void)file, (void)line, (void)text;
    world.n_warnings += level == CLV_LOG_WARN;
}

static const clv_host_api host = {.alloc = host_alloc,
                                  .free = host_free,
                                  .set_error = host_error,
                                  .log = host_log};
static const clv_queue_fns fns = {NULL, NULL};

static vk_physical physicals[2];

static void open_device(clv_plugin_device *dev)
{
    vk_physical *physical = &physicals[dev - devices];
    const uint32_t name = (uint32_t)getpid();
    physical->info.flags = CLV_DEVICE_PEER_WAIT;
    physical->info.uuid[0] = (uint8_t)(dev - devices);
    memcpy(physical->info.uuid + 1, &name, sizeof name);
    memset(dev, 0, sizeof *dev);
    dev->inst = &instance;
    dev->phys = physical;
    dev->imports = true;
    dev->types.n = 2;
    dev->types.type[0].flags = CLV_MEM_DEVICE_LOCAL;
    dev->types.type[1].import_mask = 1;
    assert_int_equal(clv_queue_new(&host, 8, 1, &fns, dev, &dev->base), CLV_OK);
    assert_int_equal(vk_device_wait_start(dev), CLV_OK);
}

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    memset(&instance, 0, sizeof instance);
    vk_timelines_init(&instance);
    open_device(a);
    open_device(b);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        vk_device_wait_stop(&devices[i]);
        clv_queue_destroy(devices[i].base.queue);
    }
    vk_timelines_finish(&instance);
    assert_int_equal(world.n_modules, 0);
    assert_int_equal(world.n_blocks, 0);
    return 0;
}

/* ------------------------------------------------------------------------ */
/* Submits                                                                   */

/* Buffers of device a: its own memory, and the host's. */
static vk_block blocks[2];
static vk_buffer local, shared;

/* A copy from the host's memory, a run, a copy to it; the wait is for b, the
 * signal is a's. */
typedef struct job {
    clv_submit submit;
    clv_command commands[4];
    clv_binding bindings[2];
    clv_timeline_point waits[4], signals[4];
} job;

static clv_command copy(vk_buffer *dst, vk_buffer *src, uint64_t size)
{
    return (clv_command){.kind = CLV_COMMAND_COPY,
                         .dst = &dst->base,
                         .src = &src->base,
                         .size = size,
                         .dst_offset = 32,
                         .src_offset = 64};
}

static void make_job(job *j, clv_plugin_timeline *theirs,
                     clv_plugin_timeline *own)
{
    memset(j, 0, sizeof *j);
    for (uint32_t i = 0; i < 2; i++)
        blocks[i] = (vk_block){.type = i,
                               .address = BLOCK_ADDRESS * (i + 1),
                               .buffer = (VkBuffer)&blocks[i]};
    local = (vk_buffer){.dev = a, .block = &blocks[0], .offset = 256};
    shared = (vk_buffer){.dev = a, .block = &blocks[1], .offset = 512};
    j->commands[0] = copy(&local, &shared, 4096);
    j->bindings[0] = (clv_binding){.buffer = &local.base};
    j->commands[1] = (clv_command){
        .kind = CLV_COMMAND_RUN, .bindings = j->bindings, .n_bindings = 1};
    j->commands[2] = copy(&shared, &local, 1024);
    j->waits[0] = (clv_timeline_point){.flag = &theirs->word, .value = 7};
    j->signals[0] = (clv_timeline_point){.timeline = own, .value = 3};
    j->submit = (clv_submit){.commands = j->commands,
                             .n_commands = 3,
                             .waits = j->waits,
                             .n_waits = 1,
                             .signals = j->signals,
                             .n_signals = 1};
}

static clv_plugin_timeline *make_timeline(clv_plugin_device *dev)
{
    clv_plugin_timeline *tl = NULL;
    assert_int_equal(vk_timeline_create(dev, 2, &tl), CLV_OK);
    return tl;
}

static vk_timeline *whole(clv_plugin_timeline *tl)
{
    uint32_t page;
    return vk_timeline_find(&instance, &tl->word, &page);
}

/* Where a device sees what the timeline has reached. */
static uint64_t address(clv_plugin_device *dev, clv_plugin_timeline *tl)
{
    return PAGE_ADDRESS(dev) + (uint64_t)((char *)&whole(tl)->reached -
                                          instance.timelines[0].memory);
}

/* ------------------------------------------------------------------------ */
/* Tests                                                                     */

static void test_takes(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    uint64_t plain = 0; /* the flag of another plugin */
    job j;
    (void)state;
    make_job(&j, theirs, own);
    assert_int_equal(whole(theirs)->watched, 0);
    assert_true(vk_device_wait_takes(a, &j.submit));
    assert_int_equal(whole(theirs)->watched, 1);
    j.waits[1] = (clv_timeline_point){.timeline = own, .value = 1};
    j.submit.n_waits = 2; /* one of its own does not matter */
    assert_true(vk_device_wait_takes(a, &j.submit));
    j.submit.n_commands = 1;
    assert_true(vk_device_wait_takes(a, &j.submit));
#define REFUSES(change)                                                        \
    make_job(&j, theirs, own);                                                 \
    change;                                                                    \
    assert_false(vk_device_wait_takes(a, &j.submit))
    REFUSES(j.submit.n_waits = 0);
    REFUSES(j.submit.n_commands = 0);
    REFUSES(j.submit.queue = 1);
    REFUSES(j.submit.correlation = 1);
    REFUSES(j.waits[0].flag = &plain);
    REFUSES(j.waits[3] = j.waits[2] = j.waits[1] = j.waits[0];
            j.submit.n_waits = 4);
    /* What would read the host's memory by other means. */
    REFUSES(j.commands[0].size = 1 << 20);
    REFUSES(j.commands[0].size = 4088);
    REFUSES(j.commands[0].src_offset = 8);
    REFUSES(j.commands[0].n_rows = 2; j.commands[0].src_pitch = 8192;
            j.commands[0].dst_pitch = 8192);
    REFUSES(j.bindings[0].buffer = &shared.base);
    REFUSES(j.commands[2] = copy(&local, &shared, 64));
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

static void test_refused(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    job j;
    (void)state;
    make_job(&j, theirs, own);
    /* A driver that does not import the page, or takes no such kernel, is asked
     * once. */
    world.refuses = true;
    assert_false(vk_device_wait_takes(a, &j.submit));
    world.refuses = false;
    assert_false(vk_device_wait_takes(a, &j.submit));
    assert_int_equal(world.n_warnings, 1);
    vk_device_wait_stop(a);
    assert_false(vk_device_wait_takes(a, &j.submit));
    assert_int_equal(vk_device_signals(a, &j.submit), 0);
    assert_int_equal(vk_device_wait_start(a), CLV_OK);
    world.compiler = CLV_ERR_UNSUPPORTED;
    assert_false(vk_device_wait_takes(a, &j.submit));
    world.compiler = CLV_OK;
    assert_false(vk_device_wait_takes(a, &j.submit));
    assert_int_equal(world.n_warnings, 2);
    assert_int_equal(whole(theirs)->watched, 0);
    vk_device_wait_stop(a);
    physicals[0].info.flags = 0;
    assert_int_equal(vk_device_wait_start(a), CLV_OK);
    assert_null(a->device_wait);
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

/* A page that is not imported takes nothing from waits in those that are. */
static void test_second_page(void **state)
{
    clv_plugin_timeline *tls[VK_PAGE_SLOTS + 1];
    job j, other;
    (void)state;
    for (uint32_t i = 0; i <= VK_PAGE_SLOTS; i++)
        tls[i] = make_timeline(b);
    make_job(&j, tls[0], tls[1]);
    make_job(&other, tls[VK_PAGE_SLOTS], tls[1]);
    assert_true(vk_device_wait_takes(a, &j.submit));
    world.refuses = true;
    assert_false(vk_device_wait_takes(a, &other.submit));
    assert_int_equal(world.n_warnings, 1);
    vk_device_wait_record(a, NULL, &j.submit);
    assert_int_equal(world.launches[0].what.args[2], address(a, tls[0]));
    for (uint32_t i = 0; i <= VK_PAGE_SLOTS; i++)
        clv_timeline_destroy(tls[i]);
}

/* Where another process has the device wait, the host does. */
static void test_claim(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    job j;
    (void)state;
    make_job(&j, theirs, own);
    assert_true(vk_device_wait_takes(a, &j.submit));
    physicals[1] = physicals[0];
    assert_false(vk_device_wait_takes(b, &j.submit));
    assert_int_equal(world.n_warnings, 1);
    vk_device_wait_stop(a); /* which gives it back */
    vk_device_wait_stop(b);
    assert_int_equal(vk_device_wait_start(b), CLV_OK);
    assert_true(vk_device_wait_takes(b, &j.submit));
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

static void test_is_ahead(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    job j, other;
    (void)state;
    make_job(&j, theirs, own);
    make_job(&other, own, theirs); /* what b will do */
    other.signals[0].value = 6;
    assert_int_equal(vk_device_signals(b, &other.submit), 0);
    assert_true(vk_device_wait_takes(a, &j.submit));
    assert_int_equal(vk_device_signals(b, &other.submit), 1);
    assert_false(vk_device_wait_is_ahead(a, &j.waits[0]));
    vk_device_signal_handed(&other.submit, 1);
    assert_false(vk_device_wait_is_ahead(a, &j.waits[0]));
    other.signals[0].value = 7;
    vk_device_signal_handed(&other.submit, 0); /* it does not store it */
    assert_false(vk_device_wait_is_ahead(a, &j.waits[0]));
    vk_device_signal_handed(&other.submit, 1);
    assert_true(vk_device_wait_is_ahead(a, &j.waits[0]));
    assert_true(vk_device_wait_may_begin(a, &j.submit));
    j.submit.n_waits = 2; /* and one that is with no driver yet */
    j.waits[1] = (clv_timeline_point){.flag = &theirs->word, .value = 8};
    assert_false(vk_device_wait_may_begin(a, &j.submit));
    assert_int_equal(clv_timeline_signal(theirs, 8), CLV_OK);
    assert_true(vk_device_wait_may_begin(a, &j.submit));
    /* Recorded submits, and copies beside work, store nothing. */
    other.submit.correlation = 1;
    assert_int_equal(vk_device_signals(b, &other.submit), 0);
    other.submit.correlation = 0;
    other.submit.queue = 1;
    assert_int_equal(vk_device_signals(b, &other.submit), 0);
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

static void test_record(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    const uint64_t large = (5ull << 32) + 9;
    job j;
    (void)state;
    make_job(&j, theirs, own);
    j.commands[3] = j.commands[2];
    j.commands[2] = j.commands[1];
    j.commands[1] = copy(&local, &shared, 64); /* a second one */
    j.submit.n_commands = 4;
    j.waits[0].value = large;
    assert_true(vk_device_wait_is_due(&j.submit));
    assert_int_equal(vk_device_wait_copies(&j.submit), 2);
    vk_device_wait_record(a, NULL, &j.submit);
    assert_int_equal(world.n_launches, 2);
    assert_int_equal(world.n_barriers, 1);
    const vk_launch *l = &world.launches[0].what;
    assert_int_equal(l->n_args, 5);
    assert_int_equal(l->args[0], BLOCK_ADDRESS + 256 + 32);
    assert_int_equal(l->args[1], 2 * BLOCK_ADDRESS + 512 + 64);
    assert_int_equal(l->args[2], address(a, theirs));
    assert_int_equal(l->n_params, 8);
    assert_int_equal(l->params[0], 4096);
    assert_int_equal(l->params[1], 1);
    assert_int_equal(l->params[2], 5);
    assert_int_equal(l->params[3], 9);
    assert_int_equal(l->groups[0], 1);
    l = &world.launches[1].what;
    assert_int_equal(l->params[0], 64);
    assert_int_equal(l->params[1], 0);
    assert_int_equal(l->groups[0], 1);
    const uint64_t at = 256 + 32;
    assert_true(vk_device_wait_writes(&j.submit, blocks[0].buffer, at + 4095,
                                      at + 8192));
    assert_false(vk_device_wait_writes(&j.submit, blocks[0].buffer, at + 4096,
                                       at + 8192));
    assert_false(vk_device_wait_writes(&j.submit, blocks[0].buffer, 0, at));
    assert_false(vk_device_wait_writes(&j.submit, blocks[1].buffer, at, 8192));
    /* The host has seen it meanwhile: copies alone. */
    assert_int_equal(clv_timeline_signal(theirs, large), CLV_OK);
    assert_false(vk_device_wait_is_due(&j.submit));
    vk_device_wait_record(a, NULL, &j.submit);
    assert_int_equal(world.launches[2].what.params[0], 4096);
    assert_int_equal(world.launches[2].what.params[1], 0);
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

/* One group alone looks at words. */
static void test_large_copy(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    job j;
    (void)state;
    make_job(&j, theirs, own);
    j.commands[0].size = (32 << 10) - 64; /* it begins amid a line */
    vk_device_wait_record(a, NULL, &j.submit);
    assert_int_equal(world.n_launches, 1);
    assert_int_equal(world.launches[0].what.groups[0], 1);
    j.commands[0].size = (32 << 10) - 32;
    vk_device_wait_record(a, NULL, &j.submit);
    assert_int_equal(world.n_launches, 3);
    assert_int_equal(world.n_barriers, 1);
    const vk_launch *l = &world.launches[1].what;
    assert_int_equal(l->params[0], 0);
    assert_int_equal(l->params[1], 1);
    assert_int_equal(l->groups[0], 1);
    l = &world.launches[2].what;
    assert_int_equal(l->params[0], (32 << 10) - 32);
    assert_int_equal(l->params[1], 0);
    assert_int_equal(l->groups[0], 2);
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

/* What a kernel is told that waits and signals itself. */
static void test_give(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    const uint64_t from = BLOCK_ADDRESS + 256 + 64;
    uint64_t values[GPU_EXCHANGE_VALUES] = {0};
    job j;
    (void)state;
    make_job(&j, theirs, own);
    assert_false(vk_device_wait_give(a, &j.submit, values)); /* amid a line */
    j.commands[0].src_offset += LINE - 64;
    assert_true(vk_device_wait_give(a, &j.submit, values));
    assert_int_equal(values[GPU_RECEIVE_TO], BLOCK_ADDRESS + 256 + 32);
    assert_int_equal(values[GPU_RECEIVE_FROM], 2 * BLOCK_ADDRESS + 512 + LINE);
    assert_int_equal(values[GPU_RECEIVE_BYTES], 4096);
    assert_int_equal(values[GPU_RECEIVE_WORD], address(a, theirs));
    assert_int_equal(values[GPU_RECEIVE_VALUE], 7);
    j.commands[0].size += 16;
    assert_false(vk_device_wait_give(a, &j.submit, values));
    j.commands[0].size -= 16;
    j.waits[1] = j.waits[0];
    j.submit.n_waits = 2;
    assert_false(vk_device_wait_give(a, &j.submit, values));
    j.submit.n_waits = 1;
    assert_int_equal(clv_timeline_signal(theirs, 7), CLV_OK);
    assert_false(vk_device_wait_give(a, &j.submit, values));

    j.signals[1] = (clv_timeline_point){.timeline = theirs, .value = 11};
    assert_true(vk_device_signal_give(a, &j.submit, 2, from, 1024, values));
    assert_int_equal(values[GPU_SEND_TO], 2 * BLOCK_ADDRESS + 512 + 32);
    assert_int_equal(values[GPU_SEND_WORD], address(a, theirs));
    assert_int_equal(values[GPU_SEND_VALUE], 11);
    assert_false(vk_device_signal_give(a, &j.submit, 3, from, 1024, values));
    assert_false(vk_device_signal_give(a, &j.submit, 1, from, 512, values));
    assert_false(
        vk_device_signal_give(a, &j.submit, 1, from + 16, 1024, values));
    j.submit.n_commands = 2; /* it ends with a run */
    assert_false(vk_device_signal_give(a, &j.submit, 1, from, 1024, values));
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

static void test_signals(void **state)
{
    clv_plugin_timeline *theirs = make_timeline(b), *own = make_timeline(a);
    job j;
    (void)state;
    make_job(&j, theirs, own);
    assert_true(vk_device_signal_copies(&j.submit));
    j.signals[1] = (clv_timeline_point){.timeline = theirs, .value = 11};
    vk_device_signal_record(a, NULL, &j.submit, 2);
    const vk_launch *l = &world.launches[0].what;
    assert_int_equal(world.launches[0].module->local[0], 1024);
    assert_int_equal(l->args[0], 2 * BLOCK_ADDRESS + 512 + 32);
    assert_int_equal(l->args[1], BLOCK_ADDRESS + 256 + 64);
    assert_int_equal(l->args[2], address(a, theirs));
    assert_int_equal(l->params[0], 1024);
    assert_int_equal(l->params[1], 1);
    assert_int_equal(l->params[3], 11);
    assert_int_equal(l->groups[0], 1);
    j.submit.n_commands = 2; /* it ends with a run */
    assert_false(vk_device_signal_copies(&j.submit));
    vk_device_signal_record(a, NULL, &j.submit, 1);
    l = &world.launches[1].what;
    assert_int_equal(l->params[0], 0);
    assert_int_equal(l->args[2], address(a, own));
    assert_int_equal(l->params[3], 3);
    clv_timeline_destroy(theirs);
    clv_timeline_destroy(own);
}

/* Whoever waits on a device for work that failed goes on, and then fails. */
static void test_failed(void **state)
{
    clv_plugin_timeline *one = make_timeline(a), *two = make_timeline(a);
    job j;
    (void)state;
    assert_int_equal(whole(one)->reached, 2);
    assert_int_equal(vk_timeline_fail(one, CLV_OK, "no error"),
                     CLV_ERR_INVALID);
    assert_int_equal(whole(one)->reached, 2);
    assert_int_equal(vk_timeline_fail(one, CLV_ERR_TIMEOUT, "late"), CLV_OK);
    assert_true(whole(one)->reached == UINT64_MAX);
    make_job(&j, one, two);
    vk_timelines_failed(&instance, &j.submit);
    assert_true(whole(two)->reached == UINT64_MAX);
    clv_timeline_destroy(one);
    clv_timeline_destroy(two);
}

/* Slots are used again, and where none is left timelines lie elsewhere. */
static void test_slots(void **state)
{
    enum { MOST = VK_MAX_PAGES * VK_PAGE_SLOTS };
    clv_plugin_timeline *tls[MOST + 1], *again;
    (void)state;
    for (uint32_t i = 0; i <= MOST; i++)
        tls[i] = make_timeline(a);
    assert_non_null(whole(tls[MOST - 1]));
    assert_null(whole(tls[MOST]));
    clv_timeline_destroy(tls[5]);
    again = make_timeline(a);
    assert_ptr_equal(again, tls[5]);
    assert_int_equal(again->word, 2);
    assert_int_equal(whole(again)->watched, 0);
    for (uint32_t i = 0; i <= MOST; i++)
        clv_timeline_destroy(tls[i]);
    assert_int_equal(vk_timeline_create(a, UINT64_MAX, &again),
                     CLV_ERR_INVALID);
    again = make_timeline(a); /* nothing was lost */
    assert_ptr_equal(again, tls[0]);
    clv_timeline_destroy(again);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_takes),       CASE(test_refused),  CASE(test_claim),
        CASE(test_second_page), CASE(test_is_ahead), CASE(test_record),
        CASE(test_large_copy),  CASE(test_give),     CASE(test_signals),
        CASE(test_failed),      CASE(test_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
