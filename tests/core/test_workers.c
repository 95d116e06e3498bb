#include "../../core/plugin/workers.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct loop {
    core_workers *workers;
    uint32_t n;
    uint32_t *hits; /* [n], each index touched by one thread only */
    _Atomic uint32_t running, most;
} loop;

static void hit(void *ctx, uint32_t i)
{
    loop *l = ctx;
    uint32_t now = atomic_fetch_add(&l->running, 1) + 1, most = l->most;
    while (now > most && !atomic_compare_exchange_weak(&l->most, &most, now))
        ;
    l->hits[i]++;
    atomic_fetch_sub(&l->running, 1);
}

static void run(loop *l)
{
    l->hits = calloc(l->n + 1, sizeof *l->hits);
    core_workers_run(l->workers, l->n, hit, l);
    for (uint32_t i = 0; i < l->n; i++)
        assert_int_equal(l->hits[i], 1);
    free(l->hits);
}

static void test_every_index_once(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads <= 4; threads++) {
        core_workers *workers;
        assert_ok(core_workers_create(threads, &workers));
        for (uint32_t n = 0; n < 300; n += 1 + n / 2) {
            loop l = {.workers = workers, .n = n};
            run(&l);
            assert_true(l.most <= (threads ? threads : 1));
        }
        core_workers_destroy(workers);
    }
    core_workers_destroy(NULL);
    assert_true(core_processor_count() >= 1);
}

static void *caller(void *arg)
{
    for (uint32_t i = 0; i < 200; i++) {
        loop l = {.workers = arg, .n = 1 + i % 17};
        run(&l);
    }
    return NULL;
}

/* Loops of several threads at once, over one pool. */
static void test_callers(void **state)
{
    (void)state;
    core_workers *workers;
    assert_ok(core_workers_create(3, &workers));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, caller, workers), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    core_workers_destroy(workers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
