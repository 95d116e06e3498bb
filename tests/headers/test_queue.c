/* The queues of plugin_queue.h: one for work, and others for copies beside it.
 */
#include <cleave/plugin_queue.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

struct clv_plugin_device {
    clv_device_base base;
    uint64_t log; /* what ran: a digit each, the last one lowest; atomic */
};

static clv_status said;

static void *host_alloc(clv_host *self, uint64_t size, uint64_t align)
{
    (void)self;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void host_free(clv_host *self, void *data)
{
    (void)self;
    free(data);
}

static clv_status host_error(clv_host *self, clv_status status, int64_t code,
                             const char *message)
{
    (void)self, (void)code, (void)message;
    return said = status;
}

static const clv_host_api host = {
    .header = {sizeof host, CLV_STRUCT_HOST_API, NULL},
    .alloc = host_alloc,
    .free = host_free,
    .set_error = host_error,
};

static clv_status check(void *ctx, const clv_command *c)
{
    (void)ctx, (void)c;
    return CLV_OK;
}

/* The pattern is what is logged; 9 fails. */
static clv_status run(void *ctx, const clv_submit *s, uint32_t i, char *message)
{
    clv_plugin_device *dev = (clv_plugin_device *)ctx;
    uint64_t digit = s->commands[i].pattern, old = 0;
    if (digit == 9) {
        snprintf(message, CLV_MESSAGE_SIZE, "as told");
        return CLV_ERR_IO;
    }
    while (!__atomic_compare_exchange_n(&dev->log, &old, 10 * old + digit, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    return CLV_OK;
}

static clv_plugin_device *dev;
static clv_plugin_timeline *tl[3];

static int setup(void **state)
{
    static const clv_queue_fns fns = {check, run};
    (void)state;
    dev = (clv_plugin_device *)clv_new(&host, sizeof *dev);
    assert_int_equal(clv_queue_new(&host, 2, 2, &fns, dev, &dev->base), CLV_OK);
    assert_int_equal(clv_queue_start(dev->base.queue, clv_queue_main), CLV_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(clv_timeline_create(dev, 0, &tl[i]), CLV_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clv_queue_stop(dev->base.queue); /* what waits ends with it */
    for (int i = 0; i < 3; i++)
        clv_timeline_destroy(tl[i]);
    clv_device_close(dev);
    return 0;
}

/* A fill that logs digit, after timeline wait, of those above, has come to 1;
 * then signal gets 1. -1: none. */
static clv_status put(uint32_t queue, uint32_t kind, uint32_t digit, int wait,
                      int signal)
{
    const clv_command c = {.header = {sizeof c, CLV_STRUCT_COMMAND, NULL},
                           .kind = kind,
                           .pattern = digit,
                           .program =
                               kind == CLV_COMMAND_RUN ? (void *)dev : NULL};
    const clv_timeline_point before = {wait < 0 ? NULL : tl[wait], NULL, 1},
                             after = {signal < 0 ? NULL : tl[signal], NULL, 1};
    const clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                          .commands = &c,
                          .waits = &before,
                          .signals = &after,
                          .n_commands = 1,
                          .command_stride = sizeof c,
                          .n_waits = wait >= 0,
                          .n_signals = signal >= 0,
                          .queue = queue};
    return clv_queue_submit(dev, &s);
}

static clv_status fill(uint32_t queue, uint32_t digit, int wait, int signal)
{
    return put(queue, CLV_COMMAND_FILL, digit, wait, signal);
}

static clv_status await(int i)
{
    return clv_timeline_wait(tl[i], 1, 0, 10000 * MS);
}

static uint64_t logged(void)
{
    return __atomic_load_n(&dev->log, __ATOMIC_SEQ_CST);
}

/* Work waits for a copy that waits for the host, and another copy for it. */
static void test_waits(void **state)
{
    (void)state;
    assert_int_equal(fill(0, 2, 1, 2), CLV_OK);
    assert_int_equal(fill(2, 3, 2, -1), CLV_OK);
    assert_int_equal(fill(1, 1, 0, 1), CLV_OK);
    assert_int_equal(clv_timeline_wait(tl[1], 1, 0, 5 * MS), CLV_ERR_TIMEOUT);
    assert_int_equal(logged(), 0);
    assert_int_equal(clv_timeline_signal(tl[0], 1), CLV_OK);
    assert_int_equal(await(2), CLV_OK);
    while (logged() < 100)
        sched_yield();
    assert_int_equal(logged(), 123);
}

/* One that waits holds back its own queue alone. */
static void test_beside(void **state)
{
    (void)state;
    for (uint32_t q = 0; q < 3; q++)
        if (q != 1)
            assert_int_equal(fill(q, 1 + q, 0, -1), CLV_OK);
    assert_int_equal(fill(1, 4, -1, -1), CLV_OK);
    assert_int_equal(fill(1, 5, -1, 1), CLV_OK);
    assert_int_equal(await(1), CLV_OK);
    assert_int_equal(logged(), 45);
}

static void test_depth(void **state)
{
    (void)state;
    for (uint32_t q = 0; q < 3; q++) {
        assert_int_equal(fill(q, 1, 0, -1), CLV_OK);
        assert_int_equal(fill(q, 1, 0, -1), CLV_OK);
        assert_int_equal(fill(q, 1, 0, -1), CLV_ERR_LIMIT);
    }
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(fill(3, 1, -1, -1), CLV_ERR_INVALID);
    assert_int_equal(put(1, CLV_COMMAND_RUN, 1, -1, -1), CLV_ERR_INVALID);
    assert_int_equal(said, CLV_ERR_INVALID);
    assert_int_equal(put(0, CLV_COMMAND_RUN, 1, -1, 1), CLV_OK);
    assert_int_equal(await(1), CLV_OK);
    assert_int_equal(logged(), 1);
}

/* A submit of a host that knows one queue: what lies behind it is not its. */
static void test_older(void **state)
{
    clv_submit s;
    (void)state;
    memset(&s, 0xff, sizeof s);
    memset(&s, 0, offsetof(clv_submit, queue));
    s.header.struct_size = offsetof(clv_submit, queue);
    s.header.struct_type = CLV_STRUCT_SUBMIT;
    const clv_timeline_point after = {tl[1], NULL, 1};
    s.signals = &after;
    s.n_signals = 1;
    assert_int_equal(clv_queue_submit(dev, &s), CLV_OK);
    assert_int_equal(await(1), CLV_OK);
}

static void test_failure(void **state)
{
    (void)state;
    assert_int_equal(fill(0, 2, 1, 2), CLV_OK);
    assert_int_equal(fill(1, 9, -1, 1), CLV_OK);
    assert_int_equal(await(2), CLV_ERR_IO);
    assert_string_equal(tl[2]->message, "as told");
    assert_int_equal(logged(), 0);
}

static void test_loss(void **state)
{
    (void)state;
    for (uint32_t q = 0; q < 2; q++)
        assert_int_equal(fill(q, 1, 0, 1 + (int)q), CLV_OK);
    assert_int_equal(clv_fault_inject(dev, CLV_FAULT_LOST), CLV_OK);
    assert_int_equal(await(1), CLV_ERR_DEVICE_LOST);
    assert_int_equal(await(2), CLV_ERR_DEVICE_LOST);
    assert_int_equal(fill(1, 1, -1, -1), CLV_ERR_DEVICE_LOST);
    assert_int_equal(logged(), 0);
}

/* ------------------------------------------------------------------------ */
/* Threads that share a fifo                                                */

/* The same device, without the queue's threads. */
static int setup_still(void **state)
{
    static const clv_queue_fns fns = {check, run};
    (void)state;
    dev = (clv_plugin_device *)clv_new(&host, sizeof *dev);
    assert_int_equal(clv_queue_new(&host, 2, 0, &fns, dev, &dev->base), CLV_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(clv_timeline_create(dev, 0, &tl[i]), CLV_OK);
    return 0;
}

/* A check that failed may have left the lock held. */
static int teardown_still(void **state)
{
    pthread_mutex_trylock(&dev->base.queue->lock);
    pthread_mutex_unlock(&dev->base.queue->lock);
    return teardown(state);
}

static clv_fifo *lock_fifo(void)
{
    pthread_mutex_lock(&dev->base.queue->lock);
    return &dev->base.queue->fifos[0];
}

static void unlock(void)
{
    pthread_mutex_unlock(&dev->base.queue->lock);
}

/* With the lock held: the job that was taken is run, and ends. */
static void run_taken(clv_fifo *fifo, clv_queue_job *job)
{
    char message[CLV_MESSAGE_SIZE];
    assert_int_equal(run(dev, &job->submit, 0, message), CLV_OK);
    clv_fifo_pass(fifo);
    fifo->n_jobs--;
    unlock();
    clv_queue_job_free(dev->base.queue, job);
    lock_fifo();
}

static void *fill_later(void *ctx)
{
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    assert_int_equal(fill(0, 1, *(const int *)ctx, -1), CLV_OK);
    return NULL;
}

/* What take_soon() finds of a submit that comes while it polls. */
static clv_queue_job *take_soon(clv_fifo *fifo, int wait)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fill_later, &wait), 0);
    while (!fifo->n_pushed) /* the machine may be busy */
        if (clv_fifo_take_soon(fifo, 10000 * MS))
            break;
    clv_queue_job *job = fifo->taken ? fifo->first : NULL;
    unlock();
    pthread_join(thread, NULL);
    lock_fifo();
    return job;
}

static void test_soon(void **state)
{
    (void)state;
    clv_fifo *fifo = lock_fifo();
    assert_null(clv_fifo_take_soon(fifo, 0));
    assert_null(clv_fifo_take_soon(fifo, MS));
    clv_queue_job *job = take_soon(fifo, -1);
    assert_non_null(job);
    assert_null(clv_fifo_take_soon(fifo, 0));
    run_taken(fifo, job);
    assert_null(clv_fifo_take_soon(fifo, MS));
    assert_int_equal(logged(), 1);
    unlock();
}

/* What waits is left to the thread that may wait. */
static void test_soon_waits(void **state)
{
    (void)state;
    clv_fifo *fifo = lock_fifo();
    assert_null(take_soon(fifo, 0));
    unlock();
    assert_int_equal(clv_timeline_signal(tl[0], 1), CLV_OK);
    lock_fifo();
    assert_null(clv_fifo_take_soon(fifo, MS)); /* not behind others */
    clv_queue_job *job = clv_fifo_take(fifo);
    assert_non_null(job);
    run_taken(fifo, job);
    unlock();
}

static void *take_one(void *ctx)
{
    clv_fifo *fifo = lock_fifo();
    clv_queue_job *job = clv_fifo_take(fifo);
    (void)ctx;
    if (job)
        run_taken(fifo, job);
    unlock();
    return NULL;
}

/* One thread has a job at a time, so that jobs keep their order. */
static void test_take(void **state)
{
    const struct timespec pause = {0, 5000000};
    pthread_t thread;
    (void)state;
    assert_int_equal(fill(0, 1, -1, -1), CLV_OK);
    assert_int_equal(fill(0, 2, -1, -1), CLV_OK);
    clv_fifo *fifo = lock_fifo();
    clv_queue_job *job = clv_fifo_take(fifo);
    assert_non_null(job);
    assert_int_equal(pthread_create(&thread, NULL, take_one, NULL), 0);
    unlock();
    nanosleep(&pause, NULL);
    assert_int_equal(logged(), 0);
    lock_fifo();
    run_taken(fifo, job);
    unlock();
    pthread_join(thread, NULL);
    assert_int_equal(logged(), 12);
    assert_int_equal(pthread_create(&thread, NULL, take_one, NULL), 0);
    nanosleep(&pause, NULL);
    clv_queue_stop(dev->base.queue);
    pthread_join(thread, NULL);
    assert_int_equal(logged(), 12);
}

static int waits_itself; /* the device, for flags */

static int is_ahead(void *ctx, const clv_submit *submit,
                    const clv_timeline_point *point)
{
    (void)ctx, (void)submit;
    return waits_itself && !point->timeline;
}

static void *raise_flag(void *flag)
{
    const struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
    __atomic_store_n((uint64_t *)flag, 5, __ATOMIC_RELEASE);
    return NULL;
}

/* A wait for another device's flag that the device does itself: the work is
 * handed over before, and has ended no earlier than the flag says. */
static void test_flag_ahead(void **state)
{
    uint64_t flag = 4;
    const clv_timeline_point wait = {NULL, &flag, 5};
    const clv_submit s = {.waits = &wait, .n_waits = 1};
    clv_queue *queue = lock_fifo()->queue;
    char message[CLV_MESSAGE_SIZE] = "";
    pthread_t thread;
    (void)state;
    queue->is_ahead = is_ahead;
    waits_itself = 1;
    assert_int_equal(clv_queue_begin(queue, &s, message), CLV_OK);
    assert_int_equal(pthread_create(&thread, NULL, raise_flag, &flag), 0);
    assert_int_equal(clv_queue_settle(queue, &s, message), CLV_OK);
    assert_int_equal(flag, 5);
    pthread_join(thread, NULL);
    flag = 4 | CLV_FLAG_FAILED;
    assert_int_equal(clv_queue_settle(queue, &s, message), CLV_ERR_CANCELLED);
    assert_non_null(strstr(message, "another device"));
    flag = 5 | CLV_FLAG_FAILED; /* it had been reached */
    assert_int_equal(clv_queue_settle(queue, &s, message), CLV_OK);
    flag = 4;
    waits_itself = 0;
    assert_int_equal(pthread_create(&thread, NULL, raise_flag, &flag), 0);
    assert_int_equal(clv_queue_begin(queue, &s, message), CLV_OK);
    assert_int_equal(flag, 5);
    pthread_join(thread, NULL);
    unlock();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define STILL(name)                                                            \
    cmocka_unit_test_setup_teardown(name, setup_still, teardown_still)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_waits),   TEST(test_beside),      TEST(test_depth),
        TEST(test_refused), TEST(test_older),       TEST(test_failure),
        TEST(test_loss),    STILL(test_soon),       STILL(test_soon_waits),
        STILL(test_take),   STILL(test_flag_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
