/*
 * Which flights come to the driver as one submit, by a driver that ends what it
 * has when it is told to.
 */
#include "host.h"
#include "../../plugins/vulkan/device_wait.h"
#include "../../plugins/vulkan/flight.h"
#include "../../plugins/vulkan/memory.h"
#include "../../plugins/vulkan/program.h"
#include "../../plugins/vulkan/timelines.h"
#include "../../plugins/vulkan/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST 64

static struct {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool held;     /* no flight is recorded */
    bool ends;     /* the driver ends what it has */
    uint64_t open; /* so far the other device's driver has its work */
    int fails;     /* the flight that cannot be recorded; -1: none */
    uint32_t n_recorded, n_groups, groups[MOST];
} world;

static uint64_t flag; /* of another device, which reaches 2 in the end */
static clv_plugin_device dev;
static clv_plugin_timeline *timeline;
static int program; /* of all runs; not looked into */

static void set(bool *value, bool to)
{
    pthread_mutex_lock(&world.lock);
    *value = to;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

/* ------------------------------------------------------------------------ */
/* The rest of the plugin                                                    */

bool vk_device_wait_takes(clv_plugin_device *d, const clv_submit *submit)
{
    (void)d;
    return submit->n_waits;
}

bool vk_device_wait_is_ahead(const clv_plugin_device *d,
                             const clv_timeline_point *point)
{
    (void)d;
    pthread_mutex_lock(&world.lock);
    const bool open = world.open >= point->value;
    pthread_mutex_unlock(&world.lock);
    return open;
}

bool vk_device_wait_may_begin(const clv_plugin_device *d,
                              const clv_submit *submit)
{
    return vk_device_wait_is_ahead(d, &submit->waits[0]);
}

clv_status vk_device_wait_start(clv_plugin_device *d)
{
    (void)d;
    return CLV_OK;
}

void vk_device_wait_stop(clv_plugin_device *d)
{
    (void)d;
}

void vk_timelines_failed(const clv_plugin_instance *inst,
                         const clv_submit *submit)
{
    (void)inst, (void)submit;
}

clv_status vk_flight_init(vk_work *work, vk_flight *flight)
{
    flight->work = work;
    return CLV_OK;
}

void vk_flight_finish(clv_plugin_device *d, vk_flight *flight)
{
    (void)d, (void)flight;
}

void vk_flight_record(vk_flight *flight, vk_flight *lead)
{
    pthread_mutex_lock(&world.lock);
    while (world.held)
        pthread_cond_wait(&world.changed, &world.lock);
    flight->lead = lead;
    if ((int)world.n_recorded++ == world.fails)
        flight->status = CLV_ERR_NO_MEMORY;
    else
        flight->value = flight->work->value + 1;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

/* All are recorded behind the first one. */
void vk_flights_submit(vk_work *work, uint64_t first, uint32_t n)
{
    vk_flight *lead = &work->flights[first % VK_FLIGHTS];
    for (uint64_t f = first; f < first + n; f++)
        assert_ptr_equal(work->flights[f % VK_FLIGHTS].lead, lead);
    work->value++;
    pthread_mutex_lock(&world.lock);
    world.groups[world.n_groups++] = n;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

clv_status vk_flight_wait(const vk_flight *flight, char *message)
{
    (void)flight, (void)message;
    pthread_mutex_lock(&world.lock);
    while (!world.ends)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
    return CLV_OK;
}

VkResult vk_make_semaphore(clv_plugin_device *d, VkSemaphore *out)
{
    (void)d, (void)out;
    return VK_SUCCESS;
}

clv_status vk_fail(clv_plugin_device *d, VkResult result, const char *call)
{
    (void)d, (void)result, (void)call;
    return CLV_ERR_INTERNAL;
}

clv_status vk_block_create(clv_plugin_device *d, uint32_t type, uint64_t size,
                           void *pointer, vk_block **out)
{
    (void)d, (void)type, (void)size, (void)pointer, (void)out;
    return CLV_OK;
}

void vk_block_destroy(clv_plugin_device *d, vk_block *block)
{
    (void)d, (void)block;
}

clv_status vk_trace_init(clv_plugin_device *d)
{
    (void)d;
    return CLV_OK;
}

void vk_trace_finish(clv_plugin_device *d)
{
    (void)d;
}

clv_status vk_program_check(const clv_command *command)
{
    (void)command;
    return CLV_OK;
}

clv_status vk_validated(clv_plugin_instance *inst)
{
    (void)inst;
    return CLV_OK;
}

static void destroy_semaphore(VkDevice device, VkSemaphore semaphore,
                              const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)semaphore, (void)callbacks;
}

/* ------------------------------------------------------------------------ */
/* The host                                                                  */

static clv_status host_error(clv_host *host, clv_status status, int64_t code,
                             const char *text)
{
    (void)host, (void)code;
    print_message("%s\n", text);
    return status;
}

static const clv_host_api host = {
    .alloc = host_alloc, .free = host_free, .set_error = host_error};
static const clv_queue_fns *const fns = &vk_queue_fns;
static vk_physical physical;

static int set_up(void **state)
{
    (void)state;
    memset(&dev, 0, sizeof dev);
    memset(&world, 0, sizeof world);
    pthread_mutex_init(&world.lock, NULL);
    pthread_cond_init(&world.changed, NULL);
    world.fails = -1;
    world.held = true;
    world.open = 1;
    flag = 0;
    dev.phys = &physical;
    dev.api.DestroySemaphore = destroy_semaphore;
    assert_int_equal(clv_queue_new(&host, 0, 0, fns, &dev, &dev.base), CLV_OK);
    assert_int_equal(vk_work_start(&dev), CLV_OK);
    assert_int_equal(clv_timeline_create(&dev, 0, &timeline), CLV_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    set(&world.ends, true);
    clv_timeline_destroy(timeline);
    vk_work_stop(&dev);
    clv_queue_destroy(dev.base.queue);
    pthread_mutex_destroy(&world.lock);
    pthread_cond_destroy(&world.changed);
    return 0;
}

/* ------------------------------------------------------------------------ */

/* The next run, which brings the timeline to `value`, and waits by the device
 * until the other one's has reached `waits`; 0: for nothing. */
static void submit(uint64_t value, uint64_t waits)
{
    const clv_command run = {.header = {sizeof run, CLV_STRUCT_COMMAND, NULL},
                             .kind = CLV_COMMAND_RUN,
                             .program = (clv_plugin_program *)(void *)&program};
    const clv_timeline_point wait = {.flag = &flag, .value = waits};
    const clv_timeline_point signal = {.timeline = timeline, .value = value};
    const clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                          .commands = &run,
                          .n_commands = 1,
                          .command_stride = sizeof run,
                          .waits = &wait,
                          .n_waits = waits > 0,
                          .signals = &signal,
                          .n_signals = 1};
    assert_int_equal(clv_queue_submit(&dev, &s), CLV_OK);
}

/* The first one, and n more that wait by the device. */
static void submit_all(uint32_t n)
{
    for (uint32_t i = 0; i <= n; i++)
        submit(i + 1, i > 0);
    set(&world.held, false);
}

/* Until the driver has had so many submits. */
static void await_groups(uint32_t n)
{
    pthread_mutex_lock(&world.lock);
    while (world.n_groups < n)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
}

static void finish(void)
{
    __atomic_store_n(&flag, 2, __ATOMIC_RELEASE);
    set(&world.ends, true);
}

static void await(uint64_t value)
{
    assert_int_equal(clv_timeline_wait(timeline, value, 0, UINT64_MAX), CLV_OK);
}

static void expect(const uint32_t *groups, uint32_t n)
{
    await_groups(n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(world.groups[i], groups[i]);
}

/* No more than the driver has, until there are no more places. */
static void test_grows(void **state)
{
    static const uint32_t groups[] = {1, 1, 2, 4, 8};
    uint32_t all = 0;
    (void)state;
    submit_all(20);
    expect(groups, 5);
    finish();
    await(21);
    for (uint32_t i = 0; i < world.n_groups; i++) {
        assert_in_range(world.groups[i], 1, VK_TOGETHER);
        all += world.groups[i];
    }
    assert_int_equal(all, 21);
}

/* What is last does not wait for more. */
static void test_last(void **state)
{
    static const uint32_t groups[] = {1, 1, 1};
    (void)state;
    submit_all(2);
    expect(groups, 3);
    finish();
    await(3);
}

/* One that does not wait by the device is a submit of its own. */
static void test_apart(void **state)
{
    static const uint32_t groups[] = {1, 1, 1, 1, 1};
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        submit(i + 1, i % 3 != 0);
    set(&world.held, false);
    expect(groups, 5);
    finish();
    await(5);
}

/* The driver gets what is recorded while the next one has to wait. */
static void test_closed(void **state)
{
    static const uint32_t groups[] = {1, 1, 1, 1};
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        submit(i + 1, i < 3 ? i > 0 : 2);
    set(&world.held, false);
    expect(groups, 3);
    pthread_mutex_lock(&world.lock);
    assert_int_equal(world.n_recorded, 3);
    world.open = 2;
    pthread_mutex_unlock(&world.lock);
    expect(groups, 4);
    finish();
    await(4);
}

/* A flight that cannot be recorded ends its submit, and fails alone. */
static void test_failure(void **state)
{
    (void)state;
    world.fails = 4;
    submit_all(6);
    finish();
    assert_int_equal(clv_timeline_wait(timeline, 7, 0, UINT64_MAX),
                     CLV_ERR_NO_MEMORY);
    uint32_t all = 0;
    for (uint32_t i = 0; i < world.n_groups; i++)
        all += world.groups[i];
    assert_in_range(all, 5, 7);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {CASE(test_grows), CASE(test_last),
                                       CASE(test_apart), CASE(test_closed),
                                       CASE(test_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
