/*
 * Polling on cores that other work wants: how it is noticed, for how long it is
 * believed, and what it is worth.
 */
#include <cleave/plugin_queue.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* Rounds until polling ends, at most 1000. */
static uint32_t poll(clv_spin_state *state)
{
    clv_spin spin = {0, 0};
    while (spin.rounds < 1000 && clv_spin_once(&spin, state, UINT64_MAX))
        continue;
    return spin.rounds;
}

static void test_gives_up_soon_while_busy(void **unused)
{
    clv_spin_state state = {UINT64_MAX, 0};
    (void)unused;
    assert_int_equal(poll(&state), 96);
    state.busy_until = clv_queue_now(); /* over, unless it is found again */
    assert_true(poll(&state) == 1000 || state.busy_ns);
}

/* Where polling is over, looks are far apart: the core is free meanwhile. */
static void test_sleeps(void **unused)
{
    const uint64_t begin = clv_queue_now();
    clv_spin_state state = {0, 0};
    clv_spin spin = {0, 0};
    uint32_t looks = 0;
    (void)unused;
    while (clv_queue_now() - begin < 20 * MS) {
        clv_spin_or_sleep(&spin, &state, MS / 10);
        looks++;
    }
    const uint64_t late = clv_queue_now() - begin - 20 * MS;
    print_message("%u looks in 20 ms, %g ms late\n", looks,
                  (double)late * 1e-6);
    assert_true(looks > 20 && looks < 5000);
}

/* What was believed is believed longer if it is found again at once. */
static void test_believes_longer(void **unused)
{
    clv_spin_state state = {0, 0};
    uint64_t now = 1000 * MS, ns = 10 * MS;
    (void)unused;
    for (int i = 0; i < 10; i++) {
        clv_spin_busy(&state, now);
        assert_int_equal(state.busy_until - now, ns);
        clv_spin_busy(&state, now + ns / 2); /* known */
        assert_int_equal(state.busy_until - now, ns);
        now = state.busy_until + MS;
        ns = ns < 640 * MS ? 2 * ns : 640 * MS;
    }
    clv_spin_busy(&state, now + 5000 * MS);
    assert_int_equal(state.busy_ns, 10 * MS);
}

/* ------------------------------------------------------------------------ */
/* Threads that wait for one another, on one core                            */

#define THREADS 4
#define WORK 256 /* pauses: some microseconds */
#define RUN_NS (250 * MS)

typedef struct barrier {
    clv_spin_state state;
    uint64_t poll_ns;
    uint32_t arrived, passed; /* threads there now; times all were */
    int stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} barrier;

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void open_barrier(barrier *b)
{
    pthread_mutex_lock(&b->lock);
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->passed, b->passed + 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

static void *pass(void *ctx)
{
    barrier *b = ctx;
    while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE)) {
        const uint32_t before = load(&b->passed);
        clv_spin spin = {0, 0};
        for (int i = 0; i < WORK; i++)
            clv_spin_pause();
        if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == THREADS) {
            open_barrier(b);
            continue;
        }
        while (load(&b->passed) == before && b->poll_ns &&
               clv_spin_once(&spin, &b->state, b->poll_ns))
            continue;
        pthread_mutex_lock(&b->lock);
        while (b->passed == before && !b->stop)
            pthread_cond_wait(&b->wake, &b->lock);
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

static void *keep_busy(void *ctx)
{
    const barrier *b = ctx;
    while (!__atomic_load_n(&b->stop, __ATOMIC_RELAXED))
        continue;
    return NULL;
}

/* How often the threads pass the barrier, beside n_others that only compute,
 * and in *state what they found. */
static uint32_t passes(uint64_t poll_ns, int n_others, clv_spin_state *state)
{
    barrier b = {.poll_ns = poll_ns};
    pthread_t threads[THREADS + 1];
    int n = 0;
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.wake, NULL);
    for (; n < THREADS; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, pass, &b), 0);
    for (; n < THREADS + n_others; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, keep_busy, &b), 0);
    const struct timespec time = {.tv_nsec = RUN_NS};
    nanosleep(&time, NULL);
    const uint32_t passed = load(&b.passed);
    pthread_mutex_lock(&b.lock);
    __atomic_store_n(&b.stop, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&b.wake);
    pthread_mutex_unlock(&b.lock);
    while (n)
        pthread_join(threads[--n], NULL);
    pthread_cond_destroy(&b.wake);
    pthread_mutex_destroy(&b.lock);
    *state = b.state;
    return passed;
}

static void bind_to_one_core(void)
{
    cpu_set_t set;
    size_t core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(core, &set))
        core++;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
}

/* Of several tries the best of each: the core is everybody's. */
static void compare(int n_others, int noticed)
{
    uint32_t blocking = 0, polling = 0;
    clv_spin_state state;
    for (int i = 0; i < 5; i++) {
        uint32_t n = passes(0, n_others, &state);
        blocking = n > blocking ? n : blocking;
        n = passes(100000, n_others, &state);
        polling = n > polling ? n : polling;
    }
    print_message("%d others: %u passes by blocking, %u with polling\n",
                  n_others, blocking, polling);
    assert_true(polling * 3 >= blocking);
    if (noticed)
        assert_true(state.busy_ns);
}

static void test_more_threads_than_cores(void **unused)
{
    (void)unused;
    compare(0, 0);
}

static void test_beside_a_busy_loop(void **unused)
{
    (void)unused;
    compare(1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_up_soon_while_busy),
        cmocka_unit_test(test_believes_longer),
        cmocka_unit_test(test_sleeps),
        cmocka_unit_test(test_more_threads_than_cores),
        cmocka_unit_test(test_beside_a_busy_loop),
    };
    bind_to_one_core();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
